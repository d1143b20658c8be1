"""A small decoder-only transformer (Radford et al., 2019; nanoGPT's shape), made to be split.

It is a list of pieces, one after another: an embedding, blocks, a head. `layer` makes any one of
them alone, with the weights that it has in the whole model, so that a rank needs no more than its
own. The matrices of a block are plain ``Linear``: query, key, value and out, up and down. ::

    model = transformer(Config(layers=2), seed=0)
    loss(model(inputs), targets)

Axes: B sequences, T positions, C = width, H heads, V = vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

SPREAD = 0.02  # standard deviation of initial weights (GPT-2)


@dataclass(frozen=True)
class Config:
    """The size of a transformer.

    Parameters
    ----------
    vocabulary : int
        Tokens there are; 96 characters by default (`helpers.datasets.characters`).
    context : int
        Tokens that it sees at most.
    heads : int
        Of attention, in each block; they share the width equally.
    dropout : float
        The share of numbers set to 0 in training, 0 to 1.

    Raises
    ------
    ValueError
        If the heads do not divide the width.
    """

    vocabulary: int = 96
    context: int = 64
    layers: int = 4
    heads: int = 4
    width: int = 128
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"width={self.width} does not divide into heads={self.heads}")

    @property
    def pieces(self) -> int:
        """Layers in the list: the blocks, the embedding and the head."""
        return self.layers + 2


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


def layer(
    config: Config, index: int, seed: int = 0, dtype: torch.dtype = torch.float32
) -> nn.Module:
    """Make one piece of the model alone, with the weights that it has in the whole.

    Index 0 is the embedding, 1 to ``layers`` are the blocks, ``layers + 1`` is the head. Weights
    are drawn in float64 from the seed and the index, then rounded: a model in float32 and one in
    float64 start from the same numbers. Weights are normal, 0.02 wide, narrower by √(2 layers)
    where a block adds to the stream (GPT-2); biases are 0.
    """
    if index not in range(config.pieces):
        raise ValueError(f"index={index!r}: the model has pieces 0 to {config.pieces - 1}")
    kind = Embedding if index == 0 else Head if index == config.layers + 1 else Block
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed * 1009 + index)
        made = kind(config).double()
        for name, weights in made.named_parameters():
            if weights.dim() == 2:
                adds = name.endswith(("out.weight", "down.weight"))
                spread = SPREAD / (2 * config.layers) ** 0.5 if adds else SPREAD
                nn.init.normal_(weights, std=spread)
            elif name.endswith("bias"):
                nn.init.zeros_(weights)
    return made.to(dtype)


def transformer(config: Config, seed: int = 0, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """Make the whole model: tokens (B, T) → scores (B, T, V)."""
    return nn.Sequential(*(layer(config, i, seed, dtype) for i in range(config.pieces)))


def parameter_count(config: Config) -> int:
    """Count the numbers that training changes, without making any.

    A block has 12 C² in six matrices, 9 C in their biases, 4 C in two norms; the embeddings have (V
    + context) C, the head V C and 2 C in its norm.
    """
    width, vocabulary = config.width, config.vocabulary
    block = 12 * width**2 + 13 * width
    return config.layers * block + (2 * vocabulary + config.context + 2) * width


def loss(scores: Tensor, targets: Tensor) -> Tensor:
    """Average −ln p of the tokens (B, T) that came, by scores (B, T, V): in nats for each token.

    A model that knows nothing has ln V.
    """
    return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
