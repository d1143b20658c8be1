"""The rungs of the 2-D convolution ladder (kernels/convolution.cu) behind one call."""

from __future__ import annotations

import numpy as np

from helpers.cuda.errors import LaunchError
from helpers.cuda.module import Module

RUNGS = ("global", "constant", "tiled", "rows")
BORDERS = {"zero": 0, "replicate": 1, "reflect": 2}
ROWS_BLOCK = 128  # threads of the last rung's blocks


class Convolution:
    """2-D convolution of one channel (float32) with an odd filter, by any rung of the ladder.

    >>> blur = Convolution(np.full((3, 3), 1 / 9, np.float32), device="cpu")
    >>> out = blur(image)  # the last rung; blur(image, rung="tiled") another

    ``weights`` is (rows, columns), both odd, not flipped (as in ``torch.nn.functional.conv2d``).
    ``border`` is "zero", "replicate" or "reflect". ``tile`` is (height, width) of the blocks of the
    first three rungs, ``strip`` the outputs down a column of a thread of the last.
    Raises LaunchError for a filter or image of another shape, dtype or name.
    """

    def __init__(
        self,
        weights: np.ndarray,
        border: str = "zero",
        *,
        tile: tuple[int, int] = (8, 32),
        strip: int = 32,
        device: str = "auto",
        **options: object,
    ):
        weights = np.ascontiguousarray(weights, np.float32)
        if weights.ndim != 2 or not all(n % 2 for n in weights.shape):
            raise LaunchError(f"expected a filter of odd rows and columns; got {weights.shape}")
        if border not in BORDERS:
            raise LaunchError(f"border must be one of {', '.join(BORDERS)}; got {border!r}")
        if min(*tile, strip) < 1:
            raise LaunchError(f"tile and strip must be 1 or more; got {tile} and {strip}")
        self.weights, self.border, self.tile, self.strip = weights, border, tile, strip
        defines = {
            "FILTER_HEIGHT": weights.shape[0],
            "FILTER_WIDTH": weights.shape[1],
            "BORDER": BORDERS[border],
            "TILE_HEIGHT": tile[0],
            "TILE_WIDTH": tile[1],
            "STRIP": strip,
        }
        self.module = Module("convolution.cu", defines, device, **options)
        self.module.constant("weights", weights)

    def launch(self, rung: str, image: object, out: object) -> tuple:
        """Return (launch, arguments) of a rung: ``launch(*arguments)`` runs it."""
        if rung not in RUNGS:
            raise LaunchError(f"rung must be one of {', '.join(RUNGS)}; got {rung!r}")
        if len(image.shape) != 2 or tuple(image.shape) != tuple(out.shape) or 0 in image.shape:
            raise LaunchError(
                f"expected an image (rows, columns) and an output of its shape; got "
                f"{tuple(image.shape)} and {tuple(out.shape)}"
            )
        height, width = map(int, image.shape)
        if rung == "rows":
            threads = min(ROWS_BLOCK, 32 * _groups(width, 4 * 32))
            grid = (_groups(width, 4 * threads), _groups(height, self.strip))
            block = (threads, 1)
        else:
            block = self.tile[::-1]
            grid = (_groups(width, block[0]), _groups(height, block[1]))
        kernel = self.module[f"convolve_{rung}"]
        weights = (self._weights_beside(image),) if rung == "global" else ()
        return kernel[grid, block], (image, *weights, out, height, width)

    def _weights_beside(self, image: object) -> object:
        """Return the filter where the image is: on the GPU for a CUDA tensor."""
        if getattr(image, "is_cuda", False):
            import torch

            return torch.from_numpy(self.weights).to(image.device)
        return self.weights

    def __call__(self, image: object, rung: str = "rows") -> object:
        """Return the convolved image: NumPy in, NumPy out; a CUDA tensor in, one out."""
        if isinstance(image, np.ndarray):
            out = np.empty_like(image)
        else:
            out = image.new_empty(image.shape)
        launch, arguments = self.launch(rung, image, out)
        launch(*arguments)
        return out

    def record(self, image: np.ndarray, rung: str, **options: object):
        """Run a rung on the CPU and return its :class:`AccessRecord`."""
        launch, arguments = self.launch(rung, image, np.empty_like(image))
        return launch.record(*arguments, **options)


def flops(shape: tuple[int, int], weights: tuple[int, int]) -> int:
    """Return the multiplications and additions of one convolution (2 for each filter entry)."""
    return 2 * shape[0] * shape[1] * weights[0] * weights[1]


def _groups(items: int, size: int) -> int:
    return -(-items // size)
