"""PyTorch's own distributed features on our backend: each gives what one process gives."""

import pytest

from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks
from tests.torch_mpi import features

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]
# The ranks start once for each group: a second for each feature goes into importing torch.
GROUPS = {
    "replicas and stages": [
        *(features.ddp, features.ddp_small_buckets, features.ddp_unused),
        *(features.pipelining, features.compiled_ddp),
    ],
    "shards": [features.zero, features.sharded, features.dtensor],
}


@pytest.mark.parametrize(
    ("ranks", "path"),
    [(3, "auto"), *(pytest.param(n, by, marks=PART) for n, by in ((2, "auto"), (3, "network")))],
)
@pytest.mark.parametrize("group", GROUPS)
def test_features(group, ranks, path):
    run_ranks(ranks, features.in_turn, path, GROUPS[group], timeout=200)


def test_a_mesh_of_two_dimensions():
    run_ranks(4, features.dtensor, "auto", timeout=120)
