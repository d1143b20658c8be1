"""The transformer with each matrix cut over ranks, and optionally the sequence between matrices.

Same pieces and names as ``helpers.models.transformer``; a parameter's part is what
:func:`helpers.sharded.arrays.cut` gives. f and g stand where a pair of matrices begins and ends;
with ``sequence`` they are f̄ and ḡ, and between pairs each rank has T/N positions. A parameter that
every rank has whole, but uses at its own positions alone, enters by f: the gradients add.

Axes: B sequences, T positions, C = width, H heads, V = vocabulary, N ranks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from helpers.models.transformer import Block, Config, Embedding, Head, layer
from helpers.sharded import conjugate, messages
from helpers.sharded.arrays import cut_all, need_divisible


class Split:
    """How a piece is split: between which ranks, and whether the sequence is split too."""

    def __init__(self, comm: Any, sequence: bool = False):
        self.comm, self.sequence = comm, sequence

    def enter(self, x: Tensor) -> Tensor:
        """Begin a pair of matrices: f, or f̄."""
        return conjugate.f_bar(x, self.comm) if self.sequence else conjugate.f(x, self.comm)

    def leave(self, x: Tensor) -> Tensor:
        """End a pair of matrices: g, or ḡ."""
        return conjugate.g_bar(x, self.comm) if self.sequence else conjugate.g(x, self.comm)

    def whole(self, parameter: Tensor) -> Tensor:
        """Use a parameter that every rank has whole."""
        return conjugate.f(parameter, self.comm) if self.sequence else parameter

    def norm(self, x: Tensor, norm: nn.LayerNorm) -> Tensor:
        """Normalize the stream."""
        weight, bias = self.whole(norm.weight), self.whole(norm.bias)
        return functional.layer_norm(x, norm.normalized_shape, weight, bias, norm.eps)


class TensorEmbedding(Embedding):
    """Rows of the vocabulary on each rank."""

    def __init__(self, config: Config, split: Split):
        super().__init__(config)
        n = split.comm.Get_size()
        rows = need_divisible(config.vocabulary, n, "vocabulary")
        self.split = split
        self.token = nn.Embedding(rows, config.width)
        if split.sequence:
            need_divisible(config.context, n, "context, with the sequence split,")

    def forward(self, tokens: Tensor) -> Tensor:
        """Look tokens up: (B, T) → (B, T or T/N, C)."""
        comm, length = self.split.comm, tokens.shape[1]
        rows = local_rows(tokens, self.token.weight, comm.Get_rank() * self.token.num_embeddings)
        x, first = self.split.leave(rows), 0
        if self.split.sequence:
            first = comm.Get_rank() * x.shape[1]
            length = x.shape[1]
        places = torch.arange(first, first + length, device=tokens.device)
        return x + self.split.whole(self.position.weight)[places]


class TensorBlock(Block):
    """H/N heads and 4C/N hidden numbers on each rank."""

    def __init__(self, config: Config, split: Split):
        super().__init__(config)
        n, width = split.comm.Get_size(), config.width
        self.split = split
        self.attention.heads = need_divisible(config.heads, n, "heads")
        for name in ("query", "key", "value"):
            setattr(self.attention, name, nn.Linear(width, width // n))
        self.attention.out = nn.Linear(width // n, width)
        hidden = need_divisible(4 * width, n, "4 · width")
        self.perceptron.up = nn.Linear(width, hidden)
        self.perceptron.down = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """Add to the stream: (B, T or T/N, C) → the same."""
        split = self.split
        y = self._heads(split.enter(split.norm(x, self.first_norm)))  # (B, T, C/N)
        x = x + self._row(y, self.attention.out)
        up = self.perceptron.up(split.enter(split.norm(x, self.second_norm)))  # (B, T, 4C/N)
        return x + self._row(functional.gelu(up), self.perceptron.down)

    def _heads(self, x: Tensor) -> Tensor:
        """Attend with the heads that are here."""
        part = self.attention
        q, k, v = (part._split(linear(x)) for linear in (part.query, part.key, part.value))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).flatten(2)  # (B, H/N, T, C/H) → (B, T, C/N)

    def _row(self, x: Tensor, linear: nn.Linear) -> Tensor:
        """Multiply by rows, add over ranks, then add the bias once."""
        y = self.split.leave(functional.linear(x, linear.weight))
        return y + self.split.whole(linear.bias)


class TensorHead(Head):
    """Scores of V/N tokens on each rank; see ``vocabulary_loss``."""

    def __init__(self, config: Config, split: Split):
        super().__init__(config)
        rows = need_divisible(config.vocabulary, split.comm.Get_size(), "vocabulary")
        self.split = split
        self.scores = nn.Linear(config.width, rows, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Score this rank's part of the vocabulary: (B, T or T/N, C) → (B, T, V/N)."""
        return self.scores(self.split.enter(self.split.norm(x, self.norm)))


