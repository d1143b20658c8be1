"""Does attention explain? Weights by word, the most attended words, and a test by deletion.

A weight of a word in its document is its weight in the sentence times the sentence's weight.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import torch

from helpers.attention.documents import UNKNOWN, Batch, Ids
from helpers.attention.model import HierarchicalAttention
from helpers.attention.training import predict


class Weights(NamedTuple):
    """What a model attended to in one document."""

    sentences: list[float]  # one for each sentence that was read; sum 1
    words: list[list[float]]  # one for each word within its sentence; each list sums to 1
    probabilities: list[float]  # one for each class


def weights(model: HierarchicalAttention, document: Ids) -> Weights:
    """Return the attention of ``model`` on one encoded document, dropout off."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        reading = model.read(Batch.of([document]))
    model.train(was_training)
    words = [row[: len(s)].tolist() for row, s in zip(reading.words, document, strict=True)]
    return Weights(reading.sentences[0].tolist(), words, reading.logits.softmax(1)[0].tolist())


def most_attended(
    model: HierarchicalAttention,
    documents: Sequence[Ids],
    labels: Sequence[int],
    words: Sequence[str],
    top: int = 8,
    at_least: int = 5,
) -> dict[int, list[str]]:
    """Return, for each label, the words with the highest mean weight (n · α) in its documents.

    A word's weight is multiplied by the number of words of its sentence: 1 means "as much as any
    other", so that short sentences do not win. ``words`` gives each id's word; words seen fewer
    than ``at_least`` times with a label do not count.
    """
    total: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for document, label in zip(documents, labels, strict=True):
        found = weights(model, document)
        for sentence, row in zip(document, found.words, strict=True):
            for word, weight in zip(sentence, row, strict=True):
                if word != UNKNOWN:
                    total[label][word].append(weight * len(sentence))
    best = {}
    for label, seen in sorted(total.items()):
        means = {w: sum(v) / len(v) for w, v in seen.items() if len(v) >= at_least}
        best[label] = [words[w] for w in sorted(means, key=means.get, reverse=True)[:top]]
    return best


def deletion(
    model: HierarchicalAttention,
    documents: Sequence[Ids],
    counts: Sequence[int] = (0, 1, 2, 4, 8),
    seed: int = 0,
) -> dict[str, list[float]]:
    """Hide ``counts`` words of each document and return how probable the first answer stays.

    The words are hidden (read as unknown) in the order of their attention, or at random. The value
    is the mean probability of the section that the whole document was given. If attention pointed
    at what decides, the first curve would fall much faster than the second.
    """
    shuffle = random.Random(seed)
    before = predict(model, documents)
    answer = before.argmax(1)
    orders: dict[str, list[list[tuple[int, int]]]] = {"most attended": [], "random": []}
    for document in documents:
        found = weights(model, document)
        places = [(i, t) for i, sentence in enumerate(document) for t in range(len(sentence))]
        by_weight = sorted(places, key=lambda p, f=found: -f.sentences[p[0]] * f.words[p[0]][p[1]])
        orders["most attended"].append(by_weight)
        shuffle.shuffle(places)
        orders["random"].append(places)
    curves = {}
    for name, places in orders.items():
        curves[name] = []
        for count in counts:
            hidden = [_hide(d, p[:count]) for d, p in zip(documents, places, strict=True)]
            left = predict(model, hidden).gather(1, answer.unsqueeze(1))
            curves[name].append(left.mean().item())
    return curves


def _hide(document: Ids, places: Sequence[tuple[int, int]]) -> Ids:
    copy = [list(sentence) for sentence in document]
    for i, t in places:
        copy[i][t] = UNKNOWN
    return copy
