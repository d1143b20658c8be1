"""Four ways to put documents through the same model: three right, one fast and wrong.

Each takes a ``HierarchicalAttention`` and D encoded documents and returns logits (D, C).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from helpers.attention.documents import Batch, Ids
from helpers.attention.model import Encoder, HierarchicalAttention


def by_sentence(model: HierarchicalAttention, documents: Sequence[Ids]) -> Tensor:
    """One sentence at a time, its words in a loop: how one writes it first."""
    return torch.cat([_one_document(model, document) for document in documents])


def _one_document(model: HierarchicalAttention, document: Ids) -> Tensor:
    summaries = []
    for sentence in document:
        vectors = model.embedding(torch.tensor([sentence]))  # (1, n, I)
        summaries.append(_encode_one(model.word, vectors))
    return model.answer(_encode_one(model.sentence, torch.stack(summaries, dim=1)))


def _encode_one(encoder: Encoder, x: Tensor) -> Tensor:
    """Run both directions step by step, keep every state, pool: (1, 2H) from x (1, n, I)."""
    gru, n = encoder.gru, x.shape[1]
    halves = []
    for suffix, order in (("l0", range(n)), ("l0_reverse", reversed(range(n)))):
        weights = [
            getattr(gru, f"{kind}_{suffix}")
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]
        h, states = x.new_zeros(1, gru.hidden_size), {}
        for t in order:
            h = states[t] = torch.gru_cell(x[:, t], h, *weights)
        halves.append(torch.stack([states[t] for t in range(n)], dim=1))
    return encoder.pool(torch.cat(halves, dim=2), torch.ones(1, n, dtype=torch.bool))[0]


def by_document(model: HierarchicalAttention, documents: Sequence[Ids]) -> Tensor:
    """One document at a time, its sentences as a batch."""
    return torch.cat([model(Batch.of([document])) for document in documents])


def packed(model: HierarchicalAttention, documents: Sequence[Ids]) -> Tensor:
    """All sentences of all documents at once, packed, so that no step reads padding."""
    return model(Batch.of(documents))


def padded_without_mask(model: HierarchicalAttention, documents: Sequence[Ids]) -> Tensor:
    """All at once, padding read as if it were words. Fast, and **wrong**: shown, never used."""
    batch = Batch.of(documents)
    summaries = _encode_all(model.word, model.embedding(batch.words))
    padded = pad_sequence(summaries.split(batch.counts.tolist()), batch_first=True)
    return model.answer(_encode_all(model.sentence, padded))


def _encode_all(encoder: Encoder, x: Tensor) -> Tensor:
    h, _ = encoder.gru(x)
    return encoder.pool(h, torch.ones(x.shape[:2], dtype=torch.bool))[0]


WAYS = {
    "one sentence at a time": by_sentence,
    "one document at a time": by_document,
    "all sentences packed": packed,
    "padded, without a mask": padded_without_mask,
}


def forward_backward(way, model: nn.Module, documents: Sequence[Ids]) -> None:
    """Run ``way`` and the gradient of its logits' sum, as a training step would."""
    model.zero_grad()
    way(model, documents).sum().backward()
