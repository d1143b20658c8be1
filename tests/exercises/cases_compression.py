"""Answers to the exercises of notebook 12."""

import numpy as np

from helpers.data_parallel.compression.compressors import Sign, TopK
from tests.exercises.case import Case


def rounded(v, levels, random, size=np.linalg.norm, none=1.0, up=None):
    """With another ``size`` than the norm; what a norm of zero becomes; how it rounds ``up``."""
    norm = size(v) or none
    level = np.abs(v) * levels / norm
    return np.sign(v) * (up(level) if up else np.floor(level + random)) * norm / levels


def fed(gradient, error, kept, by=lambda gradient, whole: np.abs(whole)):
    """The largest, by size or by something else."""
    whole, sent = gradient + error, np.zeros_like(gradient)
    where = np.argsort(by(gradient, whole))[-kept:]
    sent[where] = whole[where]
    return sent, whole - sent


def fed_in_place(gradient, error, kept):
    gradient += error
    where = np.argpartition(np.abs(gradient), len(gradient) - kept)[len(gradient) - kept :]
    sent = np.zeros_like(gradient)
    sent[where] = gradient[where]
    gradient[where] = 0
    return [sent, gradient]


def wait(needed, workers, least, mean):
    return least + mean * sum(1 / (workers - i) for i in range(needed))


def noise(small, large, batch, ranks):
    return (small - large) * batch * ranks / (ranks * large - small)


class Halved(TopK):
    """Places in 16 bits, values in half precision."""

    def nbytes(self, n):
        return 4 * self.count(n)

    def encode(self, v):
        code = super().encode(v)
        half = len(code) // 2
        where = code[:half].view(np.int32).astype(np.uint16)
        values = code[half:].view(np.float32).astype(np.float16)
        return np.concatenate([where.view(np.uint8), values.view(np.uint8)])

    def add(self, code, out):
        half = len(code) // 2
        out[code[:half].view(np.uint16)] += code[half:].view(np.float16)


class Alone:
    """Right, and no more than the exercise asks for: no base class, no name."""

    def __init__(self):
        self.inner = Halved(0.002)

    def nbytes(self, n):
        return np.int64(self.inner.nbytes(n))

    def encode(self, v):
        return self.inner.encode(v)

    def add(self, code, out):
        self.inner.add(code, out)


class Grouped:
    """Of each 256 values the largest: its place in a byte, and the upper half of its float32."""

    def nbytes(self, n):
        return 3 * -(-n // 256)

    def encode(self, v):
        groups = np.zeros((-(-len(v) // 256), 256), np.float32)
        groups.ravel()[: len(v)] = v
        where = np.abs(groups).argmax(1)
        values = groups[np.arange(len(groups)), where].view(np.uint32) >> 16
        return np.concatenate([where.astype(np.uint8), values.astype(np.uint16).view(np.uint8)])

    def add(self, code, out):
        n = len(code) // 3
        values = code[n:].copy().view(np.uint16).astype(np.uint32) << 16
        out[code[:n] + 256 * np.arange(n)] += values.view(np.float32)


class WholeGroups(Grouped):
    """Forgets what is left over after the last whole group."""

    def nbytes(self, n):
        return 3 * (n // 256)

    def encode(self, v):
        return super().encode(v[: len(v) // 256 * 256])


class RemembersForAll(Halved):
    """Sends the values alone: the places stay with who encoded them, at first the first ones."""

    places = None

    def nbytes(self, n):
        return 2 * self.count(n)

    def encode(self, v):
        code = super().encode(v)
        self.places, values = code[: len(code) // 2], code[len(code) // 2 :]
        return values

    def add(self, code, out):
        if self.places is None:
            self.places = np.arange(len(code) // 2, dtype=np.uint16).view(np.uint8)
        super().add(np.concatenate([self.places, code]), out)


class DividesByTheSize(Grouped):
    """Of zeros the size is 0."""

    def encode(self, v):
        size = np.abs(v).max()
        with np.errstate(invalid="ignore"):
            return super().encode(v / size * size)


class InAList(Grouped):
    def encode(self, v):
        return super().encode(v).tolist()


class UsesUp(Grouped):
    def encode(self, v):
        code = super().encode(v)
        v[:] = 0
        return code


class Overwrites(TopK):
    def add(self, code, out):
        out[:] = 0
        super().add(code, out)


class Short(Sign):
    def nbytes(self, n):
        return n


def sorted_in_place(times, needed):
    times.sort(axis=1)
    return times[:, needed - 1].mean()


CASES = {
    "quantised": Case(
        right=rounded,
        also=[
            lambda *given: list(rounded(*given)),
            lambda v, levels, random: (  # with its sign
                np.floor(v / (np.linalg.norm(v) or 1.0) * levels + random)
                * (np.linalg.norm(v) / levels)
            ),
        ],
        wrong=[
            lambda *given: rounded(*given, up=np.round),
            lambda *given: np.abs(rounded(*given)),
            lambda *given: rounded(*given, none=0.0),
            lambda v, levels, random: (rounded(v, levels, random), levels),
        ],
    ),
    "pays_below": Case(
        right=lambda plain, coded, seconds: 8 * (plain - coded) / seconds,
        wrong=[lambda plain, coded, seconds: (plain - coded) / seconds],
    ),
    "feed_back": Case(
        right=fed,
        also=[fed_in_place],
        wrong=[
            lambda g, error, kept: (fed(g, 0 * error, kept)[0], g - fed(g, 0 * error, kept)[0]),
            lambda *given: fed(*given, by=lambda gradient, whole: np.abs(gradient)),
            lambda g, error, kept: (fed(g, error, kept)[0], g - fed(g, error, kept)[0]),
            lambda *given: fed(*given, by=lambda gradient, whole: whole),
        ],
    ),
    "expected_wait": Case(
        right=wait,
        wrong=[
            lambda N, W, least, mean: least + mean,
            lambda N, W, least, mean: least + mean * sum(1 / k for k in range(1, N + 1)),
        ],
    ),
    "measured_wait": Case(
        right=lambda times, needed: np.partition(times, needed - 1, axis=1)[:, needed - 1].mean(),
        wrong=[
            lambda times, needed: np.sort(times, axis=0)[:, needed - 1].mean(),  # over the steps
            lambda times, needed: np.sort(times, axis=1)[:, -needed].mean(),
            lambda times, needed: np.sort(times.mean(0))[needed - 1],  # the mean worker
            sorted_in_place,
        ],
    ),
    "noise_scale": Case(
        right=noise,
        wrong=[lambda small, large, B, R: (small - large) / large],
    ),
    "compressor": Case(
        long=True,
        right=Alone,
        wrong=[
            *(
                WholeGroups,
                InAList,
                DividesByTheSize,
                lambda: RemembersForAll(0.002),
                UsesUp,
                lambda: TopK(0.005),
            ),
            lambda: TopK(0.0012),  # fewer bytes a step, and more steps
            *(lambda: Halved, lambda: Overwrites(0.1), Short),
        ],
    ),
}
