"""The one experiment of 04 and of its record: the data, the models, the bar."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn

from helpers.attention.documents import Ids, Limits, Vocabulary, encode
from helpers.attention.model import Embedding, EmbeddingAverage, FlatGRU, HierarchicalAttention
from helpers.attention.training import Recipe, accuracy, train
from helpers.datasets.descriptions import Document, load_descriptions
from helpers.datasets.word_vectors import load_word_vectors

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
    quantile: float = 0.95  # of lengths read whole
    hidden: int = 32  # units of each GRU and direction
    dropout: float = 0.4

    @cached_property
    def snapshot(self):
        """The descriptions."""
        return load_descriptions()

    @cached_property
    def documents(self) -> tuple[list[Document], list[Document]]:
        """Train and test documents."""
        return self.snapshot.split(self.fold)

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
        return Limits.by_quantile([d.sentences for d in self.documents[0]], self.quantile)

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

    def model(self, name: str, seed: int = 0) -> nn.Module:
        """Return a fresh model of one of ``MODELS``; KeyError for another name."""
        if name not in MODELS:
            raise KeyError(f"no model {name!r}: expected one of {', '.join(MODELS)}")
        torch.manual_seed(seed)
        classes = len(self.snapshot.sections)
        embedding = Embedding(self.vocabulary, len(self.vectors["the"]), self.vectors)
        if name == "average of embeddings":
            return EmbeddingAverage(embedding, classes, self.dropout)
        if name == "flat GRU":
            return FlatGRU(embedding, classes, self.hidden, dropout=self.dropout)
        pooling = "attention" if name == "hierarchical attention" else "mean"
        return HierarchicalAttention(
            embedding, classes, self.hidden, pooling=pooling, dropout=self.dropout
        )

    def run(self, name: str, seed: int = 0, progress=None) -> tuple[nn.Module, float, float]:
        """Train one model; return it, its accuracy on the test set, and the seconds it took."""
        model = self.model(name, seed)
        x, y, x_test, y_test = self.data
        seconds = train(model, x, y, recipe(name, seed), progress)
        return model, accuracy(model, x_test, y_test), seconds

    def bar(self) -> float:
        """Return the accuracy of TF-IDF and logistic regression on the same split.

        The strength of the regularisation is chosen by cross-validation within the training set,
        grouped by source package. One thread: of several, the solver's wait for each other in
        busy loops, at several times the cost where other programs run.
        """
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import GridSearchCV, GroupKFold
        from sklearn.pipeline import make_pipeline
        from threadpoolctl import threadpool_limits

        train, test = self.documents
        texts = [[" ".join(d.words) for d in part] for part in (train, test)]
        labels = [[d.section for d in part] for part in (train, test)]
        words = TfidfVectorizer(
            tokenizer=str.split, token_pattern=None, lowercase=False, sublinear_tf=True
        )
        search = GridSearchCV(
            make_pipeline(words, LogisticRegression(max_iter=500)),
            {"logisticregression__C": [1.0, 10.0]},
            cv=GroupKFold(3),
        )
        with threadpool_limits(1):
            search.fit(texts[0], labels[0], groups=[d.source for d in train])
        return float(search.score(texts[1], labels[1]))