def tensor_layer(
    config: Config, index: int, split: Split, seed: int = 0, dtype: torch.dtype = torch.float32
) -> nn.Module:
    """Make this rank's part of one piece of the model, with its weights in the whole."""
    if config.dropout:  # heads would need other random numbers on each rank, the stream the same
        raise ValueError(f"tensor_layer has no dropout; got {config.dropout}")
    whole = layer(config, index, seed, dtype)
    kind = {Embedding: TensorEmbedding, Block: TensorBlock, Head: TensorHead}[type(whole)]
    part = kind(config, split).to(dtype)
    comm = split.comm
    cut = cut_all({f"{index}.{k}": v for k, v in whole.state_dict().items()},
                  comm.Get_size(), comm.Get_rank())  # fmt: skip
    part.load_state_dict({k.partition(".")[2]: v for k, v in cut.items()})
    return part


def tensor_transformer(
    config: Config, split: Split, seed: int = 0, dtype: torch.dtype = torch.float32
) -> nn.Sequential:
    """Make this rank's part of the whole model: tokens (B, T) → scores (B, T, V/N)."""
    return nn.Sequential(
        *(tensor_layer(config, i, split, seed, dtype) for i in range(config.pieces))
    )


def local_rows(tokens: Tensor, weight: Tensor, first: int) -> Tensor:
    """Look up the tokens whose rows (V/N, C) are here; the others get zeros: (...) → (..., C)."""
    place = tokens - first
    here = (place >= 0) & (place < len(weight))
    rows = weight[place.clamp(0, len(weight) - 1)]
    return rows * here.unsqueeze(-1).to(rows.dtype)


def local_terms(scores: Tensor, targets: Tensor, first: int, largest: Tensor) -> Tensor:
    """Return this rank's sum of exponentials, and the target's score if it is here: (2, ...)."""
    shifted = scores - largest.unsqueeze(-1)
    place = targets - first
    here = (place >= 0) & (place < scores.shape[-1])
    found = shifted.gather(-1, place.clamp(0, scores.shape[-1] - 1).unsqueeze(-1)).squeeze(-1)
    return torch.stack([shifted.exp().sum(-1), found * here])


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor, comm: Any) -> Tensor:
        first = comm.Get_rank() * scores.shape[-1]
        largest = messages.all_reduce(scores.amax(-1), comm, largest=True)
        total, found = messages.all_reduce(local_terms(scores, targets, first, largest), comm)
        ctx.save_for_backward(scores, targets, largest, total)
        ctx.first = first
        return (total.log() - found).mean()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:  # type: ignore[override]
        scores, targets, largest, total = ctx.saved_tensors
        chance = (scores - largest.unsqueeze(-1)).exp() / total.unsqueeze(-1)
        place = (targets - ctx.first).unsqueeze(-1)
        here = (place >= 0) & (place < scores.shape[-1])
        chance.scatter_add_(
            -1, place.clamp(0, scores.shape[-1] - 1), -here.to(chance.dtype)
        )  # softmax − 1 where the target is
        return chance * (gradient / targets.numel()), None, None


def vocabulary_loss(scores: Tensor, targets: Tensor, comm: Any) -> Tensor:
    """Average −ln p of the targets over scores (..., V/N), of which each rank has its part.

    No rank has all scores: two sums and a maximum for each position travel in place of V numbers.
    """
    return _Loss.apply(scores, targets, comm)
