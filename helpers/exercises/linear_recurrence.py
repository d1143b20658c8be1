"""The check behind the scan of 03: a linear recurrence in few tensor operations."""

from __future__ import annotations

import math

from helpers.exercises.core import call, close, exercise, wrong

EACH_ROUND = 12  # operations that a round may take, and as many before and after all rounds


@exercise(time_limit=20)
def parallel_scan(answer):
    """answer(a, b) -> h (T, ...) with h_t = a_t h_(t−1) + b_t, in about log2(T) rounds."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counted(TorchDispatchMode):
        """Counts operations on tensors."""

        operations = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.operations += 1
            return function(*args, **(kwargs or {}))

    generator = torch.Generator().manual_seed(0)
    for shape in ((1, 3), (2,), (5, 2), (64, 2, 3), (300, 2)):
        a, b = (2 * torch.rand(shape, generator=generator).double() - 1 for _ in range(2))
        a[::7] = 0  # a step that forgets everything
        given, what = (a.clone(), b.clone()), f"a and b of shape {shape}"
        with Counted() as counted:
            got = call(answer, *given)
        if not isinstance(got, torch.Tensor) or got.shape != b.shape:
            shown = tuple(got.shape) if isinstance(got, torch.Tensor) else repr(got)
            wrong(f"{what}: expected a tensor of the shape of b, got {shown}")
        if not (torch.equal(given[0], a) and torch.equal(given[1], b)):
            wrong(f"{what}: it changes a or b")
        h, wanted = torch.zeros_like(b[0]), []
        for a_t, b_t in zip(a, b, strict=True):
            h = a_t * h + b_t
            wanted.append(h)
        close(got, torch.stack(wanted), what, atol=1e-12)
        most = EACH_ROUND * (math.ceil(math.log2(shape[0])) + 1)
        if shape[0] > 100 and counted.operations > most:
            wrong(f"{what}: right, but it takes {counted.operations} tensor operations")
