"""Schedules as data: what each family does, formulas against counts, and what the check refuses."""

import numpy as np
import pytest

from helpers.pipeline import families, partition
from helpers.pipeline.model import Costs, bubble, kept, simulate
from helpers.pipeline.schedule import Action, Schedule, ScheduleError, check, walk

SIZES = [(p, m) for p in (1, 2, 3, 4, 6, 8) for m in (1, 2, 3, 4, 8, 12, 24)]


@pytest.mark.parametrize("name", families.FAMILIES)
def test_every_family_is_complete_and_ends_at_every_size(name):
    for p, m in SIZES:
        for chunks in (1, 2, 3) if name == "interleaved" and m % p == 0 else (None,):
            if name == "interleaved" and chunks is None:
                continue
            made = families.FAMILIES[name](p, m, *([chunks] if chunks else []))
            check(made)
            assert (made.ranks, made.micro) == (p, m)
            assert len(list(walk(made))) == sum(map(len, made.orders))
            assert str(Schedule.written(name, [" ".join(map(str, o)) for o in made.orders]))


@pytest.mark.parametrize("parts", [(1, 1, 1), (1, 2, 1), (2, 1.5, 1.75)])
def test_the_bubble_is_its_formula(parts):
    costs = Costs(*parts)
    for p, m in SIZES:
        for name in ("GPipe", "1F1B"):
            found = simulate(families.FAMILIES[name](p, m), costs)
            assert found.bubble == pytest.approx(bubble(name, p, m), abs=1e-12), (name, p, m)
        for v in (1, 2, 3):
            if m % p == 0:
                thin = Costs(*(part / v for part in parts))
                found = simulate(families.interleaved(p, m, v), thin)
                wanted = bubble("interleaved", p, m, v)
                assert found.bubble == pytest.approx(wanted, abs=1e-12), (v, p, m)


@pytest.mark.parametrize("parts", [(1, 1, 1), (1, 2, 1), (2, 1.5, 1.75)])
def test_the_bubble_of_pipedream_is_its_formula_and_goes_with_more_batches(parts):
    for update in (0.0, 0.5, 3.0):
        costs = Costs(*parts, update=update)
        for p, m in SIZES:
            found = simulate(families.pipedream(p, m), costs)
            wanted = bubble("PipeDream", p, m, costs=costs)
            assert found.bubble == pytest.approx(wanted, abs=1e-12), (p, m, update)
    assert bubble("PipeDream", 4, 8) == bubble("1F1B", 4, 8)  # an update for nothing
    assert bubble("PipeDream", 4, 3000) < 0.001


def test_the_bubble_of_zero_bubble_is_its_formula_for_any_parts():
    random = np.random.default_rng(0)
    for p, m in SIZES * 5:
        costs = Costs(*random.choice([0.5, 1.0, 2.0, *random.uniform(0.1, 9, 3)], 3))
        if m >= p:
            found = simulate(families.zero_bubble(p, m), costs).bubble
            wanted = bubble("zero-bubble", p, m, costs=costs)
            assert found == pytest.approx(wanted, abs=1e-12), (p, m, costs)
    assert bubble("zero-bubble", 4, 8, costs=Costs(20, 10, 30)) == pytest.approx(1 / 9)


def test_formulas_refuse_what_they_do_not_hold_for():
    for costs in (Costs(message=0.1), Costs([1, 2], 1, 1), Costs(1, np.ones(2), 1)):
        with pytest.raises(ValueError, match="free messages and equal stages; got Costs"):
            bubble("1F1B", 2, 4, costs=costs)
    with pytest.raises(ValueError, match="m >= p; got m=3, p=4"):
        bubble("zero-bubble", 4, 3)


# ZB-V of Qi et al., "Pipeline parallelism with controllable memory" (2024), as PyTorch 2.13 has it
ZB_V = Schedule.written(
    "ZB-V",
    [
        "F0 F1 F2 F0.1 I0.1 W0.1 F1.1 I1.1 W1.1 F3 I0 W0 F2.1 I2.1 W2.1 I1 W1 F3.1 I3.1 W3.1 I2 W2 "
        "I3 W3",
        "F0 F0.1 F1 F1.1 I0.1 W0.1 F2 I0 W0 F2.1 I1.1 W1.1 F3 I1 W1 F3.1 I2.1 W2.1 I2 I3.1 I3 W2 "
        "W3.1 W3",
    ],
    chunks=2,
    places=[[0, 3], [1, 2]],
)


def test_a_v_runs_and_idles_for_one_pass_of_a_rank_less_one():
    check(ZB_V)
    assert [ZB_V.rank_of(stage) for stage in range(4)] == [0, 1, 1, 0]
    assert ZB_V.source(1, Action("F", 2, 1)) == (1, Action("F", 2, 0))
    assert ZB_V.target(0, Action("I", 1, 1)) == (1, Action("B", 1, 1))
    assert simulate(ZB_V).bubble == pytest.approx(1 / (2 * 3 * 4 + 1))
    assert bubble("zero-bubble", 2, 4) == pytest.approx(1 / 13), "without the V"


