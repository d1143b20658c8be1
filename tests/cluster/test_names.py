"""A function of the notebook sees the rank's variables, and not the kernel's of the same names."""

import functools

from helpers.cluster.rank.names import hidden, let_see

RANKS = {"rank": 2, "size": 4, "mine": "the rank's"}


def from_the_notebook(source: str, **kernel):
    """Make what a cell would make in a kernel that has these variables."""
    names = {"__name__": "__main__", **kernel}
    exec(source, names)
    return names["made"]


def test_the_ranks_names_come_before_the_kernels():
    made = from_the_notebook("made = lambda: (rank, mine, own)", rank=3, mine=9, own="kernel's")
    let_see(made, RANKS)
    assert made() == (2, "the rank's", "kernel's")


def test_inner_functions_parts_and_methods_see_them_too():
    inner = from_the_notebook("def made():\n    return [size + n for n in (1, 2)]")
    let_see(inner, RANKS)
    assert inner() == [5, 6]
    part = from_the_notebook("made = lambda f, g: (rank, f(), g())")
    answers = [from_the_notebook("made = lambda: size"), from_the_notebook("made = lambda: mine")]
    whole = functools.partial(part, answers[0], g=answers[1])
    let_see(whole, RANKS)
    assert whole() == (2, 4, "the rank's")
    made = from_the_notebook("class made:\n    def where(self):\n        return rank")
    let_see(made, RANKS)
    assert made().where() == 2


def test_bound_methods_callable_objects_and_what_is_wrapped_see_them_too():
    source = "class made:\n    def __call__(self): return size\n    def where(self): return rank"
    made = from_the_notebook(source)
    let_see(made().where, RANKS)
    assert made().where() == 2
    helped = "class made:\n    def where(self): return self.own()\n    def own(self): return rank"
    made = from_the_notebook(helped)
    let_see(made().where, RANKS)
    assert made().where() == 2, "what a method calls sees them, too"
    made = from_the_notebook(source)
    let_see(made(), RANKS)
    assert made()() == 4

    def timed(function):
        @functools.wraps(function)
        def inner(*args):
            return function(*args)

        return inner

    wrapped = timed(from_the_notebook("made = lambda: (rank, mine)"))
    let_see(wrapped, RANKS)
    assert wrapped() == (2, "the rank's")


def test_a_modules_function_sees_what_its_module_lacks():
    names = {"__name__": "elsewhere", "rank": 7}
    exec("made = lambda: (rank, size)", names)
    let_see(names["made"], RANKS)
    let_see(3, RANKS)
    assert names["made"]() == (7, 4)
    exec("other = lambda x: x.comm", names)
    let_see(names["other"], {**RANKS, "comm": 1, "mine": 2})
    assert not {"comm", "mine"} & names.keys()


def test_a_variable_of_the_notebook_that_is_hidden_is_named():
    made = from_the_notebook("made = lambda: (rank, size, mine)", size=1000, mine=3)
    (sentence,) = hidden(made)
    assert sentence.startswith("size on a rank is the rank's own, not the notebook's 1000")
    assert hidden(from_the_notebook("made = lambda: size")) == []
    assert hidden(print) == hidden(3) == []
