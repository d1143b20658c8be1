"""The transformer with each matrix cut over ranks, and optionally the sequence between matrices.

Same pieces and names as ``helpers.models.transformer``; a parameter's part is what
:func:`helpers.sharded.slices.cut` gives. f and g stand where a pair of matrices begins and ends;
with ``sequence`` they are f̄ and ḡ, and between pairs each rank has T/N positions. A parameter that
every rank has whole, but uses at its own positions alone, enters by f: the gradients add.

Axes: B sequences, T positions, C = width, H heads, V = vocabulary, N ranks.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from helpers.models.transformer import Block, Config, Embedding, Head, layer
from helpers.sharded import conjugate
from helpers.sharded.arrays import need_divisible
from helpers.sharded.randomness import Streams
from helpers.sharded.slices import cut_all
from helpers.sharded.vocabulary import local_rows


class Split:
    """How a piece is split: between which ranks, and whether the sequence is split too."""

    def __init__(self, comm: Any, sequence: bool = False, streams: Streams | None = None):
        self.comm, self.sequence, self.streams = comm, sequence, streams

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

    def own(self) -> AbstractContextManager:
        """Draw random numbers that differ from the other ranks' in a block."""
        return nullcontext() if self.streams is None else self.streams.own()

    def between(self) -> AbstractContextManager:
        """Draw random numbers for the stream: shared, unless each rank has its own positions."""
        return self.own() if self.sequence else nullcontext()


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
        with self.split.between():
            return self.drop(x + self.split.whole(self.position.weight)[places])


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
        dropout = part.dropout if self.training else 0.0
        with self.split.own():
            y = functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return y.transpose(1, 2).flatten(2)  # (B, H/N, T, C/H) → (B, T, C/N)

    def _row(self, x: Tensor, linear: nn.Linear) -> Tensor:
        """Multiply by rows, add over ranks, then add the bias once."""
        y = self.split.leave(functional.linear(x, linear.weight))
        with self.split.between():
            return self.drop(y + self.split.whole(linear.bias))


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
