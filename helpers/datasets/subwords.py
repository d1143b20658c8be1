"""Text as tokens of several characters: byte-pair encoding (Sennrich et al., 2016), learnt here.

    subwords = learn("low lower lowest " * 9, size=100)
    tokens = subwords.encode("low slow")
    subwords.decode(tokens)

It begins with the 96 characters of :mod:`.characters`. Again and again the two neighbours that
stand together most often become one token. No token reaches over the end of a word. Inside, a word
is a string with one symbol for each token, ``chr`` of its number: to join a pair is to replace two
symbols by one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np

from helpers.datasets.characters import ALPHABET

WORD = re.compile(r" ?[A-Za-z]+| ?[0-9]+| ?[^A-Za-z0-9\s]+|\s")  # with the blank before it
_SYMBOLS = {ord(character): number for number, character in enumerate(ALPHABET)}


class Subwords:
    """Turns text into tokens and back by the pairs of tokens to join, the first pair first.

    >>> subwords = Subwords([("a", "t"), (" ", "at")])
    >>> [subwords.tokens[token] for token in subwords.encode("at bat at")]
    ['at', ' ', 'b', 'at', ' at']
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]):
        self.pairs = list(pairs)
        self.tokens = list(ALPHABET)
        number = {token: i for i, token in enumerate(self.tokens)}
        self._joins: dict[str, tuple[int, str]] = {}  # two symbols: when, and the one for both
        for when, (left, right) in enumerate(self.pairs):
            for side in (left, right):
                if side not in number:
                    raise ValueError(f"the pair {(left, right)}: {side!r} is no token before it")
            if left + right not in number:  # "a" + "bc" may come after "ab" + "c"
                number[left + right] = len(self.tokens)
                self.tokens.append(left + right)
            self._joins[chr(number[left]) + chr(number[right])] = when, chr(number[left + right])
        self._word = cache(self._encode_word)

    def __len__(self) -> int:
        return len(self.tokens)

    def _encode_word(self, word: str) -> list[int]:
        word = word.translate(_SYMBOLS)
        while found := [pair for pair in _pairs(word) if pair in self._joins]:
            first = min(found, key=self._joins.__getitem__)
            word = word.replace(first, self._joins[first][1])
        return [*map(ord, word)]

    def encode(self, text: str) -> np.ndarray:
        """Turn text into tokens (n,); characters outside the alphabet are dropped."""
        return np.array([token for word in _words(text) for token in self._word(word)], np.int64)

    def decode(self, tokens: Sequence[int] | np.ndarray) -> str:
        """Turn tokens into text."""
        tokens = np.asarray(tokens)
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < len(self):
            raise ValueError(
                f"tokens {tokens.min()} to {tokens.max()}: expected 0 to {len(self) - 1}"
            )
        return "".join(self.tokens[token] for token in tokens)


def _words(text: str) -> list[str]:
    return WORD.findall("".join(filter(ALPHABET.__contains__, text)))


def _pairs(word: str) -> list[str]:
    return [a + b for a, b in pairwise(word)]


def learn(text: str, size: int) -> Subwords:
    """Find ``size`` tokens of a text: join the most frequent two neighbours, again and again.

    There are fewer tokens if no two neighbours are left. Of equally frequent pairs the one whose
    tokens are older comes first, so the same text gives the same tokens.
    """
    if size < len(ALPHABET):
        raise ValueError(f"size={size!r}: expected {len(ALPHABET)}, the characters, or more")
    tokens = list(ALPHABET)
    number = {token: i for i, token in enumerate(tokens)}
    counted = Counter(_words(text)).items()
    words = [word.translate(_SYMBOLS) for word, _ in counted]
    counts = [count for _, count in counted]
    often: Counter[str] = Counter()
    where: dict[str, set[int]] = defaultdict(set)
    for place, word in enumerate(words):
        for pair in _pairs(word):
            often[pair] += counts[place]
            where[pair].add(place)
    heap = [(-count, pair) for pair, count in often.items()]
    heapify(heap)
    found = []
    while len(tokens) < size and heap:
        count, best = heappop(heap)
        if -count != often[best] or not count:  # rarer by now
            continue
        left, right = (tokens[ord(symbol)] for symbol in best)
        found.append((left, right))
        if left + right not in number:
            number[left + right] = len(tokens)
            tokens.append(left + right)
        change: Counter[str] = Counter()
        for place in where.pop(best):  # no other word changes
            before = _pairs(words[place])
            words[place] = words[place].replace(best, chr(number[left + right]))
            after = _pairs(words[place])
            for pair in before:
                change[pair] -= counts[place]
            for pair in after:
                change[pair] += counts[place]
                where[pair].add(place)
        for pair, more in change.items():
            if more:
                often[pair] += more
                heappush(heap, (-often[pair], pair))
    return Subwords(dict.fromkeys(found))
