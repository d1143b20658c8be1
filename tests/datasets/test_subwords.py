"""Byte-pair encoding: against the plain definition, there and back, and what it refuses."""

import doctest
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from helpers.datasets import subwords as module
from helpers.datasets.characters import ALPHABET, as_text
from helpers.datasets.descriptions import load_descriptions
from helpers.datasets.subwords import WORD, Subwords, learn

SONG = "low lower lowest, slow slower; ten tens 1010 1010: the the then tent\n" * 3


def joined(parts, pair):
    """The definition, from the left."""
    found = []
    while parts:
        taken = 2 if tuple(parts[:2]) == pair else 1
        found.append("".join(parts[:taken]))
        parts = parts[taken:]
    return found


def plainly(text, size):
    """Count all pairs of all words anew for each token."""
    tokens, pairs = list(ALPHABET), []
    words = [list(word) for word in WORD.findall(text)]
    while len(tokens) < size:
        often = Counter(pair for word in words for pair in pairwise(word))
        if not often:
            break
        best = min(often, key=lambda pair: (-often[pair], *map(tokens.index, pair)))
        if best not in pairs:
            pairs.append(best)
        if "".join(best) not in tokens:
            tokens.append("".join(best))
        words = [joined(word, best) for word in words]
    return pairs, tokens


def scribble(seed):
    draws = random.Random(seed)
    return "".join(draws.choices("aaabbc c\n1", k=300))


@pytest.mark.parametrize("text", [SONG, "aaaa aaa aaaaa", *map(scribble, range(4))])
@pytest.mark.parametrize("size", [96, 97, 104, 130])
def test_it_is_its_definition(text, size):
    found = learn(text, size)
    pairs, tokens = plainly(text, size)
    assert found.pairs == pairs
    assert found.tokens == tokens
    words = [list(word) for word in WORD.findall(text)]
    for pair in pairs:
        words = [joined(word, pair) for word in words]
    parts = [part for word in words for part in word]
    assert [found.tokens[token] for token in found.encode(text)] == parts


def test_the_most_frequent_pair_comes_first():
    found = learn("ana ana bana", 98)
    assert found.pairs == [("a", "n"), ("an", "a")]
    assert [found.tokens[token] for token in found.encode("a ban, ana")] == (
        ["a", " ", "b", "an", ",", " ", "ana"]
    )


def test_there_and_back_on_text_that_it_has_not_seen():
    train, test = load_descriptions().split(0)
    subwords = learn("".join(map(as_text, train[:300])), 480)
    assert len(subwords) == 480
    text = "".join(map(as_text, test[:40]))
    kept = "".join(c for c in text if c in ALPHABET)
    tokens = subwords.encode(text)
    assert tokens.dtype == np.int64
    assert subwords.decode(tokens) == kept
    assert len(tokens) < 0.5 * len(kept)
    again = Subwords(subwords.pairs)
    np.testing.assert_array_equal(again.encode(text), tokens)
    everything = ALPHABET * 2 + "  \n\n a  b"
    assert subwords.decode(subwords.encode(everything)) == everything


def test_no_token_reaches_over_the_end_of_a_word():
    for token in learn(SONG * 5, 200).tokens:
        assert len(WORD.findall(token)) == 1


def test_doctests():
    assert doctest.testmod(module).failed == 0


def test_odd_texts():
    assert learn("", 200).tokens == list(ALPHABET)
    assert len(learn("é ü", 200)) == 96
    empty = learn("ab", 200).encode("")
    assert empty.shape == (0,)
    assert learn("ab", 200).decode(empty) == ""


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="size=50: expected 96, the characters, or more"):
        learn("text", 50)
    with pytest.raises(ValueError, match="'bc' is no token before it"):
        Subwords([("a", "bc")])
    with pytest.raises(ValueError, match="tokens 3 to 97: expected 0 to 96"):
        Subwords([("a", "b")]).decode([3, 97])
