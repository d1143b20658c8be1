"""Time of CUDA C convolutions, checked or recorded on a CPU, and on a GPU."""

from __future__ import annotations

import numpy as np

from bench.launch import gpu_time
from helpers.cuda import Module
from helpers.cuda.ladder import RUNGS, Convolution, flops
from helpers.records import Row
from helpers.timing import measure

SUITE = "cuda"
SIZES = (4096, 8192, 16384)  # rows and columns of the image
FILTERS = (3, 5, 7, 9, 11)
CUDNN, CUPY = "torch conv2d (cuDNN, fp32)", "CuPy ndimage.correlate"
COPY, PEAK = "device copy", "torch matmul, fp32"


def rows() -> list[Row]:
    """Time each rung on this CPU: plain beside checked, beside recorded, and SciPy alone."""
    from scipy.ndimage import correlate

    rng = np.random.default_rng(0)
    image = rng.random((512, 512), np.float32)
    weights = rng.random((5, 5), np.float32)
    convolution = Convolution(weights, device="cpu", timeout=120)
    found = []
    try:
        scipy = measure(lambda: correlate(image, weights, mode="constant"), repeats=5).median
        for rung in RUNGS:
            launch, arguments = convolution.launch(rung, image, np.empty_like(image))
            ways = {
                "": lambda launch=launch, a=arguments: launch(*a),
                ", checked": lambda launch=launch, a=arguments: launch(*a, check=True),
                ", recorded": lambda launch=launch, a=arguments: launch.record(*a, blocks=[]),
            }
            shape = {"size": 512, "filter": 5}
            times = {way: measure(run, repeats=5, warmup=1).median for way, run in ways.items()}
            plain = 1e3 * times[""]
            found.append(
                Row(f"convolve_{rung}", plain, "ms", "scipy correlate", 1e3 * scipy, shape)
            )
            for way in (", checked", ", recorded"):
                name = f"convolve_{rung}{way}"
                found.append(Row(name, 1e3 * times[way], "ms", "the kernel alone", plain, shape))
    finally:
        convolution.module.close()
    return found + _product_rows()


def _product_rows(n: int = 256) -> list[Row]:
    """Time a product by tiles of 16 × 16: plain, checked, recorded, and with its warps' passes."""
    a, b = np.random.default_rng(0).random((2, n, n), np.float32)
    c, found = np.zeros_like(a), []
    with Module("product.cu", device="cpu", timeout=120, verify=False) as module:
        launch = module["square_product<16>"][(n // 16, n // 16), (16, 16)]
        given = (a, b, c, n, n, n)
        ways = {
            ", checked": lambda: launch(*given, check=True),
            ", recorded": lambda: launch.record(*given, blocks=[]),
            ", warps": lambda: launch.warps(*given, limit=200_000_000),
        }
        plain = 1e3 * measure(lambda: launch(*given), repeats=5, warmup=1).median
        for way, run in ways.items():
            repeats = 1 if way == ", warps" else 3  # half a minute
            time = 1e3 * measure(run, repeats=repeats, warmup=repeats // 3).median
            found.append(Row(f"product{way}", time, "ms", "the kernel alone", plain, {"size": n}))
    return found


def gpu_rows() -> list[Row]:
    """Time each rung on the GPU beside cuDNN, CuPy where present, and a device copy."""
    import torch

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False  # all in fp32, as our kernels are
    found = [_peak(torch)]
    for n in SIZES:
        if torch.cuda.mem_get_info()[0] < 8 * 4 * n * n:
            print(f"{n} × {n} left out: not enough free memory on this GPU")
            continue
        buffers = _buffers(torch, n)
        copy = gpu_time(lambda image, out: out.copy_(image), buffers)
        rate = 2 * 4 * n * n / copy / 1e3  # bytes per µs → GB/s
        found.append(Row(COPY, copy, "µs", parameters={"size": n}))
        found.append(Row(f"{COPY}, read and write", rate, "GB/s", parameters={"size": n}))
        for k in FILTERS:
            found += _filter_rows(torch, n, k, buffers, copy)
        del buffers
        torch.cuda.empty_cache()
    return found


def _peak(torch, n: int = 8192) -> Row:
    """The arithmetic that this GPU is seen to reach in fp32: a large matrix product."""
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.rand((n, n), device="cuda") for _ in range(2))
    time = gpu_time(lambda out: torch.matmul(a, b, out=out), [(torch.empty_like(a),)])
    return Row(PEAK, 2 * n**3 / time / 1e3, "GFLOP/s", parameters={"size": n})


def _buffers(torch, n: int) -> list[tuple]:
    """Images and outputs to take in turn, together beyond any L2: no run finds its data there."""
    pairs = 4 if n <= 8192 else 2
    generator = torch.Generator("cuda").manual_seed(0)
    return [
        (torch.rand((n, n), device="cuda", generator=generator),
         torch.empty((n, n), device="cuda"))
        for _ in range(pairs)
    ]  # fmt: skip


def _filter_rows(torch, n: int, k: int, buffers: list[tuple], copy: float) -> list[Row]:
    weights = np.random.default_rng(k).random((k, k), np.float32) / k**2
    convolution = Convolution(weights, device="gpu")
    kernel = torch.from_numpy(weights).cuda()[None, None]

    def cudnn(image, out=None):
        return torch.nn.functional.conv2d(image[None, None], kernel, padding=k // 2)

    image, out = buffers[0]
    shape = {"size": n, "filter": k}
    peers = {COPY: copy, CUDNN: None, CUPY: None}
    try:
        want = cudnn(image)[0, 0]
        peers[CUDNN] = gpu_time(cudnn, buffers)
    except torch.cuda.OutOfMemoryError:
        print(f"cuDNN has not enough memory for {n} × {n}, {k} × {k}")
        want = None
    peers[CUPY] = _cupy(torch, weights, buffers)
    found = []
    for rung in RUNGS:
        launch, _ = convolution.launch(rung, image, out)
        extra = (kernel.reshape(-1),) if rung == "global" else ()
        run = lambda a, b, launch=launch, extra=extra: launch(a, *extra, b, n, n)  # noqa: E731
        run(image, out)
        if want is not None and not torch.allclose(
            out, want, rtol=1e-4, atol=1e-4
        ):  # cuDNN may choose FFT or Winograd
            error = (out - want).abs().max().item()
            raise AssertionError(f"convolve_{rung}, {shape}: differs from cuDNN by {error}")
        ours = gpu_time(run, buffers)
        for peer, value in peers.items():
            if value is not None:
                found.append(Row(f"convolve_{rung}", ours, "µs", peer, value, shape))
        rate = flops((n, n), (k, k)) / ours / 1e3
        found.append(Row(f"convolve_{rung}, arithmetic", rate, "GFLOP/s", parameters=shape))
    return found


def _cupy(torch, weights: np.ndarray, buffers: list[tuple]) -> float | None:
    try:
        import cupy
        from cupyx.scipy import ndimage
    except ImportError:
        return None
    kernel = cupy.asarray(weights)

    def run(image, out):
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        with stream:
            ndimage.correlate(cupy.asarray(image), kernel, cupy.asarray(out), mode="constant")

    return gpu_time(run, buffers)
