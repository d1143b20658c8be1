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

from helpers.models.pieces import Block, Embedding, Head

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
        If a size is not a whole number from 1 up, the heads do not divide the width, or the
        dropout is outside [0, 1).
    """

    vocabulary: int = 96
    context: int = 64
    layers: int = 4
    heads: int = 4
    width: int = 128
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("vocabulary", "context", "layers", "heads", "width"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}={value!r}: expected a whole number from 1 up")
        if self.width % self.heads:
            raise ValueError(f"width={self.width} does not divide into heads={self.heads}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout!r}: expected 0 or more, less than 1")

    @property
    def pieces(self) -> int:
        """Layers in the list: the blocks, the embedding and the head."""
        return self.layers + 2


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
