"""Train a small language model in one process, and let it write."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from helpers.datasets.characters import batch, decode, encode
from helpers.models.transformer import Config, loss

READABLE = Config(context=64, layers=4, heads=4, width=128)  # a minute on two cores


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
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.99))
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


def generate(
    model: nn.Module,
    start: str,
    count: int = 200,
    context: int = 64,
    temperature: float = 0.8,
    seed: int = 0,
) -> str:
    """Let a model continue a text, character by character.

    Parameters
    ----------
    model : torch.nn.Module
        Tokens (B, T) → scores (B, T, V) over `helpers.datasets.characters`.
    start : str
        What it continues.
    count : int
        Characters to add.
    context : int
        Characters that it sees at most.
    temperature : float
        Below 1, likely characters become likelier; 0 always takes the likeliest.
    seed : int
        Of the draws.

    Returns
    -------
    str
        The start and what follows.

    Raises
    ------
    ValueError
        If the start has no character of the alphabet, or the temperature is negative.
    """
    tokens = torch.from_numpy(encode(start))
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
    return decode(tokens.numpy())
