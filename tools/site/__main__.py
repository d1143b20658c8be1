"""``make site``: execute, lay out, build with Sphinx into ``build/site``, and check every page.

``make html`` makes single pages of that too, in ``build/html``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat

from helpers.paths import ROOT
from tools import run
from tools.executed import executed
from tools.notebooks import asked_for
from tools.notebooks import sources as course
from tools.site import single, sources
from tools.site.faults import faults


def build(folder: Path, output: Path) -> str:
    """Run Sphinx over a folder that ``sources.write`` filled; return what it complained of."""
    command = [sys.executable, "-m", "sphinx", "-q", "-c", str(ROOT / "docs"), "-j", "auto"]
    command += ["-D", f"html_extra_path={folder / 'extra'}"]
    # Autodoc imports what imports MPI, which would leave its memory behind in Sphinx's processes.
    environment = os.environ | {"MPI4PY_RC_INITIALIZE": "0"}
    done = subprocess.run(
        [*command, str(folder), str(output)], capture_output=True, text=True, env=environment
    )
    for needless in (".doctrees", "_sources"):
        shutil.rmtree(output / needless, ignore_errors=True)
    (output / ".buildinfo").unlink(missing_ok=True)
    complaint = done.stderr.strip()
    return complaint or ("" if done.returncode == 0 else f"sphinx ended with {done.returncode}")


def main(arguments: list[str] | None = None) -> int:
    """Command line; 1 if a notebook fails, Sphinx complains or a page has a fault."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument(
        "only", nargs="*", metavar="NN", help="numbers or names; the others stay without outputs"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--single", type=Path, metavar="FOLDER", help="for pages in one file each")
    options = parser.parse_args(arguments)
    names = asked_for(parser, options.only)
    done, problems = executed(names)
    others = [path.stem for path in course(ROOT) if path.stem not in done]
    kept = {name: nbformat.read(run.location(name, "solved"), 4) for name in others}
    shutil.rmtree(options.output, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="site-") as folder:
        written, made = Path(folder, "source"), Path(folder, "site")
        sources.write(written, dict(sorted({**kept, **done}.items())))
        complaint = build(written, made)
        shutil.move(made, options.output)  # MyST-NB leaves a folder beside what it makes
    problems += [*complaint.splitlines(), *faults(options.output)]
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    print(f"{options.output / 'index.html'}: {len(list(options.output.rglob('*.html')))} pages")
    if options.single:
        for page in single.write(options.output, names, options.single):
            print(f"{page}  {page.stat().st_size / 1e6:.2f} MB")
        more = faults(options.single)
        print("\n".join(more), file=sys.stderr, end="\n" if more else "")
        problems += more
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
