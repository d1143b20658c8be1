"""The GPU path, where there is a GPU; ``make gpu`` runs these."""

import numpy as np
import pytest

from helpers import cuda
from helpers.cuda import Module, gpu

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(gpu.missing()), reason=gpu.missing() or "-")]

SOURCE = """
__constant__ float factor[1];
__global__ void scale(float *x, int n, float shift) {
    extern __shared__ float unused[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * factor[0] + shift;
}
__global__ void wild(float *x) { x[1ll << 40] = 1; }
"""


@pytest.fixture(scope="module")
def module():
    made = Module(SOURCE, device="gpu")
    made.constant("factor", np.array([3], np.float32))
    return made


def test_numpy_arrays_are_copied_there_and_back(module):
    x = np.arange(1000, dtype=np.float32)
    module["scale"][4, 256](x, 1000, 0.5)
    assert np.array_equal(x, 3 * np.arange(1000, dtype=np.float32) + 0.5)
    assert module.resources["scale"].registers > 0


def test_torch_tensors_pass_without_a_copy_on_torchs_stream(module):
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(1 << 20, device="cuda")
        for _ in range(10):
            x += 1
            module["scale"][4096, 256](x, 1 << 20, 0.0)
        expected = sum(3.0**k for k in range(1, 11))
        assert x.min().item() == x.max().item() == expected


def test_large_dynamic_shared_memory_is_asked_for(module):
    x = np.ones(32, np.float32)
    module["scale"][1, 32, 60_000](x, 32, 0.0)
    assert x.tolist() == [3.0] * 32
    with pytest.raises(cuda.LaunchError, match="a block has at most"):
        module["scale"][1, 32, 1_000_000](x, 32, 0.0)


def test_checking_is_refused_with_advice(module):
    with pytest.raises(cuda.LaunchError, match="device='cpu'"):
        module["scale"][1, 32](np.ones(32, np.float32), 32, 0.0, check=True)


def test_execution_errors_come_by_name():
    """In a process of its own: a fault ends the device's context."""
    import subprocess
    import sys

    program = (
        "import numpy as np; from helpers.cuda import Module\n"
        f"m = Module({SOURCE!r}, device='gpu')\n"
        "m['wild'][1, 1](np.zeros(4, np.float32))\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                            timeout=120)  # fmt: skip
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in answer.stderr
