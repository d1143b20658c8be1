"""The recorder counts as lockstep models by hand, and both as a GPU's own counters (data/gpu)."""

import shutil

import pytest

from bench import counters
from helpers import records
from helpers.cuda import gpu
from helpers.paths import GPU_RECORDS
from tests.cluster.ways import PART
from tests.cuda.hardware import MODELS

# Without optimisation these two read and write more than their source says: an int2 is read in
# two parts, and what a function that calls itself keeps lies in memory.
MORE = {"pairs_after_syncwarp", "recursion"}
GLOBAL = {("x", "read"): ("requests to read", "sectors read"),
          ("y", "write"): ("requests to write", "sectors written")}  # fmt: skip
SHARED = {("s", kind): f"passes to {kind} shared memory" for kind in ("read", "write")}


def by_hand(models, name):
    """Return what a model counts, named as the counters are, without zeros."""
    found = {}
    for key, (_, requests, cost) in models.by_hand(name).items():
        if key in GLOBAL:
            found |= dict(zip(GLOBAL[key], (requests, cost), strict=True))
        elif key in SHARED:
            found[SHARED[key]] = cost
    return {what: count for what, count in found.items() if count}


def recorded(suite, label):
    """Return the newest record of a suite as counts by kernel."""
    found: dict = {}
    for row in records.newest(GPU_RECORDS, suite, lambda _, rows: rows):
        if label in row.parameters and row.unit != "B":
            found.setdefault(row.parameters[label], {})[row.name] = int(row.value), row.peer_value
    return found


@pytest.mark.parametrize("models", MODELS)
def test_the_recorder_counts_as_lockstep_does(models):
    with models.module() as module:
        for name in models:
            counted, wanted = models.counts(module, name)
            assert counted == wanted, name


@pytest.mark.parametrize("models", MODELS)
def test_a_gpu_took_its_lanes_through_every_kernel_as_lockstep_does(models):
    counted = recorded("lockstep", "kernel")
    for name in models.keys() - MORE:
        hardware = {what: count for what, (count, _) in counted[name].items() if count}
        assert hardware == by_hand(models, name), name


@PART
def test_the_recorder_still_counts_what_it_did_beside_the_gpu():
    counted = recorded("counters", "launch")
    assert len(counted) > 20
    for name, (launch, arguments) in counters.launches("cpu").items():
        ours = counters.recorded(launch, arguments)
        assert {what: peer for what, (_, peer) in counted[name].items()} == {
            what: ours[what] for what in counted[name]
        }, name


@pytest.mark.gpu
@pytest.mark.skipif(bool(gpu.missing()), reason=gpu.missing() or "-")
@pytest.mark.skipif(not shutil.which("ncu"), reason="Nsight Compute is not here")
def test_this_gpu_counts_as_lockstep_does():
    hardware = iter(counters.profile(counters.COUNTERS.values(), "tests.cuda.hardware"))
    for models in MODELS:
        for name in models:
            counts = next(hardware)
            found = {what: int(counts[key]) for what, key in counters.COUNTERS.items()}
            if name not in MORE:
                assert {k: v for k, v in found.items() if v} == by_hand(models, name), name
