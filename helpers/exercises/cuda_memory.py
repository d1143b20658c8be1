"""Checks behind the exercises of notebook 05 on constant memory."""

from __future__ import annotations

import numpy as np

from helpers.exercises.core import close, wrong
from helpers.exercises.kernels import compiled, kernel_exercise, run, shared_out


@kernel_exercise
def constant_filter(answer):
    """from_constant(image, out, height, width): 5 × 5, its weights in ``__constant__`` taps."""
    from scipy.ndimage import correlate

    from helpers.cuda import CudaError

    rng = np.random.default_rng(3)
    with compiled(answer) as module:
        for height, width in ((16, 64), (13, 37)):
            image = rng.random((height, width), np.float32)
            weights = rng.standard_normal((5, 5)).astype(np.float32)
            try:
                module.constant("taps", weights)
            except CudaError as error:
                wrong(f"the host cannot fill taps with 25 floats: {error}")
            out, what = np.full_like(image, np.nan), f"{height} × {width}"
            want = correlate(image, weights, mode="constant")  # the kernel may write to image
            grid = (-(-width // 32), -(-height // 8))
            record = run(module, "from_constant", grid, (32, 8), image, out, height, width,
                         record=True)  # fmt: skip
            close(out, want, f"out for {what}", rtol=1e-4, atol=1e-4)
            shared_out(record, "out", "write", 1, what)
