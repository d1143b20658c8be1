"""Documents to tensors: vocabulary, length limits by quantile, batches with their lengths.

A document is a sequence of sentences, a sentence a sequence of words. In a batch of D documents all
S sentences lie in one padded table (S, W); ``counts`` (D) says how many belong to each document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

PADDING, UNKNOWN = 0, 1  # ids that no word has
Words = Sequence[Sequence[str]]  # a document: sentences of words
Ids = list[list[int]]  # the same, as numbers


class Vocabulary:
    """Words and their ids, from 2 up; 0 is padding, 1 any word that is not known.

    >>> known = Vocabulary(["a", "tool"])
    >>> [known.id(word) for word in ("a", "tool", "never seen")]
    [2, 3, 1]
    """

    def __init__(self, words: Iterable[str]):
        self.words = ["<padding>", "<unknown>", *dict.fromkeys(words)]
        self._ids = {word: i for i, word in enumerate(self.words)}

    @classmethod
    def of(cls, documents: Iterable[Words], min_count: int = 1, known: Iterable[str] = ()):
        """Collect the words seen ``min_count`` times or more, after those of ``known``."""
        seen = Counter(word for d in documents for sentence in d for word in sentence)
        frequent = [word for word, n in seen.most_common() if n >= min_count]
        return cls([*known, *frequent])

    def __len__(self) -> int:
        return len(self.words)

    def id(self, word: str) -> int:
        """Return the word's id, ``UNKNOWN`` if it has none."""
        return self._ids.get(word, UNKNOWN)


@dataclass(frozen=True)
class Limits:
    """The most words of a sentence and sentences of a document that are read; the rest is cut."""

    words: int
    sentences: int

    @classmethod
    def by_quantile(cls, documents: Sequence[Words], quantile: float):
        """Choose the limits so that a share ``quantile`` of each is read whole."""
        words = sorted(len(s) for d in documents for s in d)
        sentences = sorted(len(d) for d in documents)
        return cls(*(x[max(0, round(quantile * len(x)) - 1)] or 1 for x in (words, sentences)))


def encode(document: Words, vocabulary: Vocabulary, limits: Limits | None = None) -> Ids:
    """Return the ids of a document's words, cut to ``limits``; sentences without words are dropped.

    Raises ValueError for a document without any word: there is nothing to read; TypeError for text
    that is not split into words.

    >>> encode([["a", "tool"], ["a", "a", "a"]], Vocabulary(["a", "tool"]), Limits(2, 5))
    [[2, 3], [2, 2]]
    """
    if isinstance(document, str):
        raise TypeError(f"{document[:40]!r}: expected sentences of words, got text")
    if text := next((s for s in document if isinstance(s, str)), ""):
        raise TypeError(f"{text[:40]!r}: expected a sentence of words, got text")
    cut_words = limits.words if limits else None
    sentences = [[vocabulary.id(w) for w in s[:cut_words]] for s in document if len(s)]
    if not sentences:
        raise ValueError("a document without words cannot be read: expected at least one word")
    return sentences[: limits.sentences if limits else None]


@dataclass(frozen=True)
class Batch:
    """D documents with S sentences in all, padded to W words; rows beyond a length hold PADDING."""

    words: Tensor  # ids, (S, W) int64
    lengths: Tensor  # words of each sentence, (S) int64, at least 1
    counts: Tensor  # sentences of each document, (D) int64, at least 1

    @classmethod
    def of(cls, documents: Sequence[Ids], padding: int = 0):
        """Lay documents out; ``padding`` adds so many useless columns (to test that they are).

        >>> Batch.of([[[2, 3], [4, 5, 6]], [[2, 1]]]).words.tolist()
        [[2, 3, 0], [4, 5, 6], [2, 1, 0]]

        Raises ValueError naming the first document or sentence that is empty.
        """
        if not documents:
            raise ValueError("a batch needs at least one document, got none")
        for i, document in enumerate(documents):
            if not document or not all(document):
                raise ValueError(f"document {i} of the batch is empty or has an empty sentence")
        sentences = [torch.tensor(s) for document in documents for s in document]
        lengths = torch.tensor([len(s) for s in sentences])
        words = torch.nn.utils.rnn.pad_sequence(sentences, batch_first=True)
        words = torch.nn.functional.pad(words, (0, padding), value=PADDING)
        return cls(words, lengths, torch.tensor([len(d) for d in documents]))

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch with its words on ``device``.

        Lengths and counts stay on the CPU: PyTorch packs by lengths that it can read there.
        """
        return replace(self, words=self.words.to(device))


def mask(lengths: Tensor, width: int) -> Tensor:
    """Return True where row i has an element: (N, width) from lengths (N), on their device.

    >>> mask(torch.tensor([1, 3]), 3).int().tolist()
    [[1, 0, 0], [1, 1, 1]]
    """
    return torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)
