"""The page *What was measured*: of each suite of `make bench` its newest record, as tables."""

from __future__ import annotations

import ast
import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from helpers import records
from helpers.claims.written import SPACE, day, quantity
from helpers.paths import ROOT
from tools.site.ratios import GOOD, picture, times

BENCH, BENCHES = ROOT / "data" / "bench", ROOT / "bench"
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
    "memory": "Memory that a notebook needs",
    "pagerank": "PageRank",
    "roofline": "Ceilings of this machine",
    "sgd": "Schemes of data-parallel training",
    "torch_mpi": "The backend on one host",
    "traces": "Recording MPI calls",
}
DROPPED = {"import torch, preloaded"}  # what is there already takes no time
LEFT_OUT = {"gates"}  # a map, which notebook 03 draws
OPEN = 8  # rows of a suite that stand open, if each other then has one
MOST = 120  # rows of one suite on the page; the record has all
LIMITS = re.compile(r"the |reading |copy ")  # and predictions
PLAIN = {"limit", "reported", "dense", "2K"}  # peers beside which nothing is better or worse
NOTHING = "all_reduce that does nothing"  # no code of ours
WORSE = "▼"
BEGIN = f"""Each row has two figures of one run on one machine: *ours*, of code of this course, and the *other's*, which is another library, a plainer way, a limit or a prediction. *Times as good* is how many times as fast ours is (of memory and bytes, how many times as small). Above 1 ours is better; {WORSE} marks where it is worse, and the text below the table says why, if we know it. A table shows our best and our worst row beside each *other*, a long one only the worst; the rest is folded. `make bench` measures your machine."""  # noqa: E501
WHY = {
    "allreduce": "Our algorithms are Python functions that call MPI at least once in each step; "
    "`MPI_Allreduce` is one call of compiled code. How much of the gap at 4 KiB this explains was "
    "not measured. All but the ring also send the whole array in every step.",
    "cells": "In an earlier run ([ranks in cells](docs/RANKS.md)) ours started sooner: so small a "
    "difference changes from run to run.",
    "cluster": "A cell is more than a call: it is read by IPython, and what the ranks print is "
    "shown below it.",
    "compress_text": "A lossy compressor may need more steps than float32 (folded) to the same "
    "loss. At 1 Gbit/s it saves little time in a step, or none.",
    "compress_training": "Here, too, a compressor may need more steps, to the same accuracy. At "
    "1 Gbit/s it saves little time in each.",
    "cuda": "A *checked* kernel looks up every access of every thread to memory; a *recorded* one "
    "writes each access down. We do not know why SciPy is ahead of three of our plain kernels. "
    "Another page has [their times on a real GPU](on_a_gpu.md).",
    "hosts": "Packet headers take 3 to 4 % of a link's rate. We do not know what takes the other "
    "few percent, nor why `gloo` is ahead at 64 KB.",
    "links": "We do not know why two of the fitted rates are a few percent above the link's rate "
    "less headers. The prediction comes from messages between two ranks that had the cores to "
    "themselves; here up to eight ranks share two cores. With two hosts of one rank each, the "
    "prediction is about right. With more hosts (*more hosts*, folded) it is further off, most of "
    'all on fast links. <a href="what_holds.html#08-ping-pong">A claim of notebook 08</a> shows '
    "the same inside one host, most of all for short arrays.",
    "memory": "A student needs the memory of JupyterLab and of the open notebook together. "
    "*Processes* are those that ran when the memory was greatest. Notebook 03 was measured "
    "before it started ranks.",
    "pagerank": "Version 1 multiplies by PyTorch's sparse matrix in coordinates: [notebook 06]"
    "(notebooks/06_pagerank_cpu_vs_gpu.ipynb) asks why that is slow. To fold in *Out* by a product "
    "of two matrices is the slow way; scaling the columns replaces it. We do not know why "
    "scikit-network converts a graph a little faster.",
    "roofline": "The orders of loops of `matmul` are meant to be slow: [notebook 07]"
    "(notebooks/07_roofline.ipynb) asks why. Its last product, `tiled` (folded), is as fast as "
    "OpenBLAS. A convolution computes more than the copy beside it. We do not know why SSE does "
    "not reach the computed peak in float32.",
    "sgd": "A scheme with a server, such as *asynchronous*, leaves three ranks of four to compute "
    "gradients. An asynchronous step uses the gradient of one rank, a synchronous step those of "
    "all ranks, so more steps are not more progress. `torch` (folded) sends one message for each "
    "tensor of the model, the other schemes one for all tensors.",
    "torch_mpi": "An `all_reduce` that does nothing (folded) shows what the call alone takes. At "
    "4 KB the rest is our backend, written in Python, and its waiting. While a computation needs "
    "every core, an `all_reduce` hides nothing but the wait for a late rank, since copying and "
    "adding need a core, too.",
    "traces": "Watching and recording should add less than 5 µs to a call, and they do. But the "
    "shortest calls take only a small part of a microsecond.",
}
FAILED = {
    "more ranks": re.compile(r"Rank \d+ is out of range|RuntimeError not raised"),  # of rank 2
    "a GPU or NCCL": re.compile("list index out of range|NCCL"),
    "torchvision": re.compile("torchvision"),
}
"""What a failed test of PyTorch's wants, by the reason that it gave."""


