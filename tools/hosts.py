"""Try whether this machine can be several hosts, and say what would let it (``make hosts``).

JupyterLab is opened afterwards in either case: what needs a network is skipped without one.
"""

import sys

from helpers.checkup import FAILS, hosts


def main() -> int:
    """Print one line; 1 if hosts can be had and do not work."""
    found = hosts()
    print(found, flush=True)
    return int(found.status == FAILS)


if __name__ == "__main__":
    sys.exit(main())
