"""Ours and PyTorch's features leave the same parameters, on our backend."""

import pytest

from helpers.models.transformer import Config
from helpers.sharded import peers
from tests.mpi.runner import run_ranks


@pytest.mark.mpi
def test_same_parameters_as_pytorch():
    config = Config(vocabulary=24, context=8, layers=2, heads=2, width=16)
    for found in run_ranks(2, peers.compare, config, 4, timeout=150):
        assert [name for name, *_ in found] == [
            "fully_shard",
            "DTensor, columns and rows",
            "distributed checkpoint",
        ]
        for name, off, ours, theirs in found:
            assert off < 1e-12, name
            assert ours > 0
            assert theirs > 0
