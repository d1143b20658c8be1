"""Counting words: the simple, strong models that a deep one is held against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from helpers.datasets.descriptions import Document

KINDS = ("linear SVM, one and two words", "logistic regression, single words")
STRENGTHS = {KINDS[0]: (0.1, 0.3, 1.0), KINDS[1]: (1.0, 10.0)}  # C: a smaller one regularises more


def right(
    kind: str,
    train: Sequence[Document],
    test: Sequence[Document],
    strength: float | None = None,
) -> np.ndarray:
    """Fit one of ``KINDS`` to TF-IDF weights; return for other documents whether it is right.

    ``strength`` is scikit-learn's C. Without it C is chosen by cross-validation within ``train``,
    grouped by source package. One thread: of several, the solver's wait for each other in busy
    loops, at several times the cost where other programs run.
    """
    import numpy as np
    from sklearn.model_selection import GroupKFold
    from threadpoolctl import threadpool_limits

    learned, asked = (np.array([" ".join(d.words) for d in part]) for part in (train, test))
    labels, wanted = (np.array([d.section for d in part]) for part in (train, test))
    choices = STRENGTHS[kind] if strength is None else (strength,)
    found = np.zeros(len(choices))
    folds = GroupKFold(3).split(learned, groups=[d.source for d in train])
    with threadpool_limits(1):
        for fit, held in folds if len(choices) > 1 else ():
            counted, others = _weights(kind, learned[fit], learned[held])
            for place, choice in enumerate(choices):
                judge = _judge(kind, choice).fit(counted, labels[fit])
                found[place] += np.sum(judge.predict(others) == labels[held])
        counted, others = _weights(kind, learned, asked)
        judge = _judge(kind, choices[int(found.argmax())]).fit(counted, labels)
        return np.asarray(judge.predict(others) == wanted)


def _weights(kind: str, learned: np.ndarray, asked: np.ndarray) -> tuple[Any, Any]:
    """Return the TF-IDF weights of both, with the rarity of words in the first."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(
        tokenizer=str.split,
        token_pattern=None,
        lowercase=False,
        sublinear_tf=True,
        ngram_range=(1, 2 if kind == KINDS[0] else 1),
    )
    return words.fit_transform(learned), words.transform(asked)


def _judge(kind: str, strength: float) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    if kind == KINDS[0]:
        return LinearSVC(C=strength)
    return LogisticRegression(C=strength, max_iter=500)
