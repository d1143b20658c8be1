"""Word vectors trained on the Debian descriptions outside the snapshot.

Built by ``data/debian/word_vectors.py``, which states how.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.datasets.files import read_checked

if TYPE_CHECKING:
    import numpy as np

FILE = Path("debian") / "word_vectors.npz"


def load_word_vectors(data: Path | None = None) -> tuple[list[str], np.ndarray]:
    """Return the words, most frequent first, and their unit vectors, float32 (words, 100).

    Raises DataError for a missing or damaged file.
    """
    import numpy as np

    with np.load(io.BytesIO(read_checked(FILE, data))) as kept:
        vocabulary = kept["words"].item().decode().split("\n")
        return vocabulary, kept["vectors"].astype(np.float32) * kept["scale"]
