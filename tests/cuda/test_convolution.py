"""Every rung equals SciPy, for every border, odd shapes and filters, and compiles under NVRTC."""

import functools

import numpy as np
import pytest

from helpers import cuda
from helpers.cuda import Module, gpu
from helpers.cuda.gpu import nvrtc
from helpers.cuda.ladder import BORDERS, RUNGS, Convolution, flops
from helpers.cuda.module import KERNELS

SHAPES = [(1, 1), (1, 37), (37, 1), (5, 3), (64, 64), (33, 130), (70, 256)]
FILTERS = [(1, 1), (5, 5), (15, 15), (3, 7)]
# The same borders under SciPy's names (scipy.ndimage.correlate).
SCIPY_MODES = {"zero": "constant", "replicate": "nearest", "reflect": "mirror"}
DEVICES = ["cpu", pytest.param("gpu", marks=[pytest.mark.gpu, pytest.mark.skipif(
    bool(gpu.missing()), reason="no GPU")])]  # fmt: skip


@functools.cache
def weights(shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def correlate(image, filter_, mode):
    """SciPy's, or where a GPU machine lacks SciPy the definition itself, in NumPy."""
    try:
        from scipy import ndimage
    except ImportError:
        radius = [(n // 2, n // 2) for n in filter_.shape]
        mode = {"nearest": "edge", "mirror": "reflect"}.get(mode, mode)
        padded = np.pad(image.astype(np.float64), radius, mode=mode)
        windows = np.lib.stride_tricks.sliding_window_view(padded, filter_.shape)
        return np.einsum("yxji,ji->yx", windows, filter_.astype(np.float64))
    return ndimage.correlate(image, filter_, mode=mode)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", FILTERS, ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("border", BORDERS)
def test_every_rung_equals_scipy(border, shape, device):
    rng = np.random.default_rng(1)
    filter_ = weights(shape)
    convolution = Convolution(filter_, border, device=device, verify=False)
    try:
        for size in SHAPES:
            image = rng.standard_normal(size).astype(np.float32)
            want = correlate(
                image.astype(np.float64), filter_.astype(np.float64), mode=SCIPY_MODES[border]
            )
            tolerance = 2e-6 * np.abs(filter_).sum() * np.abs(image).max()
            for rung in RUNGS:
                got = convolution(image, rung)
                assert np.abs(got - want).max() <= tolerance, (size, rung)
    finally:
        convolution.module.close()


@pytest.mark.parametrize("sizes", [{}, {"tile": (5, 7), "strip": 9}])
def test_every_rung_is_free_of_faults(sizes):
    image = np.random.default_rng(0).random((41, 67), np.float32)
    convolution = Convolution(weights((5, 5)), "reflect", device="cpu", check=True, **sizes)
    want = correlate(image, weights((5, 5)), mode="mirror")
    for rung in RUNGS:
        np.testing.assert_allclose(convolution(image, rung), want, atol=1e-4)
    convolution.module.close()


def test_vector_addition_and_access_kernels():
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 1000), np.float32)
    c = np.zeros_like(a)
    with Module("vector_add.cu", device="cpu", check=True) as module:
        module["vector_add"][4, 256](a, b, c, 1000)
    assert np.array_equal(c, a + b)
    matrix = rng.random((40, 70), np.float32)
    with Module("access.cu", device="cpu", check=True) as module:
        for name, block, grid in [
            ("copy_along_rows", (32, 8), (3, 5)),
            ("copy_along_columns", (32, 8), (2, 9)),
        ]:
            out = np.zeros_like(matrix)
            module[name][grid, block](matrix, out, 40, 70)
            assert np.array_equal(out, matrix), name
        out = np.zeros((70, 40), np.float32)
        module["transpose"][(3, 2), (32, 8)](matrix, out, 40, 70)
        assert np.array_equal(out, matrix.T)


def test_the_bandwidth_kernel_reads_every_element_in_every_round():
    x = np.random.default_rng(0).random(4 * 1001, np.float32)
    sums = np.zeros(3 * 64, np.float32)
    with Module("bandwidth.cu", device="cpu", check=True) as module:
        record = module["read_rounds"][3, 64].record(x, sums, 1001, 5)
    assert sums.sum() == pytest.approx(5 * x.sum(), rel=1e-5)
    assert record.requested_bytes(array="x", kind="read") == 5 * x.nbytes


@pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing() or "NVRTC is here")
@pytest.mark.parametrize("path", sorted(KERNELS.glob("*.cu")), ids=lambda p: p.name)
def test_nvrtc_compiles_every_kernel_for_old_and_new_architectures(path):
    module = Module(path, device="cpu")
    known = nvrtc.architectures()
    assert {75, 80, 90} <= set(known)
    for arch in (75, max(known)):
        compiled = module.compile_for(f"sm_{arch}")
        assert compiled.cubin[:4] == b"\x7fELF"  # a cubin, which the driver loads
        resources = compiled.resources
        assert set(resources) == set(module.signatures)
        for name, used in resources.items():
            assert 0 < used.registers <= 128, (arch, name)
            assert used.spilled == 0, (arch, name)


@pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing() or "NVRTC is here")
def test_what_is_not_cuda_is_refused_though_a_cpu_would_take_it():
    text = "#include <vector>\n__global__ void f(float *x) { std::vector<int> v; x[0] = 1; }"
    with pytest.raises(cuda.CompileError, match=r"line 1: .*vector"):
        Module(text, device="cpu", name="f.cu")
    module = Module("__global__ void f(float *x) { x[0] = 1; }", device="cpu")
    with pytest.raises(cuda.CudaError, match=r"does not compile for 'sm_10'; it knows sm_75"):
        module.compile_for("sm_10")


def test_filters_and_images_that_do_not_fit():
    with pytest.raises(cuda.LaunchError, match=r"odd rows and columns; got \(2, 3\)"):
        Convolution(np.zeros((2, 3)))
    with pytest.raises(cuda.LaunchError, match=r"border must be one of .*; got 'wrap'"):
        Convolution(np.zeros((3, 3)), "wrap")
    convolution = Convolution(weights((3, 3)), device="cpu")
    with pytest.raises(cuda.LaunchError, match=r"got \(0, 4\)"):
        convolution(np.zeros((0, 4), np.float32))
    with pytest.raises(cuda.LaunchError, match=r"rung must be one of"):
        convolution(np.zeros((4, 4), np.float32), "fast")
    with pytest.raises(cuda.LaunchError, match="expected float32, got array of float64"):
        convolution(np.zeros((4, 4)))
    convolution.module.close()
    assert flops((10, 20), (3, 5)) == 2 * 10 * 20 * 15
