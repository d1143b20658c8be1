"""The GPU column of notebook 06 and the GPU roof of notebook 07 come from records, by name."""

from dataclasses import replace

from helpers import records
from helpers.pagerank.graphs import random_links
from helpers.pagerank.report import gpu_column
from helpers.records import Row
from helpers.roofline.report import gpu_roof


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
