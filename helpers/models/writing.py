"""Train a small language model in one process, and let it write.

    model, alphabet = trained(READABLE)  # about a minute on two cores
    print(generate(model, "This package", 80, alphabet=alphabet))

An alphabet is what has ``encode`` and ``decode``: the module `helpers.datasets.characters`, or a
`helpers.datasets.subwords.Subwords`, whose tokens are pieces of words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import nn

from helpers.datasets import characters
from helpers.datasets.characters import batch, decode, load_characters
from helpers.datasets.subwords import learn
from helpers.models.transformer import Config, loss, transformer

WORD = re.compile("[A-Za-z]{3,}")


class Alphabet(Protocol):
    """Turns text into tokens and back."""

    def encode(self, text: str) -> np.ndarray: ...

    def decode(self, tokens: np.ndarray) -> str: ...


@dataclass(frozen=True)
class Recipe:
    """A model and its training.

    Parameters
    ----------
    config : Config
        The model's size. A vocabulary of 96 are characters; a larger one, pieces of words.
    steps : int
        Updates of the weights.
    size : int
        Sequences in a batch.
    rate : float
        The greatest learning rate.
    """

    config: Config
    steps: int
    size: int
    rate: float


# About a minute each on two cores, tokens included (`python -m bench writing`).
READABLE = Recipe(Config(1536, 64, 2, 4, 128), steps=1300, size=16, rate=2.5e-3)
SPELT = Recipe(Config(96, 64, 2, 4, 128), steps=1900, size=16, rate=2.5e-3)  # by characters


def train(
    model: nn.Module,
    tokens: np.ndarray,
    steps: int = 600,
    size: int = 16,
    context: int = 64,
    rate: float = 3e-3,
    seed: int = 0,
) -> list[float]:
    """Train with AdamW, the rate rising over a tenth of the steps and falling as a cosine to 0.

    Parameters
    ----------
    model : torch.nn.Module
        Tokens (B, T) → scores (B, T, V); changed.
    tokens : numpy.ndarray (n,)
        The text.
    steps : int
        Updates of the weights.
    size : int
        Sequences in a batch.
    context : int
        Tokens in a sequence.
    rate : float
        The greatest learning rate.
    seed : int
        Of the batches.

    Returns
    -------
    list of float
        The loss of each step, in nats for each token.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.99), fused=True)
    warm = max(1, steps // 10)
    plan = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min((n + 1) / warm, 0.5 * (1 + math.cos(math.pi * n / steps)))
    )
    losses = []
    model.train()
    for step in range(steps):
        inputs, targets = map(torch.from_numpy, batch(tokens, size, context, seed, step))
        optimizer.zero_grad()
        value = loss(model(inputs), targets)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        plan.step()
        losses.append(value.item())
    return losses


def trained(recipe: Recipe, seed: int = 0) -> tuple[nn.Sequential, Alphabet]:
    """Train a recipe's model on the Debian descriptions.

    Parameters
    ----------
    recipe : Recipe
        What and how long.
    seed : int
        Of weights and batches.

    Returns
    -------
    model : torch.nn.Sequential
        Trained.
    alphabet : Alphabet
        Its tokens, learnt from the training text.
    """
    text, _ = load_characters()
    alphabet: Alphabet = characters  # a module is one, too
    tokens = text
    if recipe.config.vocabulary > characters.VOCABULARY:
        alphabet = learn(decode(text), recipe.config.vocabulary)
        tokens = alphabet.encode(decode(text))
    model = transformer(recipe.config, seed)
    train(model, tokens, recipe.steps, recipe.size, recipe.config.context, recipe.rate, seed)
    return model, alphabet


def bits(model: nn.Module, text: str, context: int = 64, alphabet: Alphabet = characters) -> float:
    """Compute −log₂ p of a text, for each of its *characters*: comparable between alphabets.

    Parameters
    ----------
    model : torch.nn.Module
        Tokens (B, T) → scores (B, T, V).
    text : str
        That it was not trained with.
    context : int
        Tokens that it sees at most; the text is cut into pieces of so many and one more.
    alphabet : Alphabet
        The model's.

    Returns
    -------
    float
        In bits. Each piece's first token is given, and its characters are not counted.

    Raises
    ------
    ValueError
        If the text has not enough tokens for one piece.
    """
    tokens = alphabet.encode(text)
    pieces = len(tokens) // (context + 1)
    if not pieces:
        raise ValueError(f"{len(tokens)} tokens make no piece of context={context} and one more")
    rows = torch.from_numpy(tokens[: pieces * (context + 1)].reshape(pieces, -1))
    counted = sum(len(alphabet.decode(row[1:])) for row in rows.numpy())
    model.eval()
    with torch.no_grad():
        nats = sum(loss(model(part[:, :-1]), part[:, 1:]) * len(part) for part in rows.split(64))
    return float(nats) * context / math.log(2) / counted


def known(text: str, words: Collection[str]) -> float:
    """Compute which share of a text's words, of three letters or more, are among some words.

    Parameters
    ----------
    text : str
        What a model wrote.
    words : collection of str
        In lower case.

    Returns
    -------
    float
        From 0 to 1; nan for a text without words.
    """
    found = [word.lower() in words for word in WORD.findall(text)]
    return sum(found) / len(found) if found else math.nan


def generate(
    model: nn.Module,
    start: str,
    count: int = 200,
    context: int = 64,
    temperature: float = 0.8,
    seed: int = 0,
    alphabet: Alphabet = characters,
) -> str:
    """Let a model continue a text, token by token.

    Parameters
    ----------
    model : torch.nn.Module
        Tokens (B, T) → scores (B, T, V).
    start : str
        What it continues.
    count : int
        Tokens to add.
    context : int
        Tokens that it sees at most.
    temperature : float
        Below 1, likely tokens become likelier; 0 always takes the likeliest.
    seed : int
        Of the draws.
    alphabet : Alphabet
        The model's.

    Returns
    -------
    str
        The start and what follows.

    Raises
    ------
    ValueError
        If the start has no character of the alphabet, or the temperature is negative.
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
