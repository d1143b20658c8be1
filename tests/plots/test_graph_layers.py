"""The graph in layers: who stands where, which memory a step holds, and the page that runs it."""

from itertools import pairwise

import numpy as np
import pytest

from helpers import autodiff
from helpers.autodiff import checkpoint
from helpers.plots.graph import orders, overlap, segments
from helpers.plots.graph_html import described, graph
from helpers.plots.layers import PITCH, layered
from helpers.plots.style import VERMILION
from tests.plots import values


def regression():
    """A plan with views, results in place, a constant, and two gradients."""
    x, W = autodiff.variable("x", shape=("n", 3)), autodiff.variable("W", shape=(3, 2))
    h = autodiff.tanh(x @ W)
    loss = autodiff.sum(h * h)
    outputs = [loss, *autodiff.gradients(loss, [x, W])]
    return autodiff.plan([x, W], outputs, {"n": 5}), h, loss


def test_every_node_stands_below_what_it_is_made_from():
    before = {"a": [], "b": ["a"], "c": ["b", "a"], "d": ["a", "c"], "e": ["b"], "k": []}
    layout = layered(before, dict.fromkeys(before, 50.0))
    for node, sources in before.items():
        for source in sources:
            assert layout.places[source][1] < layout.places[node][1]
            ys = [layout.places[source][1], *(y for _, y in layout.routes[source, node]),
                  layout.places[node][1]]  # fmt: skip
            assert np.allclose(np.diff(ys), PITCH)  # a bend in each layer that it passes
    assert 0 < layout.width < 400


def test_neighbours_in_a_layer_do_not_touch():
    rng = np.random.default_rng(0)
    before = {k: sorted({int(s) for s in rng.integers(0, k, 2)}) if k else [] for k in range(40)}
    widths = {k: float(rng.integers(30, 120)) for k in before}
    layout = layered(before, widths)
    rows: dict[float, list[int]] = {}
    for node, (_, y) in layout.places.items():
        rows.setdefault(y, []).append(node)
    for row in rows.values():
        row.sort(key=lambda node: layout.places[node][0])
        for a, b in pairwise(row):
            distance = layout.places[b][0] - layout.places[a][0]
            assert distance >= (widths[a] + widths[b]) / 2 + 17.9
    left = min(x - widths[node] / 2 for node, (x, _) in layout.places.items())
    assert left > -1e-6


def test_crossings_that_need_not_be_are_not_drawn():
    before = {"a": [], "b": [], "c": ["b"], "d": ["a"]}
    at = layered(before, dict.fromkeys(before, 50.0)).places
    assert (at["a"][0] - at["b"][0]) * (at["d"][0] - at["c"][0]) > 0


def test_the_buffers_of_each_step_are_the_plan_s():
    plan, h, loss = regression()
    data = described(plan, {h: "h", loss: "loss"})
    assert [sum(b for _, b in step["buffers"]) for step in data["steps"]] == list(plan.live)
    assert [v["name"] for v in data["variables"] if v["name"]] == ["x", "W", "h", "loss"]
    named = {v["name"]: v for v in data["variables"]}
    assert named["x"]["type"] == "float64 (5, 3)"
    assert named["loss"]["wanted"]
    assert not named["h"]["wanted"]
    over = [step for step in data["steps"] if step["over"] is not None]
    assert over
    for step in over:  # the result lives where its operand did
        owners = [data["variables"][k]["owner"] for k in (step["makes"], step["over"])]
        assert owners[0] == owners[1]


def test_the_page_holds_types_names_and_a_picture_without_script():
    plan, h, _ = regression()
    html = graph(plan, {h: "h & co"}).data
    assert values(html)["peak"] == plan.peak
    assert VERMILION not in values(html)["palette"]  # the operator that runs has it alone
    assert "float64 (5, 3)" in html
    assert "h &amp; co" in html
    assert html.count('class="operator"') == len(plan.steps)


def test_operators_that_the_loss_does_not_need_are_the_backward_pass():
    plan, _, loss = regression()
    forward = autodiff.topological([loss])
    steps = described(plan, {}, loss)["steps"]
    assert [step["backward"] for step in steps] == [s.node not in forward for s in plan.steps]
    assert not any(step["backward"] for step in described(plan, {})["steps"])
    html = graph(plan, loss=loss).data
    assert html.count('class="operator backward"') == len(plan.steps) - len(forward) > 0
    assert "backward pass" in html
    assert "backward pass" not in graph(plan).data


def test_too_many_operators_are_refused():
    x = autodiff.variable("x", shape=(2,))
    y = x
    for _ in range(121):
        y = autodiff.exp(y)
    with pytest.raises(ValueError, match=r"1 to 120 operators; got 121"):
        graph(autodiff.plan([x], [y]))
    with pytest.raises(ValueError, match=r"step 0 to 1; got first=2"):
        graph(autodiff.plan([x], [autodiff.exp(x)]), first=2)


def test_schedules_that_are_not_there_are_refused():
    ways = {"segments": {m: checkpoint.in_segments(9, m) for m in (1, 3, 9)}}
    with pytest.raises(ValueError, match="a schedule for 4"):
        segments(ways, 9, 4)
    with pytest.raises(ValueError, match="1 to 64"):
        segments(ways, 65, 3)


def test_a_result_is_hatched_while_it_waits_and_an_operator_stands_above_its_step():
    x = autodiff.variable("x", shape=(10,))
    a, b = autodiff.exp(x), autodiff.sin(x)
    y = autodiff.tanh(b) + a
    a, b, c, y = (node.output for node in autodiff.topological([a, y]))
    one, two = ([{a: 80}, {a: 80, b: 80}, {a: 80, b: 80, c: 80}, {a: 80, c: 80, y: 80}],
                [{b: 80}, {b: 80, c: 80}, {c: 80, a: 80}, {c: 80, a: 80, y: 80}])  # fmt: skip
    axes = orders({"one": one, "two": two})
    hatched = [[round(bar.get_center()[0]) for bar in ax.patches if bar.get_hatch()] for ax in axes]
    assert hatched == [[2, 3], [3]]  # a waits for b and c; c waits for a
    places = [{text.get_text(): text.get_position() for text in ax.texts if text.get_text()}
              for ax in axes[0].figure.axes[:2]]  # fmt: skip
    assert [place["exp"][0] for place in places] == [1, 3]
    assert places[0]["exp"][1] == places[1]["exp"][1]
    later = [bar for bar in axes[1].patches if round(bar.get_center()[0]) == 3]
    assert later[0].get_facecolor() == axes[0].patches[0].get_facecolor()  # of exp's result


def test_a_gradient_is_marked_where_its_allreduce_begins():
    events = [("matmul", "compute", 0.0, 0.002), ("begin all-reduce", "compute", 0.002, 0.003),
              ("8 B", "network", 0.003, 0.005)]  # fmt: skip
    ax = overlap([events, events])
    lanes = {round(path.get_extents().y0, 3): path.get_extents().x0 for bars in ax.collections
             for path in bars.get_paths()}  # fmt: skip
    places = [tuple(line.get_xydata()[0]) for line in ax.lines[:2]]
    assert places == [(2.0, -0.55), pytest.approx((2.0, 1.85))]
    assert lanes[0.6] == lanes[3.0] == 3.0  # the messages, below their rank
    assert [text.get_text() for text in ax.texts] == ["1"] * 4  # of each gradient and message
