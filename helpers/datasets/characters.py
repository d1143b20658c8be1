"""Text as tokens: one for each character, over the Debian descriptions, offline.

    train, test = load_characters()
    inputs, targets = batch(train, size=8, context=64, seed=0, step=3)

The alphabet has 96 characters: a line break and what ASCII prints. 96 divides by 2, 3, 4, 6 and 8.
"""

from __future__ import annotations

import numpy as np

from helpers.datasets.descriptions import Document, load_descriptions
from helpers.datasets.text import sentences

ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
_NUMBER_OF = {character: number for number, character in enumerate(ALPHABET)}


def encode(text: str) -> np.ndarray:
    r"""Turn text into tokens (n,), 0 to 95; characters outside the alphabet are dropped.

    >>> encode("\n a")
    array([ 0,  1, 66])
    """
    return np.array([_NUMBER_OF[c] for c in text if c in _NUMBER_OF], dtype=np.int64)


def as_text(document: Document) -> str:
    """Write a description as a model reads it: name, synopsis, sentences, an empty line."""
    return "\n".join([f"{document.package}: " + "\n".join(sentences(document.text)), "", ""])


def load_characters() -> tuple[np.ndarray, np.ndarray]:
    """Load all descriptions as two rows of tokens; a fifth of the packages is held out."""
    sides = load_descriptions().split(0)
    train, test = (encode("".join(map(as_text, side))) for side in sides)
    return train, test


def batch(
    tokens: np.ndarray, size: int, context: int, seed: int = 0, step: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Cut pieces at random places: the same for everyone who names the same seed and step.

    Parameters
    ----------
    tokens : (n,) numpy.ndarray
    size, context
        How many pieces, and tokens of each; ValueError if the text is too short for one.

    Returns
    -------
    inputs, targets : (size, context) numpy.ndarray
        The tokens, and the token after each; int64.
    """
    if len(tokens) <= context:
        raise ValueError(f"{len(tokens)} tokens make no piece of context={context} and one more")
    starts = np.random.default_rng((seed, step)).integers(len(tokens) - context, size=size)
    places = starts[:, None] + np.arange(context)
    return tokens[places], tokens[places + 1]
