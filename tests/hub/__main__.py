"""Hold a lesson on the hub by hand, as root: ``python -m tests.hub 10`` for ten students.

Prints when each step was done, and the memory of each user's processes while all have a notebook
open and two ranks: proportional set size, what several processes share being divided among them.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.hub import lesson, world


def main(students: int) -> int:
    """Hold it; return an exit status."""
    if why := world.why_not():
        print(why, file=sys.stderr)
        return 1
    subprocess.run(["sh", str(lesson.RECIPE / "setup.sh")], check=True)
    with tempfile.TemporaryDirectory(prefix="hub-") as folder:
        seen, said = world.hold(Path(folder), students)
    print(said)
    if not seen:
        return 1
    each = [size / 1e6 for size in seen["pss"].values()]
    print(
        f"memory of a student: {statistics.median(each):.0f} MB ({min(each):.0f}-{max(each):.0f}),"
    )
    print(
        f"all {len(each)}: {sum(each) / 1e3:.2f} GB; root's: {seen['pss of the hub'] / 1e6:.0f} MB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
