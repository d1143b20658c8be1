"""A model that writes: bits for each character in any alphabet, known words, a small training."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from bench import writing
from bench.writing import Recipe, bits, known, train, trained
from helpers.datasets import characters
from helpers.datasets.characters import encode
from helpers.datasets.subwords import Subwords, learn
from helpers.models.transformer import Config, transformer
from helpers.models.writing import generate

TEXT = "parallel " * 40


class Constant(nn.Module):
    """Gives every position the same scores."""

    def __init__(self, scores):
        super().__init__()
        self.scores = torch.as_tensor(scores, dtype=torch.float64)

    def forward(self, tokens):
        return self.scores.expand(*tokens.shape, -1)


def test_it_learns_a_row_and_continues_it():
    model = transformer(Config(context=16, layers=1, heads=2, width=32))
    losses = train(model, encode(TEXT), steps=120, size=8, context=16, rate=1e-2)
    assert losses[0] > 4
    assert losses[-1] < 0.2
    assert generate(model, "par", 15, context=16, temperature=0) == "parallel parallel "
    assert generate(model, "par", 5, seed=1) == generate(model, "par", 5, seed=1)


def test_the_same_with_tokens_that_are_pieces_of_words():
    alphabet = learn(TEXT, 104)
    model = transformer(Config(len(alphabet), 8, 1, 2, 32))
    train(model, alphabet.encode(TEXT), steps=120, size=8, context=8, rate=1e-2)
    text = generate(model, "parallel", 6, context=8, temperature=0, alphabet=alphabet)
    assert TEXT.startswith(text)
    assert len(text) > 14
    assert bits(model, TEXT, 8, alphabet) < 0.1


def test_bits_are_those_of_a_character_in_any_alphabet():
    text = "the cat that the cat ate " * 4
    count = len(text) // 5 * 5
    assert bits(Constant(np.zeros(96)), text[:count], 4) == pytest.approx(math.log2(96))
    words = Subwords([("t", "h"), ("th", "e"), (" ", "the"), ("a", "t")])
    tokens = words.encode(text)
    pieces = len(tokens) // 4
    rows = tokens[: 4 * pieces].reshape(pieces, 4)[:, 1:]
    long = sum(len(words.tokens[token]) for token in rows.ravel())
    want = math.log2(len(words)) * rows.size / long
    assert bits(Constant(np.zeros(len(words))), text, 3, words) == pytest.approx(want)
    frequent = np.full(96, -10.0)
    frequent[encode("t")] = 0.0
    ignorant, guess = (bits(Constant(s), "tatttttttt", 9) for s in (np.zeros(96), frequent))
    one = math.exp(-10) / (1 + 95 * math.exp(-10))
    assert guess == pytest.approx((-math.log2(one) - 8 * math.log2(one * math.exp(10))) / 9)
    assert guess < ignorant


def test_known_words_are_counted_among_the_longer_ones():
    words = {"the", "ranks"}
    assert known("The ranks, of thex zanks. The", words) == pytest.approx(3 / 5)
    assert math.isnan(known("a b 12", words))


def test_a_recipe_is_trained_on_the_descriptions(monkeypatch):
    monkeypatch.setattr(writing, "load_characters", lambda: (encode(TEXT), encode("")))
    short = Recipe(Config(96, 8, 1, 2, 16), steps=3, size=2, rate=1e-3)
    model, alphabet = trained(short, seed=1)
    assert alphabet is characters
    assert not torch.equal(model[-1].scores.weight, transformer(short.config, 1)[-1].scores.weight)
    model, alphabet = trained(Recipe(Config(100, 8, 1, 2, 16), 3, 2, 1e-3))
    assert len(alphabet) == 100
    assert generate(model, "par", 3, 8, alphabet=alphabet).startswith("par")


def test_bad_input_is_named():
    model = transformer(Config(context=8, layers=1, heads=1, width=4))
    with pytest.raises(ValueError, match="start='é'"):
        generate(model, "é")
    with pytest.raises(ValueError, match="temperature=-1"):
        generate(model, "a", temperature=-1)
    with pytest.raises(ValueError, match="8 tokens make no piece of context=8"):
        bits(model, "parallel", 8)
