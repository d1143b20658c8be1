"""Launch on a GPU what the lockstep models describe, compiled without optimisation.

``python -m tests.cuda.hardware`` under Nsight Compute counts what the models count: optimised code
joins accesses, leaves them out, or makes of a branch a choice between two values.
"""

import numpy as np

from tests.cuda import lockstep_shared, lockstep_ways
from tests.cuda.lockstep import X

MODELS = (lockstep_ways.KERNELS, lockstep_shared.KERNELS)


def launch_all():
    """Launch every kernel once, in order."""
    from cuda.bindings import nvrtc

    optimised = nvrtc.nvrtcCompileProgram

    def plain(program, count, options):
        kept = [option for option in options if option != b"-lineinfo"] + [b"--device-debug"]
        return optimised(program, len(kept), kept)

    nvrtc.nvrtcCompileProgram = plain
    for models in MODELS:
        module = models.module("gpu")
        for name, (_, block, grid, _) in models.items():
            module[name][grid, block](X, np.zeros(4096, np.int32))


if __name__ == "__main__":
    launch_all()
