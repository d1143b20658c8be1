"""Each kernel of this environment loads ``helpers.at_work``, also where no notebook says so.

``python tools/kernels.py`` writes a line in the file in which IPython looks for an environment's
settings; what a reader wrote there stays.
"""

import contextlib
import os
import sys

EXTENSION = "helpers.at_work"
MARK = "  # parallel-deep-learning"


def place():
    """Return the file of this environment in which IPython's kernels find their settings."""
    return os.path.join(sys.prefix, "etc", "ipython", "ipython_kernel_config.py")


def line():
    """Return the setting; of a course that is gone it says nothing."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    module = os.path.join(here, *EXTENSION.split(".")) + ".py"
    load = f"get_config().IPKernelApp.extensions.append({EXTENSION!r})"
    return f"import os; os.path.exists({module!r}) and {load}{MARK}\n"


def install():
    """Have every kernel of this environment load the extension at its start."""
    before = ""
    with contextlib.suppress(FileNotFoundError), open(place(), encoding="utf-8") as file:
        before = file.read()
    others = [text for text in before.splitlines(keepends=True) if MARK not in text]
    after = "".join([*others, line()])
    if after != before:
        os.makedirs(os.path.dirname(place()), exist_ok=True)
        with open(place(), "w", encoding="utf-8") as file:
            file.write(after)


if __name__ == "__main__":
    install()
