"""Let a small language model write.

An alphabet is what has ``encode`` and ``decode``: the module `helpers.datasets.characters`, or a
`helpers.datasets.subwords.Subwords`, whose tokens are pieces of words.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import nn

from helpers.datasets import characters


class Alphabet(Protocol):
    """Turns text into tokens and back."""

    def encode(self, text: str) -> np.ndarray: ...

    def decode(self, tokens: np.ndarray) -> str: ...


def generate(
    model: nn.Module,
    start: str,
    count: int = 200,
    context: int = 64,
    temperature: float = 0.8,
    seed: int = 0,
    alphabet: Alphabet = characters,
) -> str:
    """Let a model of tokens (B, T) → scores (B, T, V) add ``count`` tokens to a text.

    It sees ``context`` tokens at most. A ``temperature`` below 1 makes likely tokens likelier; 0
    always takes the likeliest. ValueError if the start has no character of the alphabet, or the
    temperature is negative.
    """
    tokens = torch.from_numpy(alphabet.encode(start))
    if not len(tokens):
        raise ValueError(f"start={start!r}: expected one character of the alphabet or more")
    if not temperature >= 0:
        raise ValueError(f"temperature={temperature!r}: expected 0 or more")
    draws = torch.Generator().manual_seed(seed)
    model.eval()
    with torch.no_grad():
        for _ in range(count):
            scores = model(tokens[None, -context:])[0, -1].double()  # (V,)
            if temperature == 0:
                token = scores.argmax(0, keepdim=True)
            else:
                chances = torch.softmax(scores / temperature, 0)
                token = torch.multinomial(chances, 1, generator=draws)
            tokens = torch.cat([tokens, token])
    return alphabet.decode(tokens.numpy())
