"""The page *What was measured*: of each suite of `make bench` its newest record, as tables."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache

from helpers import records
from helpers.claims.recorded import day, quantity
from helpers.paths import ROOT

BENCH, BENCHES = ROOT / "data" / "bench", ROOT / "bench"
LONGEST = 80  # characters of a command
# Of the suites, in the order of the page; others follow under their own names.
TITLES = {
    "allreduce": "Allreduce by hand",
    "cells": "Cells on ranks",
    "cluster": "Starting and stopping ranks",
    "compress_text": "Compressed gradients of a transformer",
    "compress_training": "Compressed gradients of LeNet",
    "conformance": "PyTorch's tests on our backend",
    "cuda": "CUDA C",
    "hosts": "The backend between hosts",
    "links": "Links between hosts",
    "memory": "Memory of a student",
    "pagerank": "PageRank",
    "roofline": "Ceilings of this machine",
    "sgd": "Schemes of data-parallel training",
    "torch_mpi": "The backend on one host",
    "traces": "Recording MPI calls",
}
DROPPED = {"import torch, preloaded"}  # what is there already takes no time
LEFT_OUT = {"gates"}  # a map, which notebook 03 draws
SHOWN = 8  # rows of a suite that stand open
MOST = 40  # rows of one suite on the page; the record has all


def page() -> str:
    """Return the page of measured figures: ours, the peer's and their ratio.

    Of each suite that a command still measures, the newest record of each setting.
    """
    lines = [
        "# What was measured",
        "",
        "`make bench` measures our code and another library's in the same run. Another machine "
        "gives other seconds; ratios change less. The last column divides ours by the other's: of "
        "times and memory less is better, of rates (GB/s, Gflop/s, steps a second) more.",
        "",
    ]
    tables: dict[str, dict[tuple[str, ...], tuple[records.Record, list[records.Row]]]] = {}
    for record in records.load(BENCH):  # the newest first
        for suite, rows in record.suites.items():
            if _about(suite) and suite not in LEFT_OUT:
                kept = [row for row in rows if row.name not in DROPPED]
                tables.setdefault(suite, {}).setdefault(_setting(record), (record, kept))
    order = [name for name in TITLES if name in tables]
    for suite in [*order, *sorted(tables.keys() - TITLES.keys())]:
        lines += [f"## {TITLES.get(suite, suite)}", "", _about(suite), ""]
        for record, rows in sorted(tables[suite].values(), key=lambda one: one[0].command):
            short = textwrap.shorten(record.command, LONGEST, placeholder=" ...")
            first = _first(rows)
            shared = _shared(first)
            where = ", ".join([record.machine["name"], day(record.date), *map(_cell, shared)])
            lines += [f"`{short}`, {where}:", "", *_table(first, shared), ""]
            if len(first) < len(rows):
                more = [f"The record has {_rows(len(rows) - MOST)} more."] * (len(rows) > MOST)
                every = "\n".join([*_table(rows[:MOST]), "", *more])
                lines += folded(f"All figures: {_rows(len(rows))}", every)
    return "\n".join(lines)


def _first(rows: Sequence[records.Row]) -> list[records.Row]:
    """Return what stands open: of each name and peer the last case, or how many tests passed."""
    counts = [row for row in rows if row.unit == "tests"]
    apart = [row for row in rows if row.value != row.peer_value]  # none beside itself
    last = {(row.name, row.peer): row for row in counts or apart or rows}
    return [*last.values()][:SHOWN]


def _shared(rows: Sequence[records.Row]) -> list[str]:
    """Return the cases that all rows have."""
    every = [_cases(row) for row in rows]
    return [text for text in every[0] if all(text in cases for cases in every)]


def _table(rows: Sequence[records.Row], shared: Iterable[str] = ()) -> list[str]:
    """Return a table in Markdown, without the columns that nothing stands in."""
    head = ["what", "case", "ours", "other", "other's", "ours ÷ other's"]
    columns = zip(head, *(_figures(row, shared) for row in rows), strict=True)
    kept = [column for column in columns if any(column[1:])]
    first, *lines = (f"| {' | '.join(line)} |" for line in zip(*kept, strict=True))
    return [first, "|---" * len(kept) + "|", *lines]


def _case(key: str, value: object) -> str:
    if key == "rate" and value >= 1e6:  # no learning rate
        return f"{value / 1e9:g} Gbit/s" if value >= 1e9 else f"{value / 1e6:g} Mbit/s"
    if key in ("ranks", "hosts", "steps", "bytes", "threads", "nodes", "edges"):
        return f"{value:,} {key.removesuffix('s') if value == 1 else key}"
    return f"{key} {quantity(value, '1') if isinstance(value, float) else value}"


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


@cache
def _about(suite: str) -> str:
    """Return the first sentence of the module that measures a suite; "" if there is none."""
    path = BENCHES / f"{suite}.py"
    said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) if path.exists() else None
    return (said or "").partition("\n\n")[0].replace("\n", " ").replace("``", "`")


def _setting(record: records.Record) -> tuple[str, ...]:
    """Return what a record's command was told, but for the suites that it was asked for.

    Runs with equal words measured the same, and the newer takes the older's place.
    """
    return tuple(word for word in record.command.split() if word not in record.suites)


def _figures(row: records.Row, shared: Iterable[str]) -> list[str]:
    case = ", ".join(text for text in _cases(row) if text not in shared)
    ratio = "" if row.ratio is None or row.unit == "tests" else f"{row.ratio:#.2g}".rstrip(".")
    ours, peer = (
        quantity(value, row.unit).replace("1/s", "a second")
        for value in (row.value, row.peer_value)
    )
    return [_cell(text) for text in (row.name, case, ours, row.peer, peer, ratio)]


def _cases(row: records.Row) -> list[str]:
    """Return what the row was measured with; a number with decimals is a result, but for rates."""
    return [
        _case(key, value)
        for key, value in row.parameters.items()
        if (
            isinstance(value, str | int)
            or key == "target"
            or (key == "rate" and "link" not in row.parameters)
        )
        and 0 < len(str(value)) <= 40
        and not (isinstance(value, str) and value in row.name)
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("_", "\\_").replace("*", "\\*")


def folded(summary: str, text: str, anchor: str = "") -> list[str]:
    """Return lines of Markdown: one line that opens what is below it."""
    name = f' id="{anchor}"' if anchor else ""
    head = f'<details class="record"{name}><summary>{summary}</summary>'
    return [head, "", text, "", "</details>", ""]
