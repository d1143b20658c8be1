"""ZeRO 1 to 3 on real ranks, against one process and against the formulas."""

import pytest
import torch

from helpers.sharded import zero
from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks
from tests.sharded import ranks

STEPS = 3
FLOAT64 = zero.Bytes(8, 8, 16)


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("size", "background"),
    [(1, False), (2, True), (3, False), pytest.param(4, True, marks=PART)]
    + [pytest.param(size, False, marks=PART) for size in (6, 8)],
)
def test_every_stage_equals_one_process(size, background):
    losses, parameters = ranks.alone(24, STEPS)
    stages = (0, 1, 2, 3) if size in (1, 3, 4) else (3,)
    results = run_ranks(size, ranks.zero, 24, STEPS, stages, background)
    for stage in stages:
        for rank, found in enumerate(result[stage] for result in results):
            assert found["losses"] == pytest.approx(losses, abs=1e-12)
            for name, value in parameters.items():
                # Adam divides by the root of tiny second moments: 1e-12 of gradients grows there
                torch.testing.assert_close(
                    found["whole"][name], value.flatten(), rtol=0, atol=1e-10
                )
            each = zero.at_rest(stage, size, FLOAT64)
            total, slack = found["parameters"], 8 * found["units"]  # a rest of one in each unit
            for what in ("parameter", "gradient"):
                assert found["held"][what] == pytest.approx(
                    getattr(each, what) * total, abs=slack
                ), (stage, rank, what)
            assert found["held"]["optimizer"] == pytest.approx(
                each.optimizer * total, abs=2 * slack
            )
            if stage == 3 and size > 1:
                assert found["peak"] < (FLOAT64.parameter + FLOAT64.gradient) * total
        trace = results[0][stage]
        if size > 1:
            assert set(trace["messages"].values()) == {
                STEPS * zero.messages(stage, size, trace["units"])
            }
            sent = zero.sent(stage, size, trace["parameters"], 8) * STEPS
            assert sum(trace["bytes"].values()) == pytest.approx(size * sent)
        assert not trace["unmatched"]


@pytest.mark.mpi
def test_what_does_not_fit_is_refused():
    run_ranks(1, ranks.refusals)
