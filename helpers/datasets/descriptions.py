"""Debian 12 package descriptions with their section: documents of sentences of words, offline.

    snapshot = load_descriptions()
    train, test = snapshot.split(fold=0)
    train[0].section, train[0].sentences

Built by ``data/debian/descriptions.py``; origin, date and licence stand in ``snapshot.about``. The
word vectors come from the descriptions outside the snapshot; ``data/debian/word_vectors.py`` says
how.
"""

from __future__ import annotations

import difflib
import io
import json
import lzma
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.datasets import read_checked
from helpers.datasets.text import sentences, words

if TYPE_CHECKING:
    import numpy as np

FILE, VECTORS = Path("debian") / "descriptions.jsonl.xz", Path("debian") / "word_vectors.npz"
FOLDS = 5


@dataclass(frozen=True)
class Document:
    """One package: its name, source package, section (the label), fold, and description."""

    package: str
    source: str
    section: str
    fold: int
    text: str = field(repr=False)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The sentences as a person reads them, markup, links and own name removed."""
        return tuple(sentences(self.text, (self.package, self.source)))

    @cached_property
    def sentences(self) -> tuple[tuple[str, ...], ...]:
        """The sentences as lower-case words."""
        return tuple(tuple(words(line)) for line in self.lines)

    @property
    def words(self) -> list[str]:
        """All words of the document in order."""
        return [word for sentence in self.sentences for word in sentence]


@dataclass(frozen=True)
class Descriptions:
    """The snapshot: documents, the names of the sections (labels, in order), and its origin."""

    documents: tuple[Document, ...]
    about: dict

    @property
    def sections(self) -> tuple[str, ...]:
        """The eight section names; a label is an index into them."""
        return tuple(self.about["sections"])

    def split(self, fold: int = 0) -> tuple[list[Document], list[Document]]:
        """Return (train, test): ``fold`` is held out; a source package lies on one side only.

        Raises ValueError for a fold that is not 0, 1, 2, 3 or 4.
        """
        if fold not in range(FOLDS):
            raise ValueError(f"fold={fold!r}: expected one of 0 to {FOLDS - 1}")
        train = [d for d in self.documents if d.fold != fold]
        test = [d for d in self.documents if d.fold == fold]
        return train, test

    def find(self, package: str) -> Document:
        """Return the document of ``package``; raises KeyError naming near matches."""
        for document in self.documents:
            if document.package == package:
                return document
        near = difflib.get_close_matches(package, [d.package for d in self.documents])
        raise KeyError(f"no description of {package!r} in the snapshot; near: {near}")


def load_descriptions(data: Path | None = None) -> Descriptions:
    """Load the snapshot from ``data/`` (or the folder given).

    Raises DataError for a missing or damaged file.
    """
    content = lzma.decompress(read_checked(FILE, data)).decode()
    about, *rows = (json.loads(line) for line in content.splitlines())
    return Descriptions(tuple(Document(**row) for row in rows), about)


def load_word_vectors(data: Path | None = None) -> tuple[list[str], np.ndarray]:
    """Return the words, most frequent first, and their unit vectors, float32 (words, 100).

    Raises DataError for a missing or damaged file.
    """
    import numpy as np

    with np.load(io.BytesIO(read_checked(VECTORS, data))) as kept:
        vocabulary = kept["words"].item().decode().split("\n")
        return vocabulary, kept["vectors"].astype(np.float32) * kept["scale"]
