"""Four ways to put documents through the same model: three agree, one reads padding too.

Each takes a ``HierarchicalAttention`` and D encoded documents and returns logits (D, C).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from helpers.attention.documents import PADDING, Batch, Ids, Limits
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
    """All at once, padding read as if it were words: not what the model with a mask answers."""
    return Unmasked(model)(Batch.of(documents))


class Unmasked(nn.Module):
    """A hierarchical model that reads padding as if it were words: it can be trained like any.

    Every sentence and document is padded to ``limits``; by default to the longest of its batch, so
    that an answer depends on what else is in the batch.
    """

    def __init__(self, model: HierarchicalAttention, limits: Limits | None = None):
        super().__init__()
        self.model, self.limits = model, limits

    def forward(self, batch: Batch) -> Tensor:
        """Return logits (D, C)."""
        words, counts, model = batch.words, batch.counts.tolist(), self.model
        if self.limits:
            words = nn.functional.pad(words, (0, self.limits.words - words.shape[1]), value=PADDING)
            rows = pad_sequence(words.split(counts), batch_first=True, padding_value=PADDING)
            short = self.limits.sentences - rows.shape[1]
            words = nn.functional.pad(rows, (0, 0, 0, short), value=PADDING).flatten(0, 1)
            counts = [self.limits.sentences] * len(counts)
        s = _encode_all(model.word, model.vectors(words))  # (S, 2H)
        per_document = pad_sequence(s.split(counts), batch_first=True)  # (D, S_max, 2H)
        v = _encode_all(model.sentence, model.dropout(per_document))  # (D, 2H)
        return model.answer(model.dropout(v))


def _encode_all(encoder: Encoder, x: Tensor) -> Tensor:
    h, _ = encoder.gru(x)
    return encoder.pool(h, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device))[0]


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
