"""Each kernel of this environment loads ``helpers.at_work``, also where no notebook says so.

``python tools/kernels.py`` writes the setting where IPython looks in an environment.
"""

import os
import sys

EXTENSION = "helpers.at_work"


def place():
    """Return the file of this environment in which IPython's kernels find their settings."""
    return os.path.join(sys.prefix, "etc", "ipython", "ipython_kernel_config.py")


def ensure():
    """Install where nobody has: conda's environment is made without `tools/setup.sh`."""
    if not os.path.exists(place()):
        install()


def install():
    """Have every kernel of this environment load the extension at its start."""
    os.makedirs(os.path.dirname(place()), exist_ok=True)
    with open(place(), "w", encoding="utf-8") as file:
        file.write(f'c = get_config()\nc.IPKernelApp.extensions.append("{EXTENSION}")\n')


if __name__ == "__main__":
    install()