def page() -> str:
    """Return the page of measured figures: ours, the other's and how many times as good ours is.

    Of each suite that a command still measures, the newest record of each setting.
    """
    tables: dict[str, dict[tuple[str, ...], tuple[records.Record, list[records.Row]]]] = {}
    for record in records.load(BENCH):  # the newest first
        for suite, rows in record.suites.items():
            if _about(suite) and suite not in LEFT_OUT:
                kept = [row for row in rows if row.name not in DROPPED]
                tables.setdefault(suite, {}).setdefault(_setting(record), (record, kept))
    order = [name for name in TITLES if name in tables]
    order += sorted(tables.keys() - TITLES.keys())
    every = {suite: [row for _, rows in tables[suite].values() for row in rows] for suite in order}
    lines = ["# What was measured", "", BEGIN, "", *_pictures(every)]
    for suite in order:
        lines += [f"## {TITLES.get(suite, suite)}", "", _about(suite), ""]
        ordered = sorted(tables[suite].values(), key=lambda one: one[0].command)
        for record, rows in ordered:
            first = _first(rows)
            shared = _shared(first)
            where = ", ".join([record.machine["name"], day(record.date), *map(_cell, shared)])
            lines += [
                f"`{record.command}`, {where}:",
                "",
                *_table(first, shared),
                "",
                *_failures(rows),
            ]
            asked = any(map(_worse, every[suite])) or not any(map(_better, every[suite]))
            if asked and record is ordered[-1][0]:
                lines += [WHY.get(suite, ""), ""]
            if len(first) < len(rows):
                more = [f"The record has {_rows(len(rows) - MOST)} more."] * (len(rows) > MOST)
                all_of_them = "\n".join([*_table(rows[:MOST]), "", *more])
                lines += folded(f"All figures: {_rows(len(rows))}", all_of_them)
    return "\n".join(lines)


def _pictures(every: Mapping[str, Sequence[records.Row]]) -> list[str]:
    """Return a picture of all factors beside other programs, and one of those beside limits."""
    lines = []
    for limits, ends, caption, reached in (
        (
            False,
            ("other is better", "ours is better"),
            "How many times as good ours is as another program or a plainer way",
            "ours is as good or better",
        ),
        (
            True,
            ("short of it", "beyond it"),
            "How much of a limit or a prediction ours reaches; 1 is all of it",
            "ours reaches it",
        ),
    ):
        rows = {}
        for suite, found in every.items():
            shown = [row for row in found if bool(LIMITS.match(row.peer)) == limits]
            if factors := [factor for row in shown if (factor := _better(row))]:
                peers = dict.fromkeys(html.escape(row.peer) for row in shown if _better(row))
                label = f"<strong>{TITLES.get(suite, suite)}</strong>"
                rows[f"{label}<br><small>{', '.join(peers)}</small>"] = {"": factors}
        every_one = [one for lanes in rows.values() for one in lanes[""]]
        good = sum(one >= GOOD for one in every_one)
        said = (
            f"{caption}. Each dot is one row of a record. In {good} of {len(every_one)} rows, "
            f"{reached}, to within {100 * (1 - GOOD):.0f} %."
        )
        lines += [picture(said, ends, rows), ""] if rows else []
    return lines


def _better(row: records.Row) -> float | None:
    """Return how many times as good ours is as another's; None where nothing is to be compared."""
    counted = row.unit in ("1", "tests")
    if counted or row.ratio in (None, 1) or row.peer in PLAIN or row.name == NOTHING:
        return None
    return row.ratio if row.unit.endswith("/s") else 1 / row.ratio


def _worse(row: records.Row) -> bool:
    return (_better(row) or 1) < GOOD


