"""What the hub starts as a student: it closes the home, copies the notebooks, and serves.

The copies go to ``~/work``; what is there already is left as it is.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def close(home: Path) -> None:
    """Take the home's permissions from everybody else: many systems make homes readable."""
    mode = home.stat().st_mode & 0o7777
    if mode & 0o077:
        home.chmod(mode & 0o7700)


def main() -> None:
    """Become the student's server; the arguments are JupyterHub's."""
    os.umask(0o077)
    close(Path.home())
    copies = Path.home() / "work"
    os.environ["WORK"] = str(copies)
    sys.path.insert(0, str(ROOT))
    from tools import work

    work.prepare()
    os.chdir(copies)  # where nbgrader's list puts what it fetches
    command = [sys.executable, "-m", "jupyterhub.singleuser", *sys.argv[1:]]
    sys.stdout.flush()
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
