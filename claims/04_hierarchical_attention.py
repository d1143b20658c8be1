"""What notebook 04 concludes: counted words against a network, packing, explanations.

The margins were fixed before the recorded runs. Two models tie where the whole interval lies within
1.5 points of accuracy, a little more than the standard error of one fold (1.2). Of a probability
that hiding words takes away, 0.02 count; of times, what each claim says.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from typing import TYPE_CHECKING, Any

from helpers.claims import Share, in_turn, with_defaults

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from helpers.attention.experiment import Experiment

FOLDS = range(3)  # three of the fifths of the source packages held out in turn: pairs of a test
HAN = "hierarchical attention"
SMALL = {"share": 0.05, "epochs": 1, "hidden": 4}
TIE, LESS = 0.015, 0.02  # margins

# ------------------------------------------------------------------------ what is trained, once


@functools.cache
def _split(fold: int, share: float, hidden: int) -> Experiment:
    from helpers.attention.experiment import Experiment

    return Experiment(fold=fold, share=share, hidden=hidden)


def _experiment(fold: int, share: float = 1.0, hidden: int = 32, **_: Any) -> Experiment:
    return _split(fold, share, hidden)


@functools.cache
def _trained(
    fold: int,
    name: str,
    share: float = 1.0,
    epochs: int = 0,
    hidden: int = 32,
) -> nn.Module:
    """A model of one split, its last epoch chosen on a tenth of the sources, not trained on."""
    import torch

    from helpers.attention import training
    from helpers.attention.experiment import recipe

    torch.set_num_threads(1)
    one = _experiment(fold, share, hidden)
    model = one.model(name, seed=fold)
    x, y, *_ = one.data
    learn, validate = (
        tuple([v for v, out in zip(values, one.validation, strict=True) if out == held]
              for values in (x, y))
        for held in (False, True)
    )  # fmt: skip
    how = recipe(name, seed=fold)
    how = dataclasses.replace(how, epochs=epochs or how.epochs + 1)
    training.train(model, *learn, how, validation=validate)
    return model


@functools.cache
def _right(fold: int, name: str, **how: Any) -> np.ndarray:
    """Which held-out documents a trained model answers rightly."""
    import numpy as np

    from helpers.attention import training

    _, _, documents, labels = _experiment(fold, **how).data
    return training.predict(_trained(fold, name, **how), documents).argmax(1).numpy() == np.array(
        labels
    )


@functools.cache
def _counted(fold: int, share: float = 1.0) -> np.ndarray:
    """The same of counted words."""
    from helpers.attention import counting

    return counting.right(counting.KINDS[0], *_experiment(fold, share).documents)


# ------------------------------------------------------------------------------- the experiments


def against_counting(fold: int, **how: Any) -> tuple[float, float]:
    """Accuracy of hierarchical attention and of counted words, on one held-out fifth."""
    return _right(fold, HAN, **how).mean(), _counted(fold, how.get("share", 1.0)).mean()


def only_one_is_right(fold: int, **how: Any) -> Share:
    """Of the documents that one of the two has right and the other not: how many the network."""
    network, words = _right(fold, HAN, **how), _counted(fold, how.get("share", 1.0))
    return Share(int((network & ~words).sum()), max(int((network ^ words).sum()), 1))


@functools.cache
def _left(fold: int, ranking: str, count: int, documents: int = 200, **how: Any) -> float:
    """The mean probability of the first answer once ``count`` words of each are hidden."""
    from helpers.attention import explain

    learned, _, held, _ = _experiment(fold, **how).data
    ranks = {
        "attention": explain.by_attention,
        "gradient × input": explain.by_gradient,
        "random": explain.at_random(fold),
        "rarest": explain.by_rarity(learned),
    }[ranking]
    chosen = random.Random(fold).sample(held, documents)
    model = _trained(fold, HAN, **how)
    return explain.deletion(model, chosen, [count], {ranking: ranks})[ranking][0]


def left_by(fold: int, ours: str, rival: str, count: int, **how: Any) -> tuple[float, float]:
    """What is left of the first answer after hiding by one ranking and by another."""
    return _left(fold, ours, count, **how), _left(fold, rival, count, **how)


def together(seed: int, sentences: int, words: int = 20, rounds: int = 7) -> tuple[float, float]:
    """Seconds of a GRU's forward and backward pass over many sentences, and of as many alone."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    gru = torch.nn.GRU(100, 32, batch_first=True, bidirectional=True)
    x = torch.randn(sentences, words, 100)
    many, one = in_turn(
        lambda: gru(x)[0].sum().backward(), lambda: gru(x[:1])[0].sum().backward(), rounds
    )
    return many, sentences * one


# ------------------------------------------------------------------------------------ the claims

QUARTER = {"share": 0.25}
DATA = {"all documents": {}, "a quarter of them": QUARTER}
HIDDEN = {f"{count} words hidden": {"count": count} for count in (4, 8)}


def _with(settings: dict, **more: Any) -> dict:
    return {name: {**setting, **more} for name, setting in settings.items()}


AMOUNT = "how many documents there are to learn from"
DEPENDS = f"depends on {AMOUNT}"
_accuracy = with_defaults(seeds=FOLDS, unit="1", axis=AMOUNT, smallest=SMALL)
_time = with_defaults(
    seeds=FOLDS,
    unit="s",
    scale="ratio",
    axis="how much is in a batch",
)
_hiding = with_defaults(
    seeds=FOLDS,
    unit="1",
    larger=False,
    axis="how many words are hidden",
    smallest={**SMALL, "documents": 3, "count": 1},
)

CLAIMS = [
    _time(
        "04-step",
        "A GRU over many sentences at once takes less than a quarter of the time that it takes "
        "over them one by one.",
        together,
        {"8 sentences": {"sentences": 8}, "64 sentences": {"sentences": 64}},
        "holds",
        3.0,
        "at once",
        "one by one",
        larger=False,
        smallest={"words": 2, "rounds": 1},
    ),
    _accuracy(
        "04-bar",
        "Hierarchical attention is as often right as a linear SVM on counted words.",
        against_counting,
        DATA,
        DEPENDS,
        TIE,
        HAN,
        "linear SVM, one and two words",
    ),
    _accuracy(
        "04-bar-documents",
        "Of the documents that only one of these two has right, hierarchical attention has more "
        "than half.",
        only_one_is_right,
        DATA,
        DEPENDS,
        0.0,
        "the network's share",
        "half",
        rival_share=0.5,
    ),
    _hiding(
        "04-attention-points",
        "Hiding the most attended words costs more of the answer than hiding random ones.",
        left_by,
        _with(HIDDEN, ours="attention", rival="random"),
        "holds",
        LESS,
        "attention",
        "random",
    ),
    _hiding(
        "04-attention-rare",
        "Hiding the most attended words costs more than hiding the rarest ones.",
        left_by,
        _with(HIDDEN, ours="attention", rival="rarest"),
        "holds",
        LESS,
        "attention",
        "rarest",
    ),
    _hiding(
        "04-gradient-explains",
        "Hiding by gradient × input costs more of the answer than hiding by attention.",
        left_by,
        _with(HIDDEN, ours="gradient × input", rival="attention"),
        "holds",
        LESS,
        "gradient × input",
        "attention",
    ),
]