def _first(rows: Sequence[records.Row]) -> list[records.Row]:
    """Return what stands open: how many tests passed, or beside each other the best and worst.

    Of many, only the worst.
    """
    counts = [row for row in rows if row.unit == "tests"]
    factors = [(row.peer, factor, row) for row in rows if (factor := _better(row))]
    if counts or not factors:
        return counts or [*rows]
    ends, worst = [], []
    for peer in dict.fromkeys(peer for peer, _, _ in factors):
        found = sorted((one for one in factors if one[0] == peer), key=lambda one: -one[1])
        ends.append([found[0][2]] + [found[-1][2]] * (found[-1][1] < 0.9 * found[0][1]))
        worst.append(found[-1][2])
    return worst if sum(map(len, ends)) > OPEN else [row for pair in ends for row in pair]


def _failures(rows: Sequence[records.Row]) -> list[str]:
    """Return a sentence on what the tests want that failed with ours."""
    failed = [row.parameters for row in rows if row.parameters.get("ours") == "failed"]
    if not failed:
        return []
    wants = Counter(
        next(
            (want for want, why in FAILED.items() if why.search(one["our reason"])),
            "we do not know what",
        )
        for one in failed
    )
    said = ", ".join(f"{want} ({count})" for want, count in wants.most_common())
    passed = sum(one["gloo"] != "failed" for one in failed) or "none"
    return [f"The tests that fail with ours need {said}; gloo passes {passed} of them.", ""]


def _shared(rows: Sequence[records.Row]) -> list[str]:
    """Return the cases that all rows have."""
    every = [_cases(row) for row in rows]
    return [text for text in every[0] if all(text in cases for cases in every)]


def _table(rows: Sequence[records.Row], shared: Iterable[str] = ()) -> list[str]:
    """Return a table in Markdown, without the columns that nothing stands in."""
    head = ["what", "times as good", "ours", "other's", "other", "case"]
    columns = zip(head, *(_figures(row, shared) for row in rows), strict=True)
    kept = [column for column in columns if any(column[1:])]
    first, *lines = (f"| {' | '.join(line)} |" for line in zip(*kept, strict=True))
    return [first, "|---" * len(kept) + "|", *lines]


SAID = {
    "n": "{0:,}\u00a0×\u00a0{0:,}",
    "size": "{0:,}\u00a0×\u00a0{0:,}",
    "filter": "filter {0}\u00a0×\u00a0{0}",
    "batch": "batches of {}",
    "link": "link of {}",
    "method": "method {}",
    "window": "through shared memory",
    "network": "through MPI",
    "none": "",
    "flags": "",
    "block": "neighbours share a host",
    "cyclic": "no neighbours share a host",
}
"""Of a case its key, or its value where that is a word of our code, in words."""


def _case(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return key if value else ""
    if key == "rate" and value >= 1e6:  # no learning rate
        return f"{value / 1e9:g} Gbit/s" if value >= 1e9 else f"{value / 1e6:g} Mbit/s"
    if key == "bytes" and value % 1024 == 0:
        return f"{value >> 20} MiB" if value % (1 << 20) == 0 else f"{value >> 10} KiB"
    if key.endswith("s") and isinstance(value, int):  # ranks, processes
        return f"{value:,} {re.sub('(?<=ss)es$|s$', '', key) if value == 1 else key}"
    plain = "{}" if isinstance(value, str) else f"{key} {{:g}}"
    return SAID.get(value, SAID.get(key, plain)).format(value)


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
    factor = _better(row)
    good = f"{times(factor)}{SPACE}{WORSE * _worse(row)}".rstrip(SPACE) if factor else ""
    ours, peer = (
        quantity(value, row.unit).replace("1/s", "a second")
        for value in (row.value, row.peer_value)
    )
    return [_cell(text) for text in (row.name, good, ours, peer, row.peer, case)]


def _cases(row: records.Row) -> list[str]:
    """Return what the row was measured with; a number with decimals is a result, but for rates."""
    found = (
        _case(key, value)
        for key, value in row.parameters.items()
        if (
            isinstance(value, str | int)
            or key == "target"
            or (key == "rate" and "link" not in row.parameters)
        )
        and 0 < len(str(value)) <= 40
        and not (isinstance(value, str) and value in row.name)
    )
    return [text for text in found if text]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("_", "\\_").replace("*", "\\*")


def folded(summary: str, text: str, anchor: str = "") -> list[str]:
    """Return lines of Markdown: one line that opens what is below it."""
    name = f' id="{anchor}"' if anchor else ""
    head = f'<details class="record"{name}><summary>{summary}</summary>'
    return [head, "", text, "", "</details>", ""]
