"""Text as characters: there and back, the packages held out, batches that all draw alike."""

import numpy as np

from helpers.datasets.characters import ALPHABET, as_text, batch, encode, load_characters
from helpers.datasets.descriptions import load_descriptions


def decode(tokens):
    return "".join(ALPHABET[token] for token in tokens)


def test_there_and_back():
    assert decode(encode(ALPHABET)) == ALPHABET
    assert len(set(ALPHABET)) == 96
    assert decode(encode("naïve\t☃ text\n")) == "nave text\n"


def test_the_packages_held_out_are_on_one_side_only():
    train, test = load_characters()
    held = load_descriptions().split(0)[1]
    assert decode(test).startswith(as_text(held[0]))
    assert f"\n{held[1].package}: " in decode(test)
    assert f"\n{held[1].package}: " not in decode(train)
    assert len(train) > 3 * len(test) > 1_000_000


def test_a_batch_is_the_same_for_everyone_and_another_at_each_step():
    text = np.arange(96).repeat(3)
    inputs, targets = batch(text, 4, 9, seed=1, step=2)
    assert inputs.shape == targets.shape == (4, 9)
    assert (inputs[:, 1:] == targets[:, :-1]).all()
    again = batch(text, 4, 9, seed=1, step=2)
    assert (inputs == again[0]).all()
    assert (targets == again[1]).all()
    assert not (inputs == batch(text, 4, 9, seed=1, step=3)[0]).all()
    assert not (inputs == batch(text, 4, 9, seed=2, step=2)[0]).all()
