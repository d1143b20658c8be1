"""What ranks ask when they come to life: recorded from real starts, and answered by others."""

import re
import time

import psutil
import pytest

from helpers import first_words
from helpers.cluster.start.forkserver.family import SHARED_MEMORY
from helpers.first_words import Exchange, folded, start, words

pytestmark = pytest.mark.mpi


@pytest.fixture(autouse=True)
def _no_rank_is_left():
    """Tests before this one may keep processes of their own, such as the ranks of checks."""
    before = set(psutil.Process().children())
    yield
    assert set(psutil.Process().children()) <= before


def said(told, command):
    return [exchange for exchange in told.exchanges if words(exchange.request)["cmd"] == command]


def test_ranks_of_one_host_meet_and_leave_no_addresses():
    before = set(SHARED_MEMORY.glob("mpich_shm_*"))
    told = start(3)
    assert told.trouble == ""
    assert told.output.count("add up to 3") == 3
    assert said(told, "put") == []
    asked = [words(exchange.request)["cmd"] for exchange in told.of(1)]
    assert asked[0] == "init"
    assert asked[-1] == "finalize"
    meeting = said(told, "barrier_in")
    assert [len(exchange.answers) for exchange in meeting] == [0, 0, 3]
    seconds = [exchange.seconds for exchange in told.exchanges]
    assert seconds == sorted(seconds)
    assert not set(SHARED_MEMORY.glob("mpich_shm_*")) - before


def test_ranks_of_several_hosts_read_addresses_only_when_all_have_left_theirs():
    told = start(2, hosts=2)
    assert told.trouble == ""
    kinds = [words(exchange.request)["cmd"] for exchange in told.exchanges]
    first_read = next(
        k for k, exchange in enumerate(told.exchanges)
        if kinds[k] == "get" and "PMI_" not in exchange.request
    )  # fmt: skip
    last_left = max(k for k, kind in enumerate(kinds) if kind == "put")
    assert last_left < first_read


def right(rank, request, left, waiting, size):
    if request["cmd"] == "put":
        left[request["key"]] = request["value"]
        return {rank: "cmd=put_result rc=0"}
    if request["cmd"] == "get":
        return {rank: f"cmd=get_result rc=0 value={left[request['key']]}"}
    waiting.append(rank)
    if len(waiting) < size:
        return {}
    waiting.clear()
    return dict.fromkeys(range(size), "cmd=barrier_out rc=0")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "nobody answers"),
        ({0: 3}, r"expected \{rank: text\} as answers, got \{0: 3\}"),
        ({7: "cmd=put_result rc=0"}, "an answer for rank 7, which there is not"),
    ],
)
def test_an_answer_that_is_none_ends_the_ranks_and_is_named(given, why):
    trouble = start(2, lambda *request: given, hosts=2).trouble
    assert re.match(f"rank . said 'cmd=(put|barrier_in).*: {why}", trouble), trouble


def test_ranks_that_are_kept_waiting_end_at_the_limit_for_silence():
    told = start(2, lambda *request: {}, timeout=1.5, hosts=2)
    assert told.trouble.startswith("nothing more happened within 1.5 s. The last words: rank 0 sa")

    def slow(rank, request, *rest):
        time.sleep(0.1)
        return right(rank, request, *rest)

    told = start(2, slow, timeout=1.5, hosts=2)
    assert (told.trouble, told.exchanges[-1].seconds > 1.5) == ("", True)


def test_an_answer_that_never_ends_is_ended(monkeypatch):
    def never(*request):
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(first_words, "ANSWER_SECONDS", 0.3)
    told = start(2, never, hosts=2)
    assert told.trouble.endswith("the answer takes longer than 0.3 s")


def test_ranks_that_ask_nobody_are_no_start(monkeypatch):
    monkeypatch.setattr(first_words, "PROGRAM", "print('rank 0 of 1')")  # as under Open MPI
    told = start(2)
    assert (told.trouble, told.of(0)) == (first_words.SILENT, [])


def test_an_answer_that_raises_leaves_no_rank():
    def raises(*request):
        raise KeyError("port")

    with pytest.raises(KeyError, match="port"):
        start(2, raises, hosts=2)
    for n in (0, 17):
        with pytest.raises(ValueError, match=f"from 1 to 16 ranks; got {n}"):
            start(n)


def test_requests_of_one_kind_are_one_row():
    told = {0: "cmd=get_result rc=0 msg=success value=17"}
    asked = "cmd=get kvsname=x key={}"
    exchanges = [
        *(Exchange(0.1, 0, asked.format(f"port-{k}"), told) for k in range(3)),
        Exchange(0.2, 0, "cmd=get_my_kvsname", {0: "cmd=my_kvsname kvsname=words-17-2828"}),
        Exchange(0.3, 0, "cmd=barrier_in", {}),
    ]
    assert folded(exchanges) == [
        ("get key=port-0 (the first of 3 such)", "get_result value=17"),
        ("get_my_kvsname", "my_kvsname kvsname=words-…"),
        ("barrier_in", "(later, when all have come)"),
    ]
