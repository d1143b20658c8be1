"""The one experiment of 04 and of its record: the data and the models."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn

from helpers.attention.documents import Ids, Limits, Vocabulary, encode
from helpers.attention.model import Embedding, EmbeddingAverage, FlatGRU, HierarchicalAttention
from helpers.attention.training import Recipe
from helpers.datasets.descriptions import Document, load_descriptions, load_word_vectors

QUANTILE = 0.95  # of lengths read whole
DROPOUT = 0.4
VECTOR_LENGTH = 3.0  # word vectors are unit; a GRU's gates want inputs of about 0.3 a coordinate
MODELS = (
    "hierarchical attention",
    "hierarchy without attention",
    "flat GRU",
    "average of embeddings",
)


def recipe(name: str, seed: int = 0) -> Recipe:
    """Return how a model of ``MODELS`` is trained.

    The average of embeddings gets longer and larger steps: with the others' recipe it is left far
    from done, and a baseline that is not trained to its end flatters what it is compared with.
    """
    if name == "average of embeddings":
        return Recipe(epochs=6, batch=32, rate=5e-3, seed=seed)
    return Recipe(seed=seed)


@dataclass(frozen=True)
class Experiment:
    """Encoded documents of one split; fold 0 is held out unless another is asked for."""

    fold: int = 0
    hidden: int = 32  # units of each GRU and direction
    share: float = 1.0  # of the source packages that are not held out: the rest is not used

    @cached_property
    def snapshot(self):
        """The descriptions."""
        return load_descriptions()

    @cached_property
    def documents(self) -> tuple[list[Document], list[Document]]:
        """Train and test documents."""
        train, test = self.snapshot.split(self.fold)
        if self.share == 1:
            return train, test
        used = hold_out([d.source for d in train], self.share, seed=1)
        return [d for d, kept in zip(train, used, strict=True) if kept], test

    @cached_property
    def vectors(self) -> dict[str, torch.Tensor]:
        """The pretrained word vectors, by word."""
        words, table = load_word_vectors()
        return dict(zip(words, VECTOR_LENGTH * torch.from_numpy(table), strict=True))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Words with a vector, and words that stand twice or more in the training set."""
        return Vocabulary.of((d.sentences for d in self.documents[0]), 2, known=self.vectors)

    @cached_property
    def limits(self) -> Limits:
        """Limits by quantile, from the training set."""
        return Limits.by_quantile([d.sentences for d in self.documents[0]], QUANTILE)

    def encode(self, document: Document) -> Ids:
        """Return a document's ids, cut to the limits."""
        return encode(document.sentences, self.vocabulary, self.limits)

    @cached_property
    def data(self) -> tuple[list[Ids], list[int], list[Ids], list[int]]:
        """Train documents and labels, test documents and labels."""
        train, test = self.documents
        label = self.snapshot.sections.index
        return (
            [self.encode(d) for d in train],
            [label(d.section) for d in train],
            [self.encode(d) for d in test],
            [label(d.section) for d in test],
        )

    @cached_property
    def validation(self) -> list[bool]:
        """Whether a train document is held out from the training, to say when to stop."""
        return hold_out([d.source for d in self.documents[0]], 0.1)

    def model(self, name: str, seed: int = 0) -> nn.Module:
        """Return a fresh model of one of ``MODELS``; KeyError for another name."""
        if name not in MODELS:
            raise KeyError(f"no model {name!r}: expected one of {', '.join(MODELS)}")
        torch.manual_seed(seed)
        classes = len(self.snapshot.sections)
        embedding = Embedding(self.vocabulary, len(self.vectors["the"]), self.vectors)
        if name == "average of embeddings":
            return EmbeddingAverage(embedding, classes, DROPOUT)
        if name == "flat GRU":
            return FlatGRU(embedding, classes, self.hidden, dropout=DROPOUT)
        pooling = "attention" if name == "hierarchical attention" else "mean"
        return HierarchicalAttention(
            embedding, classes, self.hidden, pooling=pooling, dropout=DROPOUT
        )


def hold_out(sources: Sequence[str], share: float, seed: int = 0) -> list[bool]:
    """Choose a share of the sources at random; tell for each document whether its source was."""
    different = sorted(set(sources))
    chosen = set(random.Random(seed).sample(different, round(share * len(different))))
    return [source in chosen for source in sources]
