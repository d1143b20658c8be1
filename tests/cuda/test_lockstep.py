"""The recorder counts what each kernel's accesses cost as lockstep does."""

from contextlib import ExitStack

import pytest

from tests.cuda import lockstep_branches, lockstep_loops, lockstep_shared

PARTS = {"branches": lockstep_branches, "loops": lockstep_loops, "shared": lockstep_shared}


@pytest.fixture(scope="module")
def modules():
    with ExitStack() as stack:
        yield {part: stack.enter_context(of.KERNELS.module()) for part, of in PARTS.items()}


@pytest.mark.parametrize(
    ("part", "name"), [(part, name) for part, of in PARTS.items() for name in of.KERNELS]
)
def test_the_recorder_counts_as_lockstep_does(modules, part, name):
    counted, by_hand = PARTS[part].KERNELS.counts(modules[part], name)
    assert counted == by_hand
