#!/bin/sh
# GPU tests and benchmarks with a Python that is already there: make gpu PYTHON=python3 OUT=data/gpu
#
# Installs nothing. Needs Python 3.11 or later with torch 2.11 or later that sees a GPU; pytest for
# the tests.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-}
if [ -z "$python" ]; then
    if [ -x .venv/bin/python ]; then python=.venv/bin/python; else python=python3; fi
fi
if ! command -v "$python" >/dev/null; then
    echo "make gpu: PYTHON=$python is not a program here." >&2
    exit 1
fi
"$python" - <<'END'
import sys

if sys.version_info < (3, 11):
    sys.exit(f"make gpu needs Python 3.11 or later; {sys.executable} is {sys.version.split()[0]}.")
try:
    import torch
except ImportError as error:
    sys.exit(f"make gpu needs torch 2.11 or later; {sys.executable} cannot import it: {error}.")
if tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < (2, 11):
    sys.exit(f"make gpu needs torch 2.11 or later; {sys.executable} has {torch.__version__}.")
if not torch.cuda.is_available():
    built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
    sys.exit(
        f"make gpu: there is no GPU that torch {torch.__version__} ({built}) can use on this "
        "machine, so nothing was measured. Run it where nvidia-smi lists one."
    )
print(f"torch {torch.__version__} on {torch.cuda.get_device_name(0)}", flush=True)
END
tests=0
if "$python" -c 'import pytest' 2>/dev/null; then
    # Only the files that hold such tests: others may import what this Python lacks.
    files=$(grep -rl --include='test_*.py' --exclude-dir=environment 'pytest.mark.gpu' tests)
    "$python" -m pytest -m gpu -p no:cacheprovider --durations=10 $files || tests=$?
    # 5: nothing was collected, which is no failure of the GPU
    if [ "$tests" = 5 ]; then tests=0; fi
else
    echo "pytest is not installed for $python: the GPU tests are left out." >&2
fi
"$python" -m bench --gpu --out "${OUT:-data/gpu}" || exit 1
exit "$tests"
