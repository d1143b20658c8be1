"""The source's versions: the same ranks, and their bytes; a GPU's times come from records."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers import records
from helpers.pagerank import pagerank
from helpers.pagerank.graphs import links, random_links
from helpers.pagerank.report import gpu_column
from helpers.pagerank.versions import VERSIONS, has_dgl, iterate, rows
from helpers.records import Row
from helpers.roofline.report import gpu_roof
from tests.pagerank import matrix

GRAPH = random_links(300, 0.02, seed=5)


@pytest.fixture(params=sorted(VERSIONS))
def name(request):
    if request.param == "dgl" and not has_dgl():
        pytest.skip("DGL does not import here (its last wheel is for Python 3.11)")
    return request.param


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-7), ("float64", 1e-13)])
def test_every_version_reaches_the_same_ranks(name, dtype, atol):
    # Written out independently: a dense NumPy loop over the adjacency matrix.
    adjacency = GRAPH.incoming.toarray()
    out = adjacency.sum(axis=0)
    x = np.full(300, 1 / 300)
    for _ in range(60):
        x = 0.15 / 300 + 0.85 * adjacency @ (x / out)
    ranks = iterate(VERSIONS[name](GRAPH, dtype), 60)
    assert ranks.dtype == getattr(torch, dtype)
    np.testing.assert_allclose(ranks.numpy(), x, atol=atol)


def test_weights_count(name):
    graph = links(matrix([(0, 1, 3.0), (0, 2, 1.0), (1, 0, 1.0), (2, 0, 2.0)]))
    x = iterate(VERSIONS[name](graph, "float64"), 300)
    np.testing.assert_allclose(x, pagerank(graph).scores, atol=1e-9)


@pytest.mark.skipif(has_dgl(), reason="DGL imports here")
def test_without_dgl_its_version_says_what_to_do():
    with pytest.raises(ImportError, match="version 0s computes the same"):
        VERSIONS["dgl"](GRAPH)


def test_the_source_loop_loses_rank_at_dangling_nodes_and_pagerank_does_not():
    graph = links(matrix([(0, 1), (0, 2)]))
    assert iterate(VERSIONS["csr"](graph, "float64"), 200).sum() < 0.5
    assert pagerank(graph).scores.sum() == pytest.approx(1)


def test_bytes_moved():
    n, e = GRAPH.nodes, GRAPH.edges
    size = {key: VERSIONS[key](GRAPH).bytes_moved for key in ("dense", "csr", "scatter")}
    assert size["dense"] == 4 * n * n + 16 * n
    assert size["csr"] == 8 * e + 12 * n
    assert size["scatter"] == 36 * e + 12 * n
    double = VERSIONS["csr"](GRAPH, "float64")
    assert double.bytes_moved == 12 * e + 20 * n
    assert (double.row, VERSIONS["csr"](GRAPH).row) == ("4d", "4")
    assert (double.label, VERSIONS["scatter"](GRAPH).label) == ("4d CSR", "0s messages")


def test_dense_that_does_not_fit_says_so():
    huge = links(matrix([(0, 10**6)]))
    with pytest.raises(ValueError, match="1000001 nodes takes 3725"):
        VERSIONS["dense"](huge)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_named():
    with pytest.raises(ValueError, match=r"'cuda'.*no GPU"):
        VERSIONS["csr"](GRAPH, device="cuda")


def test_a_table_has_the_versions_that_run_on_its_device():
    here = rows("cpu")
    assert ("dgl" in dict(here)) == has_dgl()
    assert {name for name, _ in here} | {"dgl"} == set(VERSIONS)
    assert here[-1] == ("csr", "float64")
    assert [dtype for _, dtype in here].count("float64") == 1
    assert set(VERSIONS) - {name for name, _ in rows("cuda:1")} == {"dgl"}


def test_what_runs_on_the_processor_alone_says_so():
    with pytest.raises(ValueError, match="runs on cpu; got cuda"):
        VERSIONS["dgl"](GRAPH, device="cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("version", ["scatter", "sparse", "dense", "dense_folded", "csr"])
def test_gpu_agrees_with_cpu(version):
    gpu = iterate(VERSIONS[version](GRAPH, "float64", "cuda"), 60).cpu()
    np.testing.assert_allclose(gpu, iterate(VERSIONS["csr"](GRAPH, "float64"), 60), atol=1e-13)


@pytest.mark.parametrize("p", [0.0, 0.002, 0.3, 1.0])
def test_random_links(p):
    graph = random_links(150, p, seed=1)
    table = graph.incoming.toarray()
    assert set(np.unique(table)) <= {0.0, 1.0}
    assert np.trace(table) == 0
    assert (graph.out_weight >= 1).all()
    expected = 150 * 149 * p
    assert abs(graph.edges - expected) <= 150 + 5 * np.sqrt(expected)
    assert (random_links(150, p, seed=1).incoming != graph.incoming).nnz == 0
    if 0 < p < 1:
        assert (random_links(150, p, seed=2).incoming != graph.incoming).nnz > 0


def test_random_links_are_uniform_and_bad_input_is_repeated():
    # Graphs of 4 nodes, p = 1/2: among out-degree-1 rows each target is as likely.
    counts, many = np.zeros((4, 4)), 500
    for seed in range(many):
        counts += random_links(4, 0.5, seed).incoming.toarray().T
    free = counts[~np.eye(4, dtype=bool)]
    # P(edge) = 1/2 + (1/2)^3 / 3, five standard deviations of a binomial either side
    assert np.abs(free / many - (0.5 + 1 / 24)).max() < 5 * np.sqrt(0.25 / many)
    for name, value in {"n": 1, "p": -0.1}.items():
        with pytest.raises(ValueError, match=f"{name}={value}"):
            random_links(**{name: value})


@pytest.mark.part(of="notebooks")  # one more import of torch and DGL
def test_dgl_writes_neither_to_stderr_nor_to_the_home(tmp_path):
    if not has_dgl():
        pytest.skip("no DGL for this Python")
    home = tmp_path / "home"
    home.mkdir()
    environment = {k: v for k, v in os.environ.items() if k not in ("DGLBACKEND", "DGLHOME")}
    program = "from helpers.pagerank.versions import import_dgl\nprint(import_dgl().__name__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "HOME": str(home), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert (done.stdout, done.stderr) == ("dgl\n", "")
    assert not list(home.rglob("*"))


def written(folder, suite, rows):
    made = records.make({suite: rows}, "test")
    gpu = {"name": "Test GPU", "driver": "x", "memory_gib": 1.0}
    records.write(replace(made, machine=made.machine | {"gpus": [gpu]}), folder)


def test_no_record_is_said(tmp_path):
    name, column = gpu_column(random_links(50, 0.1), "cpu", tmp_path)
    assert "no record" in name
    assert column == {}
    assert gpu_roof(tmp_path)[1:] == ({}, {})


def test_the_matching_rows_are_taken(tmp_path):
    graph = random_links(50, 0.1)

    def row(version, value, **other):
        found = {"version": version, "device": "cuda", "nodes": 50, "edges": graph.edges} | other
        return Row(f"iteration, version {version}", value, "ms", parameters=found)

    rows = [row("2", 0.5), row("4", 0.25), row("1", 9.0, nodes=60), row("3", 9.0, device="cpu")]
    rows.append(row("4", 0.75, dtype="float64"))
    written(tmp_path, "pagerank", rows)
    name, column = gpu_column(graph, "cpu", tmp_path)
    assert name.startswith("Test GPU, recorded 20")
    assert column == {"2": 0.5, "4": 0.25, "4d": 0.75}


def test_the_roof_of_a_record(tmp_path):
    rows = [Row("read, HBM", 4000.0, "GB/s"), Row("matmul, fp32", 50000.0, "Gflop/s")]
    written(tmp_path, "roofline", rows)
    name, peaks, bands = gpu_roof(tmp_path)
    assert "Test GPU" in name
    assert (peaks, bands) == ({"fp32": 5e13}, {"HBM": 4e12})
