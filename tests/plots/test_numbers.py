"""What is drawn is what was given, in the units of the axes, as a figure says it of itself."""

import numpy as np
import pytest

from helpers.data_parallel.history import History
from helpers.pipeline import families, simulate
from helpers.plots import (
    attention,
    compression,
    costs,
    data_parallel,
    graph,
    local,
    pagerank,
    pipeline,
    recurrent,
    sharded,
)
from helpers.plots.description import describe
from helpers.sharded.mesh import Layout
from helpers.sharded.planner import Plan


def history(updates, gradients):
    made = History("a run", 4, 8, gradients=gradients)
    for i in range(updates):
        made.add(0.1 * (i + 1), 2.0 / (i + 1), staleness=i % 3, worker=1 + i % 3)
    return made


TIMELINES = [simulate(make(4, 8)) for make in (families.gpipe, families.one_f_one_b)]
PLAN = Plan(Layout(2, 2, 2), 0.3, 0.04, 0.01, 0.05, 0.1, memory=1e6)
CURVE = {"segments": [(10, 1.5), (5, 2.0)]}


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda: pipeline.held(TIMELINES),
         ['Line "GPipe, at most 8": from 0 at 0 to 0 at 33, most 8.', 'Line "1F1B, at most 4"']),
        (lambda: pipeline.spans({"GPipe": 33.0, "1F1B": 37.0}, "a message takes 0.25"),
         ["a message takes 0.25.", "Bars: GPipe 33, 1F1B 37. Written in it: 33; 37."]),
        (lambda: pipeline.bubbles({"4 ranks": [0.5, 0.3]}, {"4 ranks": [0.6, 0.4]}, [3, 7]),
         ['"4 ranks, measured": from 0.6 at 3 to 0.4 at 7.', 'predicted": from 0.5 at 3 to 0.3']),
        (lambda: sharded.steps([PLAN], [4], [0.55]),
         ["[ms]", 'measured": 0 at 550.', *(f'"{part}": 2 × 2 × 2, m = 4 {ms}.' for part, ms in
          {"compute": 300, "bubble": 100, "tensor": 40, "pipeline": 10, "data": 50}.items())]),
        (lambda: costs.bars({"tree": 40, "two_level": 20}, {"tree": 30, "two_level": 22}, 10, "ms"),
         ['"predicted": from 30 at tree to 22 at two levels.', "possible, 10 ms\": level at 10.",
          "Bars: tree 40, two levels 20."]),
        (lambda: costs.bytes_by_rank({"ring": [15, 15], "chain": [10, 20]}, 10),
         ['Bars "rank 0": -0.21 1.5. Bars "rank 1": 0.21 1.5. Bars: 0.79 1. Bars: 1.21 2.']),
        (lambda: costs.times_by_ranks([2, 4], {"tree": [1, 2], "ring": [3, 4]}),
         ['Line "tree": from 1 at 2 to 2 at 4. Line "ring": from 3 at 2 to 4 at 4.']),
        (lambda: compression.exchanges({"a": 0.1, "b": 0.02}, {"a": 0.09, "b": 0.02}, "x"),
         ["milliseconds", '"predicted": from 0 at 20 to 1 at 90', 'Bars "measured": b 20, a 100.']),
        (lambda: compression.waits(3, [0.3, 0.2, 0.1], {1: 0.25}, chosen=1)[0],
         ['of a step. Line "predicted": from 300 at 0 to 100 at 2. Line "b = 1": 200 at 1. '
          'Line "measured": 250 at 1.', 'per second. Line "predicted": from 10 at 0 to 10 at 2.']),
        (lambda: data_parallel.losses([history(30, 1800)])[0],  # 60 gradients are 1 update
         ['began [s]. Up: training loss', '"a run": from 2 at 0.1 to 0.0667 at 3.',
          'parameters. Line "a run": from 2 at 1 to 0.0667 at 30.']),
        (lambda: data_parallel.staleness(history(30, 30))[0],
         ['Bars "rank 1": 0 10, 1 0, 2 0. Bars "rank 2": 0 0, 1 10, 2 0. Bars "rank 3": 0 0, 1 0,',
          "Bars: rank 1 0. Bars: rank 2 1. Bars: rank 3 2."]),
        (lambda: attention.deletion({"random": [1.0, 0.9], "most": [1.0, 0.5]}, (0, 8)),
         ['Line "random": from 1 at 0 to 0.9 at 8. Line "most": from 1 at 0 to 0.5 at 8.']),
        (lambda: attention.differences({"a": [(0.9, 0.7), (0.8, 0.8)]}, [0.01]),
         ['Line "a: a split": from 0 at 20 to 0 at 0. Line "a: their mean": 0 at 10. Line "a: its',
          '95 % interval": from 0 at -117 to 0 at 137. Bars "too small to count": a 2.']),
        (lambda: recurrent.against_the_gru({"copy: one gate": (-0.06, -0.26, 0.14)}),
         ["Line: from 0 at -26 to 0 at 14. Line: 0 at -6."]),
        (lambda: pagerank.convergence({"one": [1.0, 0.1], "two": [1.0, 0.5, 0.2]}, 0.85, 200),
         ["logarithmic", 'Line "one": from 1 at 1 to 0.1 at 2. Line "two": from 1 at 1 to 0.2 at',
          'Line "K = 200, as in the source": upright at 200.']),
        (lambda: graph.memory_against_time(CURVE, {"√n": (5, 2.0)}, {"the source": 7}),
         ["logarithmic", 'Line "segments": from 2 at 5 to 1.5 at 10. Written in it: √n; the sou']),
        (lambda: local.drift([("H = 2", np.arange(3), [0, 1, 0], None),
                              ("b", np.arange(3), [1, 2, 3], [1, 1, 1])])[0],
         ['Line "H = 2": from 0 at 0 to 0 at 2, most 1. Panel 2 of 2',
          'Line "b": from 1 at 0 to 3 at 2. Line "predicted": from 1 at 0 to 1 at 2.']),
    ],
)  # fmt: skip
def test_a_figure_draws_what_it_was_given(draw, says):
    said = describe(draw().figure)
    assert [words for words in says if words not in said] == [], said
