"""A model that writes, after a minute of training: tokens that are pieces of words, or characters.

    python -m bench writing

Both are trained for about as long, by turns, in one process with all cores.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from helpers.datasets import characters
from helpers.datasets.characters import batch, decode, load_characters
from helpers.datasets.subwords import learn
from helpers.machine import usable_cores
from helpers.models.transformer import Config, loss, transformer
from helpers.models.writing import Alphabet, generate
from helpers.records import Row

SUITE = "writing"
SEEDS = (0, 1, 2)
START = "This package"
TEMPERATURE = 0.5  # of the draws: the likelier tokens become likelier
WORD = re.compile("[A-Za-z]{3,}")


@dataclass(frozen=True)
class Recipe:
    """A model and its training: a vocabulary of 96 are characters, a larger one pieces of words."""

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

    Tokens are (n,), ``seed`` is that of the batches. Returns each step's loss, in nats a token.
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
    """Train a recipe's model on the Debian descriptions; return it with its tokens."""
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

    The text is cut into pieces of ``context`` and one more tokens; a piece's first token is given,
    and its characters are not counted.
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
    """Return the share of a text's words, of three letters or more, that are among ``words``."""
    found = [word.lower() in words for word in WORD.findall(text)]
    return sum(found) / len(found) if found else math.nan


def rows() -> list[Row]:
    """Train both with three seeds: seconds, bits for each held-out character, known words."""
    torch.set_num_threads(usable_cores())
    text, test = map(decode, load_characters())
    words = {word.lower() for word in WORD.findall(text)}
    found = []
    for seed in SEEDS:
        both = []
        for recipe in (READABLE, SPELT):
            began = time.perf_counter()
            model, alphabet = trained(recipe, seed)
            took = time.perf_counter() - began
            context = recipe.config.context
            lost = bits(model, test[:300_000], context, alphabet)
            tokens = len(alphabet.encode(test[:400]))  # about as many characters of either
            texts = [
                generate(model, START, tokens, context, TEMPERATURE, n, alphabet) for n in range(16)
            ]
            both.append((took, lost, known(" ".join(texts), words), texts[0]))
            print(f"seed {seed}: {took:.0f} s, {lost:.3f} bits", flush=True)
        case = {"seed": seed, "threads": torch.get_num_threads(), "temperature": TEMPERATURE}
        for place, (name, unit) in enumerate(
            (("training", "s"), ("for each character", "bit"), ("words that exist", "1"))
        ):
            ours, theirs = (one[place] for one in both)
            texts = {"text": both[0][3], "peer's text": both[1][3]} if place == 2 else {}
            found.append(Row(name, ours, unit, "characters", theirs, {**case, **texts}))
    return found
