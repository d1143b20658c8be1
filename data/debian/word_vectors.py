"""Train word vectors on the packages outside the snapshot: ``python data/debian/word_vectors.py``.

Reads the descriptions of every source package that gives no document to ``descriptions.jsonl.xz``
(no label is used, and no held-out text is seen), counts which words stand within ten words of each
other in a sentence, and factorises the shifted-positive pointwise mutual information of the counts:
Levy & Goldberg (2014) show that skip-gram with negative sampling factorises the same matrix, and
truncated SVD needs no epochs. Writes ``word_vectors.npz`` (8-bit) with its sum beside it.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from archive import MIRROR, Archive
from descriptions import source_of, texts_of
from sklearn.utils.extmath import randomized_svd

from helpers.datasets.descriptions import load_descriptions
from helpers.datasets.text import sentences, words

MIN_COUNT = 5  # a rarer word's neighbours say too little about it
WINDOW = 10  # words to each side
DIMENSIONS = 100
SMOOTHING = 0.75  # exponent of the context distribution (Levy, Goldberg & Dagan 2015)
TARGET = Path(__file__).with_name("word_vectors.npz")


def corpus(archive: Archive) -> list[list[str]]:
    """Return the distinct sentences of all other source packages, as words."""
    taken = {document.source for document in load_descriptions().documents}
    texts, lines = texts_of(archive), {}
    for package in archive.paragraphs("main/binary-amd64/Packages"):
        source = source_of(package)
        if source not in taken:
            text = texts.get(package.get("Description-md5", ""), "")
            lines.update(dict.fromkeys(sentences(text, (package["Package"], source))))
    return [words(line) for line in lines]


def cooccurrences(corpus: list[list[str]], vocabulary: list[str]) -> sp.csr_matrix:
    """Count, for each pair of words, how often they stand within WINDOW words: (V, V)."""
    index = {word: i for i, word in enumerate(vocabulary)}
    gap = [-1] * WINDOW  # no pair reaches over the end of a sentence
    ids = np.concatenate([np.array([index.get(w, -1) for w in line] + gap) for line in corpus])
    size = (len(vocabulary), len(vocabulary))
    counts = sp.csr_matrix(size)
    for distance in range(1, WINDOW + 1):
        left, right = ids[:-distance], ids[distance:]
        known = (left >= 0) & (right >= 0)
        pairs = (np.ones(known.sum()), (left[known], right[known]))
        counts = counts + sp.csr_matrix(pairs, shape=size)
    return counts + counts.T


def positive_pmi(counts: sp.csr_matrix) -> sp.csr_matrix:
    """Return max(0, log p(w, c) / (p(w) p(c)^0.75)) where the pair was seen, zero elsewhere."""
    total = np.asarray(counts.sum(axis=1)).ravel()
    context = total**SMOOTHING / (total**SMOOTHING).sum()
    pairs = counts.tocoo()
    pmi = np.log(pairs.data / total[pairs.row] / context[pairs.col])
    keep = pmi > 0
    return sp.csr_matrix((pmi[keep], (pairs.row[keep], pairs.col[keep])), shape=counts.shape)


def vectors(archive: Archive) -> tuple[list[str], np.ndarray]:
    """Return the vocabulary, most frequent first, and unit vectors (V, DIMENSIONS)."""
    lines = corpus(archive)
    frequency = Counter(word for line in lines for word in line)
    vocabulary = sorted((w for w, n in frequency.items() if n >= MIN_COUNT))
    vocabulary.sort(key=lambda word: -frequency[word])
    left, values, _ = randomized_svd(
        positive_pmi(cooccurrences(lines, vocabulary)), DIMENSIONS, n_iter=4, random_state=0
    )
    found = left * np.sqrt(values)
    return vocabulary, found / np.linalg.norm(found, axis=1, keepdims=True)


def main() -> None:
    """Train, write, and print what was written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mirror", default=MIRROR, help="a Debian mirror (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=TARGET)
    arguments = parser.parse_args()
    vocabulary, found = vectors(Archive(arguments.mirror))
    scale = np.abs(found).max(axis=1, keepdims=True) / 127  # one step of the 8 bits, for each word
    np.savez_compressed(
        arguments.out,
        words=np.array("\n".join(vocabulary).encode()),
        vectors=np.round(found / scale).astype(np.int8),
        scale=scale.astype(np.float32),
    )
    digest = hashlib.sha256(arguments.out.read_bytes()).hexdigest()
    recorded = arguments.out.with_name(arguments.out.name + ".sha256")
    recorded.write_text(f"{digest}  {arguments.out.name}\n")
    size = arguments.out.stat().st_size / 2**20
    print(f"{len(vocabulary)} words, {DIMENSIONS} dimensions, {size:.2f} MiB, {digest}")


if __name__ == "__main__":
    main()
