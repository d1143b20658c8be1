"""What a transformer is made of: an embedding, blocks of attention and perceptron, a head.

Axes: B sequences, T positions, C = width, H heads, V = vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from helpers.models.transformer import Config


class Embedding(nn.Module):
    """Tokens (B, T) → what they are plus where they stand (B, T, C)."""

    def __init__(self, config: Config):
        super().__init__()
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.context, config.width)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """Look tokens (B, T) up, T at most the context: one row for each, (B, T, C)."""
        length, context = tokens.shape[1], self.position.num_embeddings
        if length > context:
            raise ValueError(f"{length} tokens in a row: the context is {context}")
        places = torch.arange(length, device=tokens.device)
        return self.drop(self.token(tokens) + self.position(places))  # (B, T, C) + (T, C)


class Attention(nn.Module):
    """Each position takes what it needs from itself and those before it."""

    def __init__(self, config: Config):
        super().__init__()
        width = config.width
        self.heads, self.dropout = config.heads, config.dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Attend, causally: normalized (B, T, C) → what is added to the stream."""
        q, k, v = (self._split(part(x)) for part in (self.query, self.key, self.value))
        dropout = self.dropout if self.training else 0.0
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))  # (B, H, T, C/H) → (B, T, C)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)  # (B, T, C) → (B, H, T, C/H)


class Perceptron(nn.Module):
    """Each position alone: four times wider, GELU, back."""

    def __init__(self, config: Config):
        super().__init__()
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """Map each position: normalized (B, T, C) → what is added to the stream."""
        return self.down(functional.gelu(self.up(x)))


class Block(nn.Module):
    """x + attention(norm(x)), then x + perceptron(norm(x)): (B, T, C) → (B, T, C)."""

    def __init__(self, config: Config):
        super().__init__()
        self.first_norm = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.second_norm = nn.LayerNorm(config.width)
        self.perceptron = Perceptron(config)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Add to the stream (B, T, C) what attention and perceptron find."""
        x = x + self.drop(self.attention(self.first_norm(x)))
        return x + self.drop(self.perceptron(self.second_norm(x)))


class Head(nn.Module):
    """The stream (B, T, C) → a score for each token that may come next (B, T, V)."""

    def __init__(self, config: Config):
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.scores = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Score the vocabulary: the stream (B, T, C) → (B, T, V), before the softmax."""
        return self.scores(self.norm(x))
