"""Hierarchical attention (Yang et al. 2016) and the baselines that it has to beat.

Every model maps a ``Batch`` of D documents to logits (D, C). Symbols as in the paper: h_it the
state at word t of sentence i, u_it = tanh(W h_it + b), α_it = softmax_t(u_itᵀ u),
s_i = Σ_t α_it h_it, and the same one level up. The paper's update gate is PyTorch's reversed: its
z_t weighs the *new* state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from helpers.attention.documents import PADDING, Batch, Vocabulary, mask


class Reading(NamedTuple):
    """What the model made of a batch."""

    logits: Tensor  # (D, C)
    words: Tensor  # α of each word in its sentence, (S, W); 0 on padding
    sentences: Tensor  # α of each sentence in its document, (D, S_max); 0 on padding


class AttentionPooling(nn.Module):
    """Weighted sum of states by their likeness to a learned context vector (equations 5-7)."""

    def __init__(self, size: int):
        super().__init__()
        self.represent = nn.Linear(size, size)  # W, b
        self.context = nn.Parameter(torch.randn(size) * 0.1)  # u

    def forward(self, h: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        """Return s (N, H) and α (N, L) from h (N, L, H); α is 0 where ``keep`` (N, L) is False."""
        score = torch.tanh(self.represent(h)) @ self.context  # (N, L)
        weight = score.masked_fill(~keep, -torch.inf).softmax(dim=1)
        return torch.einsum("nl,nlh->nh", weight, h), weight


class MeanPooling(nn.Module):
    """The hierarchy without attention: every state that is there counts the same."""

    def forward(self, h: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean (N, H) and the equal weights (N, L), 0 where ``keep`` is False."""
        weight = (keep / keep.sum(dim=1, keepdim=True)).to(h.dtype)
        return torch.einsum("nl,nlh->nh", weight, h), weight


class Encoder(nn.Module):
    """A bidirectional GRU that keeps every state, and a pooling of them."""

    def __init__(self, inputs: int, hidden: int, pooling: str = "attention"):
        super().__init__()
        self.gru = nn.GRU(inputs, hidden, batch_first=True, bidirectional=True)
        self.pool = AttentionPooling(2 * hidden) if pooling == "attention" else MeanPooling()

    def forward(
        self, table: Tensor, lengths: Tensor, vectors: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return summaries (N, 2H) and weights (N, L) from a table (N, L, ...), padding unread.

        ``vectors`` makes GRU inputs (M, I) of the M entries of the table that are no padding.
        """
        packed = pack_padded_sequence(table, lengths, batch_first=True, enforce_sorted=False)
        inputs = vectors(packed.data)  # (M, ...) to (M, I): the real entries only
        states, _ = self.gru(packed._replace(data=inputs))  # (M, 2H), packed
        h, _ = pad_packed_sequence(states, batch_first=True, total_length=table.shape[1])
        return self.pool(h, mask(lengths, table.shape[1]).to(h.device))  # h (N, L, 2H)


class Embedding(nn.Embedding):
    """Word vectors, given where ``vectors`` knows the word, small and random elsewhere."""

    def __init__(self, vocabulary: Vocabulary, size: int, vectors: dict[str, Tensor] | None = None):
        super().__init__(len(vocabulary), size, padding_idx=PADDING)
        with torch.no_grad():
            self.weight.normal_(std=size**-0.5)[PADDING] = 0  # the length of a unit vector
            known = [i for i, word in enumerate(vocabulary.words) if vectors and word in vectors]
            if known:
                self.weight[known] = torch.stack([vectors[vocabulary.words[i]] for i in known])


class HierarchicalAttention(nn.Module):
    """Words to sentences to a document, each by a bidirectional GRU and attention."""

    def __init__(
        self,
        embedding: Embedding,
        classes: int,
        hidden: int = 50,
        pooling: str = "attention",
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding = embedding
        self.word = Encoder(embedding.embedding_dim, hidden, pooling)
        self.sentence = Encoder(2 * hidden, hidden, pooling)
        self.answer = nn.Linear(2 * hidden, classes)
        self.dropout = nn.Dropout(dropout)

    def read(self, batch: Batch) -> Reading:
        """Return the logits and both levels' weights."""
        s, words = self.word(batch.words, batch.lengths, self.vectors)  # (S, 2H), (S, W)
        per_document = pad_sequence(s.split(batch.counts.tolist()), batch_first=True)
        v, sentences = self.sentence(per_document, batch.counts, self.dropout)  # v (D, 2H)
        return Reading(self.answer(self.dropout(v)), words, sentences)

    def vectors(self, words: Tensor) -> Tensor:
        """Return word vectors (M, I), with dropout, of word numbers (M)."""
        return self.dropout(self.embedding(words))

    def forward(self, batch: Batch) -> Tensor:
        """Return logits (D, C)."""
        return self.read(batch).logits


class FlatGRU(nn.Module):
    """Baseline: all words of a document as one sequence, one bidirectional GRU, pooled."""

    def __init__(
        self,
        embedding: Embedding,
        classes: int,
        hidden: int = 50,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding = embedding
        self.encoder = Encoder(embedding.embedding_dim, hidden)
        self.answer = nn.Linear(2 * hidden, classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Batch) -> Tensor:
        """Return logits (D, C)."""
        words, lengths = one_sequence(batch)
        summary, _ = self.encoder(words, lengths, lambda w: self.dropout(self.embedding(w)))
        return self.answer(self.dropout(summary))


class EmbeddingAverage(nn.Module):
    """Baseline: the mean of a document's word vectors, then one linear layer."""

    def __init__(self, embedding: Embedding, classes: int, dropout: float = 0.0):
        super().__init__()
        self.embedding = embedding
        self.answer = nn.Linear(embedding.embedding_dim, classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Batch) -> Tensor:
        """Return logits (D, C)."""
        words, lengths = one_sequence(batch)
        total = self.dropout(self.embedding(words)).sum(dim=1)  # padding is the zero vector
        return self.answer(total / lengths.unsqueeze(1).to(total.device))


def one_sequence(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return a batch's words without their sentences: ids (D, W_all) and lengths (D)."""
    keep = mask(batch.lengths, batch.words.shape[1]).to(batch.words.device)
    words = batch.words[keep]  # row by row, as they are read
    per_sentence = batch.lengths.split(batch.counts.tolist())
    lengths = torch.stack([part.sum() for part in per_sentence])
    return pad_sequence(words.split(lengths.tolist()), batch_first=True), lengths
