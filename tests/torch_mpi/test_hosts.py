"""all_reduce between hosts: two levels, on hosts within this machine."""

import pytest

from helpers.cluster import Network
from tests.cluster.ways import PART, on_hosts
from tests.torch_mpi import hosts

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def cluster():
    with on_hosts(6, Network(3, rate=1e9), preload=("torch",)) as cluster:
        yield cluster


@PART
def test_all_operations_and_dtypes(cluster):
    checked = cluster.run(hosts.check_all_ops, timeout=120)
    assert checked == [checked[0]] * 6
    assert checked[0] > 300


@pytest.mark.parametrize(("piece", "slab"), [(1 << 17, 1 << 26), (1000, 30_000)])
def test_sizes_pieces_and_hosts_that_share_unevenly(cluster, piece, slab):
    said = cluster.run(hosts.check_sizes_and_groups, piece, slab, timeout=120)
    by_group: dict[str, set[str]] = {}
    for rank in said:
        for line in rank:
            members, digest = line.rsplit(" ", 1)
            by_group.setdefault(members, set()).add(digest)
    assert len(by_group) == 3
    assert all(len(digests) == 1 for digests in by_group.values())


def test_a_host_sends_no_more_than_any_algorithm_must_and_halves_in_two_bytes(cluster):
    numel = 1_000_000
    sent = cluster.run(hosts.count_sent, numel, timeout=120)
    most = {name: max(rank[name] for rank in sent) for name in sent[0]}
    least = 2 * (3 - 1) / 3 * 4 * numel  # bytes
    assert most["all_reduce"] < 1.03 * least, (most, least)
    assert most["MPI's Allreduce"] > 1.4 * least, (most, least)  # which does not know of hosts
    assert most["all_reduce of halves"] < 1.05 * least / 2, most
    # one level: two ranks of this host send to four of others
    scattered = 2 * 4 / 6 * 2 * numel
    assert most["reduce_scatter"] < 1.05 * scattered, (most, scattered)
    assert most["reduce of halves"] < 1.05 * (scattered + 2 / 6 * 2 * numel), (most, scattered)


def test_halves_are_added_up_no_worse_than_by_gloo(cluster):
    found = cluster.run(hosts.halves_beside_gloo, timeout=120)
    assert set().union(*found) == set(found[5])  # the root of reduce
    for name in found[5]:
        ours, theirs, bits = zip(*(rank[name] for rank in found if name in rank), strict=True)
        assert 0 < max(ours) <= max(theirs), name
        assert len(set(bits)) == 1, f"{name}: ranks have different bits"


def test_a_rank_that_leaves_is_named(cluster):
    said = cluster.run(hosts.leave_in_the_middle, timeout=60)
    assert all("rank 5 of this group has left it" in told for told in said[:5])


@pytest.mark.parametrize("how", ["recv", "irecv"])
def test_no_message_from_anyone_is_lost_between_memory_and_network(cluster, how):
    seen = cluster.run(hosts.receive_from_anyone, how, timeout=30)[0]
    assert seen == [(1, 1)] * 100 + [(2, 2)] * 100


def test_messages_from_anyone_go_to_the_receives_in_their_order(cluster):
    assert cluster.run(hosts.receive_in_order, timeout=30)[0] == [1, 2, 3, 4, 9]
