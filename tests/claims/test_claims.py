"""Claims: verdicts from runs with a known answer, records, and a build that refuses a mismatch."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

import claims
from claims.__main__ import choose, table
from helpers import records
from helpers.claims import Claim, Share, evidence, ranks
from helpers.claims.claim import ClaimError
from helpers.claims.running import run, run_smallest
from helpers.claims.verdict import judge, overall
from helpers.claims.written import day, effect_of, factor, in_one_unit, quantity
from helpers.cluster.errors import StartError
from tools.claimed import faults


@pytest.fixture(scope="module", autouse=True)
def _ranks_of_experiments_end():
    yield
    ranks.end()


def experiment(seed, gap=1.0, noise=0.1, rival=10.0):
    rng = np.random.default_rng(seed)
    common = rng.normal(0, 5)  # what both sides share at one seed
    return rival + common + gap + rng.normal(0, noise), rival + common


CLAIM = Claim(
    id="99-gap",
    sentence="Ours is larger.",
    experiment=experiment,
    seeds=range(8),
    settings={"small": {"gap": 1.0}, "large": {"gap": 2.0}},
    verdict="holds",
    margin=0.5,
    ours="ours",
    rival="theirs",
    unit="s",
)


def judged(gap, noise=0.1, seeds=8, **changes):
    claim = replace(CLAIM, **changes)
    return judge(claim, [experiment(seed, gap, noise) for seed in range(seeds)])


@pytest.mark.parametrize(
    ("gap", "noise", "word", "changes"),
    [
        (1, 0.1, "holds", {}),
        (-1, 0.1, "fails", {}),
        (0.1, 0.1, "equal", {}),
        (1, 20, "open", {}),
        (0.3, 1e-6, "equal", {}),  # below the margin, however sure
        (-1, 0.1, "holds", {"larger": False}),
        (1, 0.1, "fails", {"larger": False}),
    ],
)
def test_the_word_follows_the_gap(gap, noise, word, changes):
    assert judged(gap, noise, **changes).word == word
    assert overall([word, word], "the link") == word
    assert overall([word, "other"], "the link") == "depends on the link"
    assert overall(["equal", "open"], "the link") == "open"


def test_ratios_are_judged_by_their_logarithms():
    claim = replace(CLAIM, scale="ratio", margin=0.1)
    found = judge(claim, [(2.0, 1.0), (4.0, 2.0), (6.0, 3.0)])
    assert found.effect == pytest.approx(1.0)
    assert found.word == "holds"
    assert judge(claim, [(1.05, 1.0), (2.1, 2.0)]).word == "equal"
    one = judge(claim, [(100.0, 1.0)])
    assert (one.word, one.low, one.high) == ("open", -1, math.inf), "one run decides nothing"
    with pytest.raises(ClaimError, match="positive"):
        judge(claim, [(1.0, 0.0), (1.0, 1.0)])


def test_shares_stay_between_0_and_1():
    claim = replace(CLAIM, rival_share=0.1, larger=False)
    found = judge(claim, [Share(0, 30), Share(0, 30)])
    assert (found.effect, found.low) == (0, 0)
    assert 0 < found.high < 0.1
    assert found.word == "holds"
    assert judge(claim, [Share(0, 5)]).word == "open"
    assert judge(claim, [Share(30, 30)]).word == "fails"
    with pytest.raises(ClaimError, match="rival_share"):
        judge(CLAIM, [Share(1, 2)])
    with pytest.raises(ClaimError, match="pairs only or shares only"):
        judge(claim, [Share(1, 2), (1.0, 2.0)])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id": "gap"}, "id expects a name such as 03-reset-gate; got 'gap'"),
        ({"seeds": [1, 1]}, "two different seeds"),
        ({"settings": {"one": {}}}, "settings expects two settings or more"),
        ({"verdict": "true"}, "verdict expects one of holds, .*, depends on the processor or"),
        ({"scale": "log"}, "scale expects 'difference' or 'ratio'; got 'log'"),
        ({"grid": (0.1, 0.2)}, "grid expects five rates or more, and five seeds or more; got"),
        ({"grid": range(1, 6), "seeds": range(4)}, "grid expects five rates or more"),
        ({"margin": -1}, "margin expects a number >= 0; got -1"),
    ],
)
def test_a_claim_that_does_not_fit_is_refused(change, says):
    with pytest.raises(ClaimError, match=says):
        replace(CLAIM, **change)


def recorded(folder, claim=CLAIM, **machine):
    found = run(claim)
    made = records.make({"99_try": found.rows()}, "test")
    if machine:
        made = replace(made, machine={**made.machine, **machine}, date="2026-11-01T00:00:00Z")
    records.write(made, folder)
    return found


def test_a_record_shows_what_was_run(tmp_path):
    found = recorded(tmp_path)
    read = evidence("99-gap", tmp_path)
    assert read.verdict == found.verdict == "holds"
    assert [row.parameters["setting"] for row in read.rows] == ["small", "large"]
    assert read.rows[1].value - read.rows[1].peer_value == pytest.approx(2, abs=0.2)
    shown = read._repr_markdown_()
    assert "| setting | ours, s | theirs, s | effect (95 %) | runs |" in shown
    assert "| small |" in shown
    assert "8 | holds |" in shown
    assert "99-gap  holds" in table([found])
    assert f"(`99-gap`, margin {CLAIM.margin:g})" in shown
    line, _, opened = read.folded().data.partition("</summary>")
    known = f"{read.effects()}; margin 0.5; 8 runs of each; {read.machine}"
    assert line == f"<details><summary>Record 99-gap: {known}"
    assert read.tables() in opened
    tuned = {"k = 4, λ ÷ 10": {"gap": 1.0}, "k = 4": {"gap": 2.0}}
    recorded(tmp_path / "tuned", replace(CLAIM, settings=tuned, unit="‖U‖^2", rival="W − 1"))
    shown = evidence("99-gap", tmp_path / "tuned")._repr_markdown_()
    assert "| k\u00a0=\u00a04, λ\u00a0÷\u00a010 |" in shown, "a formula stays in its line"
    assert "| ‖U‖<sup>2</sup>, ours |" in shown
    assert evidence("99-gap", tmp_path / "tuned").effects().startswith("‖U‖^2, ours − (W − 1): ")
    many = {f"setting {k}": {"gap": k} for k in range(1, 8)}
    recorded(tmp_path / "many", replace(CLAIM, settings=many, scale="ratio"))
    line = evidence("99-gap", tmp_path / "many").effects()
    assert re.fullmatch(r"time, ours ÷ theirs: [\d.]+ to [\d.]+ in 7 settings \(.+\)", spaced(line))
    assert sum(map(int, re.findall(r"(?:equal|fails|holds|open) in (\d)", line))) == 7
    counting = {"experiment": lambda seed, gap: Share(3, 4), "rival_share": 0.5}
    recorded(tmp_path / "counted", replace(CLAIM, **counting))
    counted = shown_of(tmp_path / "counted")
    assert spaced(evidence("99-gap", tmp_path / "counted").effects()).startswith("ours: 75 % (sma")
    assert "share (95 %) | [verdict](glossary.md#verdict) |" in counted
    assert "| small | 24 of 32 | 75 % (57 to 89 %) | holds |" in counted


def spaced(text):
    return text.replace("\u00a0", " ")


def shown_of(folder):
    return spaced(evidence("99-gap", folder).tables())


def test_records_are_read_once_and_again_when_they_have_changed(tmp_path, monkeypatch):
    recorded(tmp_path)
    read, first = [], evidence("99-gap", tmp_path)
    load = records.load
    monkeypatch.setattr(records, "load", lambda folder: read.append(folder) or load(folder))
    assert evidence("99-gap", tmp_path) is first
    assert read == []
    recorded(tmp_path, OTHERWISE, name="A", cpu_details="family 1")
    assert len(evidence("99-gap", tmp_path).others) == 1
    (path,) = [one for one in tmp_path.glob("*.json") if one.name.startswith("a-")]
    path.unlink()
    assert evidence("99-gap", tmp_path).others == ()
    assert read == [tmp_path]  # what was there at first is known


def test_seeds_are_the_outer_loop_and_the_smallest_run_is_one():
    order = []

    def note(seed, gap, noise=0.1):
        order.append((seed, gap, noise))
        return 1.0, 2.0

    claim = replace(CLAIM, experiment=note, seeds=(3, 4), smallest={"noise": 7})
    run(claim)
    assert order == [(3, 1.0, 0.1), (3, 2.0, 0.1), (4, 1.0, 0.1), (4, 2.0, 0.1)]
    run_smallest(claim)
    assert order[4:] == [(3, 1.0, 7)]


def tuned(seed, rate, gap):
    """Ours is best at a rate of 4, the rival at 1; of equal rates ours seems worse by far."""
    noise = np.random.default_rng(seed).normal(0, 0.01)
    return 10 + gap + abs(rate - 4) + noise, 10 + abs(rate - 1) + noise


TUNED = replace(CLAIM, experiment=tuned, grid=(1, 2, 4, 8, 16))


def test_a_grid_compares_best_with_best(tmp_path):
    found = recorded(tmp_path, TUNED)
    judged = found.judgements["small"]
    assert (judged.effect, judged.word) == (pytest.approx(1.0), "holds")
    given = evidence("99-gap", tmp_path).rows[1].parameters
    assert given["seeds"] == [*range(8)]
    assert given["grid"]["best"] == [2, 0]
    assert np.shape(given["grid"]["ours"]) == (5, 8)
    assert "| small (best at 4 and 1) |" in evidence("99-gap", tmp_path)._repr_markdown_()
    most = replace(TUNED, least=False)
    assert run(most).grids["small"].best == (4, 4)
    ours, rival = run_smallest(TUNED)
    assert (ours, rival) == (pytest.approx(14, abs=0.1), pytest.approx(10, abs=0.1))


def test_a_seed_does_not_choose_the_rate_at_which_it_is_judged():
    def lucky(seed, rate, gap):
        return (0.0 if rate == 1 + seed else 1 + rate / 100), 0.0  # each seed has a rate of its own

    found = run(replace(TUNED, experiment=lucky, seeds=range(5), grid=(1, 2, 3, 4, 5)))
    assert all(ours > 1 for ours, _ in found.runs["small"])


def refused(folder, claim=CLAIM, names=("99-gap",)):
    return faults("99_try", [*names], {"99-gap": claim}, folder)


def test_the_build_refuses_what_does_not_agree(tmp_path):
    assert "make claims NB=99" in refused(tmp_path)[0]
    with pytest.raises(ClaimError, match=r"no record in .* '99-gap': `make claims NB=99`"):
        evidence("99-gap", tmp_path)
    recorded(tmp_path)
    assert refused(tmp_path) == []
    assert refused(tmp_path, names=["99-gap", "99-other"]) == [
        "a cell names claim '99-other', which claims/99_try.py lacks"
    ]
    assert refused(tmp_path, names=[]) == ["no cell names claim '99-gap' of claims/99_try.py"]
    assert refused(tmp_path, replace(CLAIM, verdict="equal")) == [
        f"claim '99-gap' states 'equal', its record says 'holds' ({here(tmp_path)}: holds)"
    ]


def here(folder):
    return evidence("99-gap", folder).processor


OTHERWISE = replace(CLAIM, experiment=lambda seed, gap: experiment(seed, -gap))


def test_processors_that_differ_are_shown_apart(tmp_path):
    recorded(tmp_path)
    recorded(tmp_path, OTHERWISE, name="A", cpu_details="family 1")
    recorded(tmp_path, name="A", cpu_details="family 2")
    recorded(tmp_path, OTHERWISE, cores=1)  # this machine's, but older
    read = evidence("99-gap", tmp_path)
    assert (read.here, read.processor) == ("holds", here(tmp_path))
    told_apart = {one.processor: one.here for one in read.others}
    assert told_apart == {"A (family 1)": "fails", "A (family 2)": "holds"}
    shown = read._repr_markdown_()
    assert shown.startswith("**Ours is larger.** *depends on the processor*")
    folded = shown.partition("<details>")[2]
    assert "Recorded on A (family 1), 1 November 2026: <em>fails</em></summary>" in spaced(folded)
    assert shown.count("| small |") == 2, "two processors measured the same, in one table"
    both = f"Recorded on {here(tmp_path)}, DAY, and on A (family 2), 1 November 2026: *holds*."
    assert both in spaced(shown.replace(day(read.date), "DAY"))


def test_the_build_asks_every_processor(tmp_path):
    recorded(tmp_path)
    recorded(tmp_path, OTHERWISE, name="A", cpu_details="family 1")
    assert refused(tmp_path) == [
        "claim '99-gap' states 'holds', its record says 'depends on the processor' "
        f"({here(tmp_path)}: holds; A (family 1): fails)"
    ]
    depends = replace(CLAIM, verdict="depends on the processor")
    assert refused(tmp_path, depends) == []
    for path in tmp_path.glob("*-2026-11-01*"):
        path.unlink()
    assert len(refused(tmp_path, depends)) == 1


def test_a_setting_may_turn_round_on_another_processor(tmp_path):
    depends = replace(CLAIM, verdict="depends on the setting")
    for sign, machine in ((1, {}), (-1, {"name": "A", "cpu_details": "family 1"})):
        gaps = {"small": {"gap": sign * 1.0}, "large": {"gap": -sign * 2.0}}
        recorded(tmp_path, replace(depends, settings=gaps), **machine)
    read = evidence("99-gap", tmp_path)
    assert {one.here for one in read.by_processor} == {depends.verdict}
    assert read.verdict == "depends on the processor"
    assert len(refused(tmp_path, depends)) == 1


def test_a_claim_of_the_processor_agrees_with_every_answer():
    depends = replace(CLAIM, verdict="depends on the processor")
    assert depends.agrees("holds")
    assert depends.agrees("fails")
    assert not CLAIM.agrees("fails")
    assert "99-gap  holds (depends on the processor)" in table([run(depends)])
    assert "99-gap  holds, NOT equal" in table([run(replace(CLAIM, verdict="equal"))])
    assert "expected a notebook or a claim of one; got 98" in choose(["98"])


@pytest.mark.mpi
@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(one, id=one.id)
        for topic in claims.topics()
        for one in claims.of(topic).values()
    ],
)
def test_every_experiment_of_the_course_runs(claim):
    try:
        run_smallest(claim)
    except StartError as error:
        if "network" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (2.998e-5, "s", "30 µs"),
        (4.652e-10, "s", "0.465 ns"),
        (0.28, "s", "280 ms"),
        (1303.4, "ms", "1.3 s"),
        (3.151e11, "bytes/s", "315 GB/s"),
        (2510978158954345984, "1", "2.51·10¹⁸"),
        (3.6e9, "B", "3,600,000,000 B"),
        (None, "s", ""),
    ],
)
def test_a_side_of_a_claim_can_be_read(value, unit, said):
    assert spaced(quantity(value, unit)) == said


def test_the_sides_of_a_table_have_one_unit():
    assert in_one_unit([2.998e-5, 0.02], "s") == (["0.03", "20"], "ms")
    assert in_one_unit([0.877, 0.0775, 1.35, 0.0793], "s")[1] == "s"
    assert in_one_unit([0.0036, 2.734], "s") == (["3.6", "2,734"], "ms")
    assert in_one_unit([3.151e11, None, 3e6], "bytes/s") == (["315,100", "", "3"], "MB/s")
    assert in_one_unit([0.8592, 0.5, 0.0], "accuracy") == (["0.859", "0.5", "0"], "accuracy")


@pytest.mark.parametrize(
    ("scale", "numbers", "said"),
    [
        ("ratio", (3.84, 3.52, 4.19), "× 4.8, × 4.5, × 5.2"),
        ("ratio", (-0.1274, -0.1301, -0.1243), "× 0.873, × 0.870, × 0.876"),
        ("ratio", (99.0, -1.0, None), "× 100, × 0.0, ∞"),
        ("difference", (0.0024, -0.00424, 0.00903), "+0.002, −0.004, +0.009"),
        ("difference", (-0.152, -0.222, -0.081), "−0.15, −0.22, −0.08"),
        ("difference", (-0.02, -0.02, -0.02), "−0.020, −0.020, −0.020"),
    ],
)
def test_an_effect_has_the_digits_that_its_interval_allows(scale, numbers, said):
    effect, *interval = numbers
    given = {"scale": scale, "effect": effect, "interval": interval}
    assert spaced(", ".join(effect_of(given))) == said


def test_a_factor_of_thousands_has_no_power_of_ten():
    said = [spaced(factor(value, 2)) for value in (1.114, 1040.2, 629_000, 5e17, 1.2e-15)]
    assert said == ["× 1.1", "× 1,000", "× 630,000", "× 5.0·10¹⁷", "× 1.2·10⁻¹⁵"]
