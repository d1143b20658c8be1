"""Every check of helpers.exercises: the stub is not attempted, wrong fails, right passes."""

import contextlib
import functools
import importlib
import inspect
import pkgutil
from dataclasses import replace

import pytest

import helpers.exercises
from helpers.exercises.core import CORRECT, NOT_ATTEMPTED, WRONG, Exercise
from helpers.exercises.on_ranks import on_ranks
from tests.exercises.case import parts
from tests.exercises.cases_mpi_basics import shift_that_sends_first

PART = pytest.mark.part(of="exercises")
TOPICS = [
    module.name
    for module in pkgutil.iter_modules(helpers.exercises.__path__)
    if module.name not in ("answers", "core", "groups", "kernels", "on_ranks", "predictions")
]


def checks(topic: str) -> dict[str, Exercise]:
    module = importlib.import_module(f"helpers.exercises.{topic}")
    return {name: value for name, value in vars(module).items() if isinstance(value, Exercise)}


def cases(topic: str) -> dict:
    return importlib.import_module(f"tests.exercises.cases_{topic}").CASES


def few(case):
    """Return a case with some of its answers: three wrong ones, two right ones, none that hangs."""
    return replace(case, wrong=case.wrong[:3], hangs=[], also=case.also[:1])


def place(answer) -> str:
    """Say where the answer stands, if it is a function: many are lambdas."""
    code = getattr(answer, "__code__", None)
    return f"{answer!r}, line {code.co_firstlineno}" if code else repr(answer)


def everything() -> list:
    """Return each check with its case; of long ones the part `exercises` has all answers."""
    found = []
    for topic in TOPICS:
        for name, check in checks(topic).items():
            needs_ranks = "cluster" in inspect.signature(check.function).parameters
            marks = [pytest.mark.mpi] if needs_ranks else []
            case = cases(topic).get(name)
            compiles = topic.startswith("cuda")
            if case and (needs_ranks or compiles or case.long) and case != few(case):
                more = [*marks, PART]
                found.append(pytest.param(check, case, id=f"{topic}.{name}-every", marks=more))
                case = few(case)
            found.append(pytest.param(check, case, id=f"{topic}.{name}", marks=marks))
    return found


@pytest.fixture(scope="module")
def kept():
    """``kept(n)``: real ranks, started when the first check asks for so many, and kept for all."""
    from helpers.cluster import Cluster

    class Kept(Cluster):
        def __exit__(self, *_):
            """A check is done with ranks of its own; the next one may need as many."""

    # as notebook 02 does: what forks has torch
    start = functools.cache(lambda n: started.append(Kept(n=n, preload=("torch",))) or started[-1])
    started = []
    yield start
    for cluster in started:
        cluster.stop()


@pytest.fixture
def ranks(kept, monkeypatch):
    """``ranks()``: four real ranks; those that a check starts beside them are kept as well."""
    monkeypatch.setattr("helpers.cluster.Cluster", lambda n, preload=(): kept(n))
    return lambda: kept(4)


@pytest.fixture
def soon(monkeypatch):
    """``with soon():`` an answer on the ranks is taken to hang after a second, or so many."""

    @contextlib.contextmanager
    def shorter(seconds=1.0):
        with monkeypatch.context() as patch:
            patch.setitem(on_ranks.__kwdefaults__, "limit", seconds)
            yield

    return shorter


@pytest.mark.parametrize("topic", TOPICS)
def test_every_check_has_cases_and_every_case_a_check(topic):
    assert set(checks(topic)) == set(cases(topic))
    assert checks(topic), f"helpers.exercises.{topic} has no check"


@pytest.mark.timeout(400)  # those that train take a minute alone, more beside others
@pytest.mark.parametrize(("check", "case"), everything())
def test_stub_wrong_and_right(check, case, ranks, soon, capfd):
    context = dict(case.keywords)
    if "cluster" in inspect.signature(check.function).parameters:
        context["cluster"] = ranks()
    right = parts(case.right)

    stubs = [tuple(None for _ in right)]
    if all(callable(part) for part in right):
        stubs.append(tuple(lambda *args, **kwargs: None for _ in right))
    for stub in stubs:
        verdict = check.examine(*stub, **context)
        assert verdict.status == NOT_ATTEMPTED, f"the stub is {verdict}"
    assert case.wrong, "give at least one plausible wrong answer"
    for answer in (*case.wrong, *case.hangs, *case.told.values()):
        hangs = answer in case.hangs
        with soon() if hangs else contextlib.nullcontext():
            verdict = check.examine(*parts(answer), **context)
        assert verdict.status == WRONG, f"the wrong answer {place(answer)} is {verdict}"
        assert len(verdict.message) > 10, "say what is wrong"
        assert not hangs or "no end after" in verdict.message, verdict.message
        for words, told in case.told.items():
            assert told is not answer or words in verdict.message, verdict.message
        for part in right:  # a number or a word of the answer must not stand in the message
            if isinstance(part, (int, float, str)) and len(str(part)) > 2:
                assert str(part) not in verdict.message
    for answer in (case.right, *case.also):
        verdict = check.examine(*parts(answer), **context)
        assert verdict.status == CORRECT, f"the right answer {place(answer)} is {verdict}"
    assert capfd.readouterr().err == ""


def ring_for_four(x, comm):
    """Hangs on three ranks, where there is no rank 3."""
    from tests.exercises.cases_collectives import ring

    if comm.Get_size() == 3:
        comm.recv(source=0, tag=99)
    return ring(x, comm)


LARGE = "a short word came through; on 4 ranks, an array of 4 MB: "


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("topic", "name", "answer", "case"),
    [
        ("collectives", "ring_allreduce", ring_for_four, "on 3 ranks, 7 numbers of float64: "),
        pytest.param("mpi_basics", "shift", shift_that_sends_first, LARGE, marks=PART),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_who_hangs_in_a_later_case_is_told_which(topic, name, answer, case, ranks, soon):
    for seconds in (1, 4, 16):  # on a busy machine the right cases before it take their time too
        with soon(float(seconds)):
            message = checks(topic)[name].examine(answer, cluster=ranks()).message
        if message.startswith(case):
            break
    assert message.startswith(case)
    assert f": no end after {seconds} s" in message
    assert "Who waits for whom" in message
    assert "attempted" not in message  # no line of the check's own stands for the reader's


@pytest.mark.mpi
@PART
@pytest.mark.timeout(300)
def test_one_process_trains_as_the_ranks_do_and_the_bars_steps_are_recorded(ranks):
    from helpers.data_parallel.compression.compressors import TopK
    from helpers.data_parallel.tasks import links
    from helpers.exercises import compression

    bar = TopK(0.002)
    took = [compression._steps(lambda: bar, 4, seed, 300) for seed in compression.SEEDS]
    options = {"limit": 300, "seed": 0, "timeout": 150}
    assert took[0] == ranks().run(links.to_accuracy, "top 0.002, feedback", 0.85, **options)[0][0]
    assert sum(took) == pytest.approx(compression.needed[4], rel=0.3)  # of the mean of ten
