"""The rungs of the 2-D convolution ladder (kernels/convolution.cu) behind one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.cuda.errors import LaunchError
from helpers.cuda.launch import Launch
from helpers.cuda.module import Module
from helpers.cuda.record import AccessRecord

RUNGS = ("global", "constant", "tiled", "rows")
BORDERS = {"zero": 0, "replicate": 1, "reflect": 2}
ROWS_BLOCK = 128  # threads of the last rung's blocks


class Convolution:
    """2-D convolution of one channel (float32) with an odd filter, by any rung of the ladder.

    >>> blur = Convolution(np.full((3, 3), 1 / 9, np.float32), device="cpu")
    >>> image = np.ones((64, 64), np.float32)
    >>> out = blur(image)  # the last rung; blur(image, rung="tiled") another
    >>> round(float(out[1, 1]), 3), round(float(out[0, 0]), 3)  # beyond the border all is zero
    (1.0, 0.444)

    Parameters
    ----------
    weights : numpy.ndarray
        Shape (rows, columns), both odd; not flipped (as in ``torch.nn.functional.conv2d``).
    border : str, default "zero"
        "zero", "replicate" or "reflect".
    tile : tuple of int, default (8, 32)
        (height, width) of the blocks of the first three rungs.
    strip : int, default 32
        Outputs down a column of a thread of the last rung.
    """

    def __init__(
        self,
        weights: np.ndarray,
        border: str = "zero",
        *,
        tile: tuple[int, int] = (8, 32),
        strip: int = 32,
        device: str = "auto",
        **options: Any,
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

    def launch(self, rung: str, image: Any, out: Any) -> tuple[Launch, tuple]:
        """Return a rung's launch and arguments: ``launch(*arguments)`` runs it.

        Both arrays are (rows, columns), float32. LaunchError for another rung or shape.
        """
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

    def _weights_beside(self, image: Any) -> Any:
        """Return the filter where the image is: on the GPU for a CUDA tensor."""
        if getattr(image, "is_cuda", False):
            import torch

            return torch.from_numpy(self.weights).to(image.device)
        return self.weights

    def __call__(self, image: Any, rung: str = "rows") -> Any:
        """Return the convolved image: NumPy in, NumPy out; a CUDA tensor in, one out."""
        if isinstance(image, np.ndarray):
            out = np.empty_like(image)
        else:
            out = image.new_empty(image.shape)
        launch, arguments = self.launch(rung, image, out)
        launch(*arguments)
        return out

    def record(self, image: np.ndarray, rung: str, **options: Any) -> AccessRecord:
        """Run a rung on the CPU and return what it touched; options are :meth:`Launch.record`'s."""
        launch, arguments = self.launch(rung, image, np.empty_like(image))
        return launch.record(*arguments, **options)


def flops(shape: tuple[int, int], weights: tuple[int, int]) -> int:
    """Return the multiplications and additions of one convolution, of (rows, columns) each."""
    return 2 * shape[0] * shape[1] * weights[0] * weights[1]


def _groups(items: int, size: int) -> int:
    return -(-items // size)
