"""Train and judge any model that maps a ``Batch`` to logits."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from helpers.attention.documents import PADDING, UNKNOWN, Batch, Ids


@dataclass(frozen=True)
class Recipe:
    """How to train; the notebook and its record state what they use otherwise."""

    epochs: int = 4
    batch: int = 48  # documents
    rate: float = 4e-3  # Adam's, at its highest: it rises for a tenth of the run, then falls to 0
    clip: float = 1.0  # norm of the gradient
    word_dropout: float = 0.1  # share of words that are read as unknown
    smoothing: float = 0.1  # of the labels
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1:
            raise ValueError(
                f"Recipe expects epochs and batch of at least 1; got epochs={self.epochs!r}, "
                f"batch={self.batch!r}"
            )


class Trained(NamedTuple):
    """What a training did."""

    seconds: float
    losses: tuple[float, ...]  # after each epoch, on the validation documents; empty without any
    kept: int  # the epoch whose weights the model has, from 1


def train(
    model: nn.Module,
    documents: Sequence[Ids],
    labels: Sequence[int],
    recipe: Recipe | None = None,
    progress: Callable[[int, int, float], None] | None = None,
    validation: tuple[Sequence[Ids], Sequence[int]] | None = None,
) -> Trained:
    """Train ``model`` in place, on the device that it is on.

    Parameters
    ----------
    progress : callable, optional
        ``progress(step, steps, loss)`` is called after each step.
    validation : tuple of sequence, optional
        Documents and labels that are not trained on: the model ends with the weights of the epoch
        at whose end its loss on them was least. Without them, with the last.

    Raises
    ------
    ValueError
        Where documents and labels differ in number, or there are none.
    """
    recipe = recipe or Recipe()
    device = next(model.parameters()).device
    if len(documents) != len(labels) or not documents:
        raise ValueError(f"{len(documents)} documents with {len(labels)} labels: expected as many")
    started = time.perf_counter()
    shuffle, noise = random.Random(recipe.seed), torch.Generator().manual_seed(recipe.seed)
    steps = recipe.epochs * -(-len(documents) // recipe.batch)
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.rate, fused=True)
    rise = min(max(0.1, 1.5 / steps), 0.9)  # a rise of no step at all would divide by zero
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.rate, total_steps=steps, pct_start=rise
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=recipe.smoothing)
    model.train()
    step, losses, best = 0, [], {}
    for _ in range(recipe.epochs):
        for chosen in _batches(len(documents), recipe.batch, shuffle):
            batch = Batch.of([documents[i] for i in chosen])
            loss = criterion(
                model(_hide_words(batch, recipe.word_dropout, noise).to(device)),
                torch.tensor([labels[i] for i in chosen], device=device),
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            optimizer.step()
            schedule.step()
            step += 1
            if progress:
                progress(step, steps, loss.item())
        if validation:
            losses.append(loss_on(model, *validation))
            if losses[-1] == min(losses):
                best = {name: value.clone() for name, value in model.state_dict().items()}
    if best:
        model.load_state_dict(best)
    kept = losses.index(min(losses)) + 1 if losses else recipe.epochs
    return Trained(time.perf_counter() - started, tuple(losses), kept)


def predict(model: nn.Module, documents: Sequence[Ids], batch: int = 64) -> Tensor:
    """Return the probabilities (N, C) of ``documents``, in their order, without dropout."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    with torch.no_grad():
        parts = [
            model(Batch.of(documents[i : i + batch]).to(device)).softmax(1).cpu()
            for i in range(0, len(documents), batch)
        ]
    model.train(was_training)
    return torch.cat(parts)


def accuracy(model: nn.Module, documents: Sequence[Ids], labels: Sequence[int]) -> float:
    """Return the share of documents whose most probable section is theirs."""
    return (predict(model, documents).argmax(1) == torch.tensor(labels)).float().mean().item()


def loss_on(model: nn.Module, documents: Sequence[Ids], labels: Sequence[int]) -> float:
    """Return the mean cross-entropy, without smoothing and without dropout."""
    chosen = predict(model, documents).gather(1, torch.tensor(labels).unsqueeze(1))
    return -chosen.clamp_min(1e-12).log().mean().item()


def _batches(n: int, size: int, shuffle: random.Random) -> list[list[int]]:
    order = list(range(n))
    shuffle.shuffle(order)
    return [order[i : i + size] for i in range(0, n, size)]


def _hide_words(batch: Batch, share: float, noise: torch.Generator) -> Batch:
    """Replace a share of the words by UNKNOWN, so that no single one is relied upon."""
    if not share:
        return batch
    hidden = (torch.rand(batch.words.shape, generator=noise) < share) & (batch.words != PADDING)
    return Batch(batch.words.masked_fill(hidden, UNKNOWN), batch.lengths, batch.counts)
