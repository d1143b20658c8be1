"""Does attention explain? Weights by word, the most attended words, and a test by deletion.

A weight of a word in its document is its weight in the sentence times the sentence's weight.
Serrano and Smith (2019), *Is attention interpretable?*, did such a test on this model.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from helpers.attention.documents import PADDING, UNKNOWN, Batch, Ids
from helpers.attention.model import HierarchicalAttention
from helpers.attention.training import predict

Ranking = Callable[[HierarchicalAttention, Ids], Sequence[float]]
Answer = Callable[[Tensor], Tensor]


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
        reading = model.read(Batch.of([document]).to(model.embedding.weight.device))
    model.train(was_training)
    words = [row[: len(s)].tolist() for row, s in zip(reading.words, document, strict=True)]
    return Weights(reading.sentences[0].tolist(), words, reading.logits.softmax(1)[0].tolist())


def in_vectors(model: HierarchicalAttention, document: Ids) -> tuple[Tensor, Answer]:
    """Return the vectors of a document's words, and the model as a function of them.

    Dropout is left out.

    Returns
    -------
    vectors : torch.Tensor
        (n, I), in the order of reading, detached from the model.
    answer : callable
        Takes n such vectors and returns the probability, a scalar with its graph, of the section
        that the model gives to the document as it is.
    """
    vectors, answers = _many_in_vectors(model, document, 1)
    return vectors, lambda given: answers(given[None])[0]


def _many_in_vectors(
    model: HierarchicalAttention, document: Ids, versions: int
) -> tuple[Tensor, Answer]:
    """The same for several versions at once: the function takes (V, n, I) and returns (V)."""
    device = model.embedding.weight.device
    words = torch.tensor([word for sentence in document for word in sentence], device=device)
    places = iter(range(PADDING + 1, versions * len(words) + 1))  # each word gets a row of its own
    copies = [[[next(places) for _ in sentence] for sentence in document] for _ in range(versions)]
    batch = Batch.of(copies).to(device)
    best = int(predict(model, [document]).argmax())
    vectors = model.embedding.weight[words].detach()

    def answers(given: Tensor) -> Tensor:
        rows = torch.cat([given.new_zeros(1, given.shape[-1]), given.flatten(0, 1)])
        was_training = model.training
        model.eval()
        logits = torch.func.functional_call(model, {"embedding.weight": rows}, (batch,))
        model.train(was_training)
        return logits.softmax(1)[:, best]

    return vectors, answers


def by_attention(model: HierarchicalAttention, document: Ids) -> list[float]:
    """Return the score of each word: its weight times the weight of its sentence."""
    found = weights(model, document)
    pairs = zip(found.sentences, found.words, strict=True)
    return [share * weight for share, row in pairs for weight in row]


def by_gradient(model: HierarchicalAttention, document: Ids) -> list[float]:
    """Return the score of each word: its vector times the gradient of the answer at it.

    To first order, what the probability would lose if the vector became 0.
    """
    vectors, answer = in_vectors(model, document)
    vectors.requires_grad_()
    (gradient,) = torch.autograd.grad(answer(vectors), vectors)
    return (gradient * vectors).sum(1).tolist()


def by_integrated_gradients(
    model: HierarchicalAttention, document: Ids, points: int = 8
) -> list[float]:
    """Return the score of each word by the mean gradient from the unknown word's vector to its own.

    Summed over the words they are what the probability would lose (Sundararajan et al., 2017).
    """
    vectors, answers = _many_in_vectors(model, document, points)
    start = model.embedding.weight[UNKNOWN].detach().expand_as(vectors)
    shares = (torch.arange(points, device=vectors.device) + 0.5) / points
    between = (start + shares[:, None, None] * (vectors - start)).requires_grad_()  # (V, n, I)
    (gradients,) = torch.autograd.grad(answers(between).sum(), between)
    return (gradients.mean(0) * (vectors - start)).sum(1).tolist()


def at_random(seed: int = 0) -> Ranking:
    """Return a ranking that knows nothing."""
    shuffle = random.Random(seed)
    return lambda model, document: [shuffle.random() for sentence in document for _ in sentence]


RANKINGS: dict[str, Ranking] = {
    "most attended": by_attention,
    "gradient × input": by_gradient,
    "random": at_random(),
}


def deletion(
    model: HierarchicalAttention,
    documents: Sequence[Ids],
    counts: Sequence[int] = (0, 1, 2, 4, 8),
    rankings: Mapping[str, Ranking] | None = None,
) -> dict[str, list[float]]:
    """Hide ``counts`` words of each document and return how probable the first answer stays.

    Parameters
    ----------
    counts : sequence of int
        How many words are hidden, which is: read as unknown.
    rankings : mapping of str to callable, optional
        Name → ``ranking(model, document)``, a score for each word in the order of reading; words
        of the highest scores are hidden first. Default ``RANKINGS``.

    Returns
    -------
    dict of str to list of float
        The mean probability of the section that the whole document was given, by ranking and
        count. The better a ranking finds what decides, the faster it falls.
    """
    answer = predict(model, documents).argmax(1).unsqueeze(1)
    curves = {}
    for name, ranking in (RANKINGS if rankings is None else rankings).items():
        orders = [_order(name, ranking(model, document), document) for document in documents]
        curves[name] = []
        for n in counts:
            hidden = [_hide(d, order[:n]) for d, order in zip(documents, orders, strict=True)]
            curves[name].append(predict(model, hidden).gather(1, answer).mean().item())
    return curves


def _order(name: str, scores: Sequence[float], document: Ids) -> list[tuple[int, int]]:
    """Return the places (sentence, word) by falling score."""
    places = [(i, t) for i, sentence in enumerate(document) for t in range(len(sentence))]
    if len(scores) != len(places):
        raise ValueError(f"{name}: {len(scores)} scores for {len(places)} words; expected as many")
    return [places[k] for k in sorted(range(len(places)), key=lambda k: -float(scores[k]))]


def _hide(document: Ids, places: Sequence[tuple[int, int]]) -> Ids:
    copy = [list(sentence) for sentence in document]
    for i, t in places:
        copy[i][t] = UNKNOWN
    return copy


def hiding(model: HierarchicalAttention, document: Ids) -> Callable[[Sequence[set[int]]], Tensor]:
    """Return the model, without dropout, as a function of what is hidden from it in a document.

    The function takes K sets of words, numbered from 0 in the order of reading, and returns the
    probabilities (K, C).
    """
    places = [(i, t) for i, sentence in enumerate(document) for t in range(len(sentence))]

    def answers(hidden: Sequence[set[int]]) -> Tensor:
        return predict(model, [_hide(document, [places[k] for k in chosen]) for chosen in hidden])

    return answers


def until_it_changes(
    model: HierarchicalAttention, document: Ids, scores: Sequence[float]
) -> int | None:
    """Return how many words must be hidden, highest score first, until the answer is another.

    None where it stays the same with every word hidden.
    """
    order = sorted(range(len(scores)), key=lambda k: -float(scores[k]))
    hidden = [set(order[:n]) for n in range(len(order) + 1)]
    found = hiding(model, document)(hidden).argmax(1)
    other = (found != found[0]).nonzero()
    return int(other[0]) if len(other) else None