@pytest.mark.parametrize("places", [[[0, 1], [1, 2]], [[0, 1, 2], [3]], [[0, 3]], [[1, 2], [3, 4]]])
def test_places_name_each_stage_once(places):
    with pytest.raises(ValueError, match=r"mine: places=.*, expected 2 stages for each of 2 ranks"):
        Schedule.written("mine", ["F0", "F0"], 2, places)


@pytest.mark.parametrize("name", families.FAMILIES)
def test_what_is_kept_is_its_formula(name):
    for p, m in SIZES:
        if (name == "interleaved" and m % p) or (name == "zero-bubble" and m < p):
            continue
        chunks = 2 if name == "interleaved" else 1
        found = simulate(families.FAMILIES[name](p, m))
        for rank in range(p):
            assert found.most_held(rank) == kept(name, p, m, rank, chunks), (p, m, rank)


def test_one_by_one_keeps_less_than_gpipe_and_fills_no_more_time():
    assert str(families.one_f_one_b(3, 4)).splitlines()[1:] == [
        "rank 0: F0 F1 F2 B0 F3 B1 B2 B3",
        "rank 1: F0 F1 B0 F2 B1 F3 B2 B3",
        "rank 2: F0 B0 F1 B1 F2 B2 F3 B3",
    ]


GOOD = ["F0 F1 B0 B1", "F0 B0 F1 B1"]
WRONG = [
    (["F0 F1 B0", GOOD[1]], "rank 0 never does B1"),
    (["F0 B0 B1", GOOD[1]], "rank 0 never does F1"),
    (["F0 F1 B0 B1 F0", GOOD[1]], "rank 0 does F0 2 times"),
    (["B0 F0 F1 B1", GOOD[1]], "rank 0 does B0 before F0"),
    (["F0 F1 B0 I1", GOOD[1]], "one of I1 and W1 only"),
    (["F0 F1 B0 I0 W0 B1", GOOD[1]], "does B0 and a part of it once more"),
    (["F0 F1 I0 W0 W1 I1", GOOD[1]], "does W1 before I1"),
    (["F0 F1 B0 B1 F0.1", GOOD[1]], "rank 0 does F0.1: it has chunks 0 to 0"),
    (["F0 B0 F1 B1", "F0 F1 B0 B1"], r"on.\n  rank 0 waits at B0 for rank 1 to do B0"),
    (["F0 B0 F1 B1", "F0 F1 I0 W0 B1"], r"on.\n  rank 0 waits at B0 for rank 1 to do I0"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "message"), WRONG)
def test_a_wrong_schedule_is_refused_by_name(lines, message):
    check(Schedule.written("mine", GOOD))
    with pytest.raises(ScheduleError, match=f"mine: .*{message}"):
        check(Schedule.written("mine", lines))


def test_sends_that_wait_stop_one_by_one_and_not_gpipe():
    for p, m in ((2, 2), (3, 4), (4, 8)):
        check(families.gpipe(p, m), blocking=True)
        with pytest.raises(ScheduleError, match="sends the result of F"):
            check(families.one_f_one_b(p, m), blocking=True)
    check(families.one_f_one_b(1, 3), blocking=True)


@pytest.mark.parametrize("text", ["X0", "F", "0F", "F-1", "F0.", ""])
def test_what_is_no_action(text):
    with pytest.raises(ValueError, match="is no action: expected one of F, B, I, W, U"):
        Action.read(text)
    assert Action.read(" B12.3 ") == Action("B", 12, 3)


def test_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="micro=3 does not come in groups of ranks=2"):
        families.interleaved(2, 3)
    with pytest.raises(ValueError, match="micro=0"):
        families.gpipe(2, 0)
    with pytest.raises(ValueError, match="no formula for 'mine'"):
        bubble("mine", 2, 2)
    with pytest.raises(ValueError, match="no formula for 'mine'"):
        kept("mine", 2, 2, 0)
    for wrong in (-1, "1", None, float("nan"), float("inf"), [1, -1]):
        with pytest.raises(ValueError, match=r"forward=.*, expected 0 or more"):
            Costs(wrong)
    with pytest.raises(ValueError, match=r"\(1, 2\) has no number for stage 2"):
        simulate(families.gpipe(3, 2), Costs([1, 2]))
    assert simulate(families.gpipe(3, 2), Costs(np.array([1, 2, 3]))).span > 0
    assert simulate(families.gpipe(2, 2), Costs(0, 0, 0)).bubble == 0


def test_a_message_and_unequal_stages_take_their_time():
    slow = simulate(families.gpipe(2, 3), Costs([1, 5], 1, 1, message=0.5))
    assert slow.span == pytest.approx(1 + 0.5 + 5 * 3 + 2 * 3 + 0.5 + 2)


def test_a_cut_gives_each_stage_a_layer():
    with pytest.raises(ValueError, match="8 layers cannot be cut into 9 stages"):
        partition.equal(8, 9)
    with pytest.raises(ValueError, match=r"by_hand\(\[1, 0\]\)"):
        partition.by_hand([1, 0])
