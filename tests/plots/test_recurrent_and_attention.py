from itertools import pairwise

import pytest
import torch

from helpers.attention.explain import Weights
from helpers.plots import attention, recurrent
from helpers.recurrent.layers import GRU


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_the_hierarchy_shows_words_states_and_a_summary_for_each_sentence():
    ax = attention.hierarchy([["a", "tool"], ["it", "plays", "music", "and", "more"]], "which?")
    assert {"a", "tool", "it", "plays", "$s_1$", "$s_2$", "$v$", "which?", "…"} <= set(words(ax))
    assert "more" not in words(ax)
    boxes = 6 + 2 + 2 + 1  # a state for each drawn word; s_i and state of each sentence; v
    assert len(ax.patches) - sum(hasattr(p, "arrowstyle") for p in ax.patches) == boxes


def test_a_document_shows_every_word_by_its_weight_and_no_markup_of_its_own():
    found = Weights([0.75, 0.25], [[0.9, 0.1], [1.0]], [1.0])
    page = attention.document_html([["<b>", "the"], ["end"]], found, "a & b")
    assert "&lt;b&gt;" in page
    assert "a &amp; b" in page
    shade = ((2 * 0.9 - 0.5) / 3.5) ** 0.6
    assert f'title="0.900" style="background:rgba(230,159,0,{shade:.2f})' in page
    assert 'title="0.100" style="background:rgba(230,159,0,0.00)' in page
    assert "width:75px" in page
    key = page.partition("equal share:")[2].partition("</tr>")[0]
    assert [f"rgba(230,159,0,{shade})" in key for shade in ("0.31", "0.60", "0.82", "1.00")] == [
        True
    ] * 4
    assert key.count("font-weight:bold") == 3


def test_curves_of_deletion_have_their_names_at_their_ends_and_none_covers_another():
    curves = {"a": [1, 0.9], "b": [1, 0.31], "c": [1, 0.3], "d": [1, 0.29]}
    ax = attention.deletion(curves, (0, 8))
    names = {text.get_text(): text.get_position()[1] for text in ax.texts}
    assert list(names)[:4] == ["d", "c", "b", "a"]  # from below, as the curves end
    places = [names[name] for name in "dcba"]
    assert min(high - low for low, high in pairwise(places)) > 0.06
    assert max(abs(names[name] - curves[name][-1]) for name in curves) < 0.1


def test_norms_by_lag_tell_their_curves_by_markers_too_and_bounds_have_their_colours():
    curves = {f"{k}": torch.linspace(1, 0.1 * (k + 1), 40) for k in range(4)}
    ax = recurrent.norms_by_lag(curves, {"0": curves["1"]})
    drawn = [line for line in ax.lines if line.get_label() in curves]
    assert len({line.get_marker() for line in drawn} - {"", "None"}) == 4
    legend = ax.get_legend().get_lines()
    assert len({line.get_marker() for line in legend}) == 5  # and the bound, which has none
    measured, bound = ax.lines[:2]
    assert measured.get_color() == bound.get_color()
    assert (measured.get_linestyle(), bound.get_linestyle()) == ("-", "--")
    low, high = ax.get_ylim()
    assert low < 0.1 < 1 < high


def test_a_curve_of_radius_and_input_has_one_colour_in_both_panels():
    settings = ((0.5, 0.1), (1, 0.1), (2, 0), (2, 0.1), (2, 2))
    left, right = recurrent.radius_and_input(
        {setting: [torch.ones(20), 2 * torch.ones(20)] for setting in settings}
    )
    colours = [
        {line.get_label(): line.get_color() for line in ax.lines if line.get_marker()}
        for ax in (left, right)
    ]
    assert colours[0]["ρ = 2"] == colours[1]["inputs of size 0.1"]
    assert left.get_ylim() == right.get_ylim()
    assert set(colours[0]) > {"ρ = 1"}
    assert set(colours[1]) > {"inputs of size 0", "inputs of size 2"}


def test_a_network_has_its_colour_whatever_stands_beside_it():
    one, both = (
        recurrent.accuracy_by_rate(
            {(name, 9): {0.1: [0.2, 0.4], 1.0: [1.0]} for name in names}, 0.5, hollow="RNN"
        )
        for names in (("half-life GRU",), ("RNN", "half-life GRU"))
    )
    found = [{line.get_label(): line for line in axes[0].lines} for axes in (one, both)]
    assert len({each["half-life GRU"].get_color() for each in found}) == 1
    assert list(found[1]["RNN"].get_ydata()) == [0.30000000000000004, 1.0]
    looks = {name: found[1][name].get_fillstyle() for name in ("RNN", "half-life GRU")}
    assert looks == {"RNN": "none", "half-life GRU": "full"}


def test_a_step_shows_the_numbers_of_the_run():
    torch.manual_seed(0)
    layer, x = GRU(2, 3), torch.randn(4, 1, 2)
    with torch.no_grad():
        gates = layer.trace(x)
    step = type(gates)(*(part[1, 0] for part in gates))
    named = dict(zip(("number", "cue"), x[1, 0].tolist(), strict=True))
    ax = recurrent.gru_step(step, named, gates.state[0, 0], "step 2")
    assert {"number", "cue"} <= set(words(ax))
    for values in (step.candidate, step.state, x[1, 0]):
        assert {f"{value:+.2f}" for value in values.tolist()} <= set(words(ax))
    for values in (step.reset, step.update):  # gates lie between 0 and 1
        assert {f"{value:.2f}" for value in values.tolist()} <= set(words(ax))
    gate = sorted([*step.reset.tolist(), *step.update.tolist()])
    bars = sorted(p.get_width() / 0.5 for p in ax.patches if p.get_alpha() == 0.5)
    assert bars == pytest.approx(gate)
