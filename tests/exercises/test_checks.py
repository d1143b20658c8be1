"""Every check of helpers.exercises: the stub is not attempted, wrong fails, right passes."""

import importlib
import inspect
import pkgutil

import pytest

import helpers.exercises
from helpers.exercises.core import CORRECT, NOT_ATTEMPTED, WRONG, Exercise
from tests.exercises.case import parts
from tests.exercises.cases_mpi_basics import whoever_asks_of_three

TOPICS = [
    module.name
    for module in pkgutil.iter_modules(helpers.exercises.__path__)
    if module.name not in ("core", "groups", "kernels", "predictions")
]


def checks(topic: str) -> dict[str, Exercise]:
    module = importlib.import_module(f"helpers.exercises.{topic}")
    return {name: value for name, value in vars(module).items() if isinstance(value, Exercise)}


def cases(topic: str) -> dict:
    return importlib.import_module(f"tests.exercises.cases_{topic}").CASES


def everything() -> list:
    found = []
    for topic in TOPICS:
        for name, check in checks(topic).items():
            needs_ranks = "cluster" in inspect.signature(check.function).parameters
            marks = [pytest.mark.mpi] if needs_ranks else []
            found.append(pytest.param(topic, name, id=f"{topic}.{name}", marks=marks))
    return found


@pytest.fixture(scope="module")
def ranks():
    """Four real ranks, started when the first check asks for them."""
    started = []

    def start():
        if not started:
            from helpers.cluster import Cluster

            # as notebook 02 does: what forks has torch, and forks a check's own ranks too
            started.append(Cluster(n=4, preload=("torch",)))
        return started[0]

    yield start
    for cluster in started:
        cluster.stop()


@pytest.mark.parametrize("topic", TOPICS)
def test_every_check_has_cases_and_every_case_a_check(topic):
    assert set(checks(topic)) == set(cases(topic))
    assert checks(topic), f"helpers.exercises.{topic} has no check"


@pytest.mark.timeout(400)  # those that train take a minute alone, more beside others
@pytest.mark.parametrize(("topic", "name"), everything())
def test_stub_wrong_and_right(topic, name, ranks, capfd):
    check, case = checks(topic)[name], cases(topic)[name]
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
    for answer in case.wrong:
        verdict = check.examine(*parts(answer), **context)
        assert verdict.status == WRONG, f"the wrong answer {answer!r} is {verdict}"
        assert len(verdict.message) > 10, "say what is wrong"
        for part in right:  # a number or a word of the answer must not stand in the message
            if isinstance(part, (int, float, str)) and len(str(part)) > 2:
                assert str(part) not in verdict.message
    for answer in (case.right, *case.also):
        verdict = check.examine(*parts(answer), **context)
        assert verdict.status == CORRECT, f"the right answer {answer!r} is {verdict}"
    assert capfd.readouterr().err == ""


@pytest.mark.mpi
def test_an_answer_that_hangs_with_large_messages_only_is_told_the_size(ranks):
    check, case = checks("mpi_basics")["shift"], cases("mpi_basics")["shift"]
    sends_first = case.wrong[1]
    assert sends_first.__name__ == "shift_that_sends_first"
    message = check.examine(sends_first, cluster=ranks()).message
    case = "on 4 ranks, an array of 4 MB"
    assert message.startswith(f"a short word came through; {case}: no end after 4 s, among 4 ranks")
    assert "send" in message


def allgather_for_four(work, comm):
    """Hangs on three ranks, where there is no rank 3."""
    from tests.exercises.cases_collectives import allgather

    if comm.Get_size() == 3:
        comm.recv(source=0, tag=99)
    return allgather(work, comm)


def two_levels_for_two_nodes(x, node, across):
    from tests.exercises.cases_collectives import by_two_levels

    if across.Get_size() == 1:
        node.recv(source=0, tag=99)
    return by_two_levels(x, node, across)


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("topic", "name", "answer", "case"),
    [
        ("collectives", "allgather", allgather_for_four, "on 3 ranks, parts of 40 bytes: "),
        ("collectives", "two_levels", two_levels_for_two_nodes, "on 1 node of 4, 12 numbers of "),
        ("mpi_basics", "hand_out", whoever_asks_of_three, "3 tasks, 3 ranks: "),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_who_hangs_in_a_later_case_is_told_which(topic, name, answer, case, ranks):
    message = checks(topic)[name].examine(answer, cluster=ranks()).message
    assert message.startswith(case)
    assert ": no end after 4 s" in message
    assert "Who waits for whom" in message
    assert "attempted" not in message  # no line of the check's own stands for the reader's
