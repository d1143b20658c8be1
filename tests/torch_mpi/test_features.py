"""PyTorch's own distributed features on our backend: each gives what one process gives."""

import pytest

from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks
from tests.torch_mpi import features

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]
# The ranks start once for each group: a second for each feature goes into importing torch.
GROUPS = {
    "replicas": ["ddp", "ddp_small_buckets", "ddp_unused", "ddp_accumulate", "hooks", "functional"],
    "shards": ["zero", "sharded", "dtensor", "tensor_parallel"],
    "shards in bfloat16 and flat": ["sharded_bf16", "sharded_as_before"],
    "stages and graphs": ["pipelining", "compiled_ddp"],
}


@pytest.mark.parametrize(
    ("ranks", "backend"),
    [
        (3, "mpi4py"),
        *(pytest.param(n, by, marks=PART) for n, by in ((2, "mpi4py"), (3, "network"))),
    ],
)
@pytest.mark.parametrize("group", GROUPS)
def test_features(group, ranks, backend):
    for seconds in run_ranks(ranks, features.in_turn, backend, GROUPS[group], timeout=200):
        assert list(seconds) == GROUPS[group]


def test_a_mesh_of_two_dimensions():
    run_ranks(4, features.dtensor, "mpi4py", timeout=120)


def test_every_feature_is_in_a_group():
    named = [name for names in GROUPS.values() for name in names]
    assert sorted(named) == sorted(feature.__name__ for feature in features.FEATURES)
