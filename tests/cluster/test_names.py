"""A function of the notebook sees the rank's variables, and not the kernel's of the same names."""

import functools

import pytest

from helpers.cluster.rank.names import hidden, let_see

RANKS = {"rank": 2, "size": 4, "mine": "the rank's"}


def timed(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)

    return inner


def from_the_notebook(source: str, **kernel) -> dict:
    """Return the variables that a cell would leave in a kernel that has these."""
    names = {"__name__": "__main__", "partial": functools.partial, "timed": timed, **kernel}
    exec(source, names)
    return names


@pytest.mark.parametrize(
    ("source", "shown", "call", "told"),
    [
        ("made = lambda: (rank, mine, own)", "made", "made()", (2, "the rank's", "kernel's")),
        ("def made(): return [size + n for n in (1, 2)]", "made", "made()", [5, 6]),
        ("made = partial(lambda f, g: (rank, f(), g()), lambda: size, g=lambda: mine)", "made",
         "made()", (2, 4, "the rank's")),
        ("class Made:\n    def where(self): return rank", "Made", "Made().where()", 2),
        ("class Made:\n    def where(self): return self.own()\n    def own(self): return rank",
         "Made().where", "Made().where()", 2),
        ("class Made:\n    def __call__(self): return size", "Made()", "Made()()", 4),
        ("made = timed(lambda: (rank, mine))", "made", "made()", (2, "the rank's")),
    ],
)  # fmt: skip
def test_the_ranks_names_come_before_the_kernels(source, shown, call, told):
    names = from_the_notebook(source, rank=3, mine=9, own="kernel's")
    let_see(eval(shown, names), RANKS)
    assert eval(call, names) == told


def test_a_modules_function_sees_what_its_module_lacks():
    names = {"__name__": "elsewhere", "rank": 7}
    exec("made = lambda: (rank, size)\nother = lambda x: x.comm", names)
    let_see(names["made"], RANKS)
    assert names["made"]() == (7, 4)
    let_see(names["other"], {**RANKS, "comm": 1, "mine": 2})
    assert not {"comm", "mine"} & names.keys()


def test_a_variable_of_the_notebook_that_is_hidden_is_named():
    names = from_the_notebook("made = lambda: (rank, size, mine)", size=1000, mine=3)
    (sentence,) = hidden(names["made"])
    assert sentence.startswith("size on a rank is the rank's own, not the notebook's 1000")
    assert hidden(from_the_notebook("made = lambda: size")["made"]) == hidden(print) == []
