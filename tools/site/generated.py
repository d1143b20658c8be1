"""Pages made from records and docstrings: what holds, what was measured, each library's calls."""

from __future__ import annotations

import ast
import html
import importlib
import importlib.util
import pkgutil
import re
import statistics
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from types import ModuleType

import claims
from helpers import records
from helpers.claims.recorded import (
    IN_CELLS,
    SPACE,
    Recorded,
    day,
    powers,
    quantity,
    recorded,
    together,
    typeset,
)
from helpers.paths import ROOT
from tools import notebooks
from tools.site import on_a_gpu

BENCH, BENCHES = ROOT / "data" / "bench", ROOT / "bench"
LONGEST = 80  # characters of a command
LIBRARIES = (
    "cluster",
    "tracing",
    "torch_mpi",
    "collectives",
    "data_parallel",
    "pipeline",
    "sharded",
    "autodiff",
    "cuda",
    "pagerank",
    "roofline",
    "recurrent",
    "attention",
    "models",
    "datasets",
    "plots",
    "claims",
    "machine",
    "timing",
    "waiting",
    "predictions",
    "mapreduce",
    "first_words",
    "board",
    "progress",
    "checkup",
    "records",
    "native",
)
REFERENCE = ["what_holds", "measured", "on_a_gpu", "api/index"]
TITLES = {
    "allreduce": "Allreduce by hand",
    "cells": "Cells on ranks",
    "cluster": "Starting and stopping ranks",
    "compress_text": "Compressed gradients of a transformer",
    "compress_training": "Compressed gradients of LeNet",
    "conformance": "PyTorch's tests on our backend",
    "cuda": "CUDA C",
    "gates": "Gates that remember",
    "grading": "Grading",
    "hosts": "The backend between hosts",
    "links": "Links between hosts",
    "memory": "Memory of a student",
    "pagerank": "PageRank",
    "roofline": "Ceilings of this machine",
    "sgd": "Schemes of data-parallel training",
    "torch_mpi": "The backend on one host",
    "traces": "Recording MPI calls",
}
"""Of the suites, in the order of the page; others follow under their own names."""
DROPPED = {"import torch, preloaded"}  # what is there already takes no time
PLAIN = {
    "out of step": "asynchronous",
    "in step": "synchronous",
    "torch's own share of an all_reduce": "all_reduce that does nothing",
    "proportional memory of all ranks with torch": "memory of all ranks, shared pages once",
    "apply_sync to all engines": "a call by ipyparallel",
    "the longer of the two": "the longer of computation and all_reduce",
    "one after the other": "computation before all_reduce",
    "compute beside all_reduce": "computation during all_reduce",
    "jupyter-distributed==": "Jupyter Distributed ",
    "by mpiexec": "mpiexec",
    "bytes ÷ read bandwidth": "reading its bytes once",
    "Iprobe": "asking for a message (Iprobe)",
    "the same, plain": "the kernel alone",
    "a message between hosts": "bandwidth fitted to messages between hosts",
    "a message inside": "bandwidth fitted to messages inside a host",
}
"""What the page calls rows and peers of the records."""
PEERS = {
    "predicted": "the prediction",
    "dense": "a dense matrix",
    "theory": "the computed peak",
    "float32": "uncompressed gradients",
}
SCORED = ("gates", "grading")
HEADLINES, FEW = 4, 3  # groups of a suite that are told before its table; rows told one by one
QUANTITIES = {
    **dict.fromkeys(("s", "ms", "µs", "ns"), "time"),
    **dict.fromkeys(("GB/s", "MB/s"), "bandwidth"),
    **dict.fromkeys(("MB", "KiB"), "memory"),
    "B": "bytes",
    "Gflop/s": "operations in a second",
    "1/s": "speed",
}
MOST = 40  # rows of one suite on the page; the record has all


def pages(libraries: Iterable[str] = LIBRARIES) -> dict[str, str]:
    """Return the generated pages, with one for each of the libraries: Markdown by file name."""
    made = {"what_holds.md": what_holds(), "measured.md": measured()}
    made |= {"api/index.md": api(libraries), "on_a_gpu.md": on_a_gpu.page()}
    return made | {f"api/{name}.md": library(name) for name in libraries}


def what_holds() -> str:
    """Return the page of all claims: sentence, verdict and record of each, by notebook."""
    found = recorded()
    lines = [
        "# What holds",
        "",
        "Claims that a run could refute, each tested over seeds and settings against the "
        "strongest simple rival. The newest record of each "
        "processor says: *holds*, *equal*, *fails*, *open* (these runs do not decide) or *depends "
        "on* a setting or the processor. Below each sentence stand the means of the newest record: "
        "÷ is a ratio, − a difference. Open a line "
        "to see both sides with the effect's 95 % interval; *runs* is how many pairs it comes "
        "from. `make claims NB=02` runs the claims of one notebook on your machine.",
        "",
    ]
    for topic in claims.topics():
        known = claims.of(topic)
        counts = ", ".join(f"*{word}* {count}" for word, count in _counted(known, found))
        lines += [
            f"## {topic[:2]} {_heading(topic)}",
            "",
            f"[Notebook {topic[:2]}](notebooks/{topic}.ipynb): {counts}.",
            "",
        ]
        for name in known:
            one = found[name]
            sentence = typeset(html.escape(one.rows[0].parameters["sentence"], quote=False))
            effects = typeset(html.escape(one.effects(), quote=False))
            summary = (
                f"<em>{one.verdict}</em>: {sentence} (<code>{name}</code>)"
                f"<br><small>{effects}</small>"
            )
            tables = one.tables().replace("](glossary.md#", "](notebooks/glossary.md#")
            lines += _folded(summary, tables, name)
    return "\n".join(lines)


def _heading(topic: str) -> str:
    text = (ROOT / "notebooks" / "source" / f"{topic}.py").read_text("utf-8")
    found = re.search(r"^# # (.+)$", text, re.M)
    return found[1] if found else topic


def _about(suite: str) -> str:
    """Return the first sentence of the module that measures a suite; "" if there is none."""
    paths = [BENCHES / f"{suite}.py", ROOT / "tools" / f"{suite}.py"]
    path = next((path for path in paths if path.exists()), None)
    said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) if path else None
    return (said or "").partition("\n\n")[0].replace("\n", " ").replace("``", "`")


def _counted(known: Iterable[str], found: dict[str, Recorded]) -> list[tuple[str, int]]:
    words = [re.split(r" on |:", found[name].verdict)[0] for name in known]
    return sorted({word: words.count(word) for word in words}.items(), key=lambda pair: -pair[1])


def measured() -> str:
    """Return the page of measured figures: ours, the peer's and their ratio.

    A suite that no command measures any more is left out. Of each other suite the newest run stands
    there; of an older one, by another command, what no newer run has: the rows of other cases, and
    all of a run on another number of ranks.
    """
    lines = [
        "# What was measured",
        "",
        "`make bench` measures our code and another library's in the same run. Another machine "
        "gives other seconds; ratios change less. × stands for ours ÷ the other's: of time and "
        "memory less is better, of bandwidth and speed more.",
        "",
    ]
    tables: dict[str, list[tuple[records.Record, list[records.Row]]]] = {}
    commands: set[tuple[str, tuple[str, ...]]] = set()
    names: set[tuple[str, str, str]] = set()
    for record in records.load(BENCH):  # the newest first
        ranks = record.command.partition("--ranks ")[2]
        for suite, rows in record.suites.items():
            new = [
                replace(row, name=_plain(row.name), peer=_peer(row))
                for row in rows
                if (suite, ranks, row.name) not in names and row.name not in DROPPED
            ]
            if new and _about(suite) and (suite, setting(record)) not in commands:
                tables.setdefault(suite, []).append((record, new))
            commands.add((suite, setting(record)))
            names |= {(suite, ranks, row.name) for row in rows}
    order = [name for name in TITLES if name in tables]
    for suite in [*order, *sorted(tables.keys() - TITLES.keys())]:
        lines += [f"## {TITLES.get(suite, suite)}", "", _about(suite), ""]
        for record, rows in sorted(tables[suite], key=lambda one: _ranks(one[0])):
            short = textwrap.shorten(record.command, LONGEST, placeholder=" ...")
            where = f"{record.machine['name']}, {day(record.date)}"
            found = _scores(rows) if suite in SCORED else _headlines(rows)
            head = f"`{short}`, {where}{':' if found else '.'}"
            lines += [head, "", *found, ""]
            rows = sorted(rows, key=lambda row: row.unit == "1" and row.value == row.peer_value)
            table = [
                "| what | case | ours | other | other's | ours ÷ other's |",
                "|---|---|---|---|---|---|",
                *(f"| {' | '.join(_figures(row))} |" for row in rows[:MOST]),
            ]
            if len(rows) > MOST:
                table += ["", f"The record has {_rows(len(rows) - MOST)} more."]
            sums = sum(row.unit == "tests" for row in rows)
            said = f", {sums} of them sums" if 0 < sums < len(rows) else ""
            lines += _folded(f"All figures: {_rows(len(rows))}{said}", "\n".join(table))
    return "\n".join(lines)


def _ranks(record: records.Record) -> int:
    return int(record.command.partition("--ranks ")[2] or 0)


def _plain(name: str) -> str:
    for old, new in PLAIN.items():
        name = name.replace(old, new)
    return name


def _peer(row: records.Row) -> str:
    if row.peer == "the wire's limit":  # a rate is compared with what the headers leave
        return "the link's rate" + (" less headers" if row.unit == "MB/s" else "")
    return PEERS.get(row.peer, _plain(row.peer))


def _scores(rows: Sequence[records.Row]) -> list[str]:
    """Return, as a line of Markdown, how many notebooks got right marks, or the best accuracies."""
    marked = [row.parameters for row in rows if row.unit == "points" and "right" in row.parameters]
    if marked:
        right = sum(bool(one["right"]) for one in marked)
        return [f"- full marks for solutions and none for empty answers: {right} of {len(marked)}"]
    steps = max((row.parameters.get("steps", 0) for row in rows), default=0)
    best: dict[str, float] = {}
    for row in rows if steps else ():
        if row.parameters["steps"] == steps:
            best[row.name] = max(best.get(row.name, 0), row.value)
    scores = "; ".join(f"{name}: {quantity(score, '1')}" for name, score in best.items())
    return [f"- accuracy after {steps} steps at the best rate: {scores}"] if best else []


def _headlines(rows: Sequence[records.Row]) -> list[str]:
    """Return what a suite found beside each peer, and without one: a line of Markdown for each."""
    groups: dict[tuple[str, str], list[records.Row]] = {}
    for row in rows:
        peer = row.peer if row.ratio is not None else ""
        groups.setdefault((peer, QUANTITIES.get(row.unit, row.unit)), []).append(row)
    if len(groups) > 1:  # what passed and what a file is called are no quantities
        groups = {(peer, what): those for (peer, what), those in groups.items() if what != "1"}
    largest = sorted(groups.items(), key=lambda item: (not item[0][0], -len(item[1])))
    return [
        f"- {_cell(line)}"
        for (peer, what), those in largest[:HEADLINES]
        for line in _headline(peer, what, those)
    ]


def _headline(peer: str, what: str, rows: Sequence[records.Row]) -> list[str]:
    if peer and len(rows) <= FEW:
        if rows[0].name.startswith("convolution"):
            rows = [min(rows, key=lambda row: row.value)]  # ways of doing the same
        both = [(row, *together(row.value, row.peer_value, row.unit)) for row in rows]
        unit = "" if rows[0].unit in IN_CELLS else f" {rows[0].unit}"
        return [
            f"{_named(row, rows)}: {ours}{unit}; {peer}: {theirs}{unit}"
            for row, ours, theirs in both
        ]
    if not peer:
        if what not in QUANTITIES.values() or {row.unit for row in rows} != {rows[0].unit}:
            return []
        ends = [by(rows, key=lambda row: row.value) for by in (min, max)]
        said = [f"{quantity(row.value, row.unit)} ({_named(row, rows)})" for row in ends]
        return [f"{what}: {' to '.join(said)}, {_rows(len(rows))}"]
    least, most = (by(rows, key=lambda row: row.ratio) for by in (min, max))
    middle = statistics.median(row.ratio for row in rows if row.ratio is not None)
    ratios = [f"×{SPACE}{powers(f'{one:.2g}')}" for one in (middle, least.ratio, most.ratio)]
    if ratios[1] == ratios[2]:
        return [f"{what}, compared with {peer}: {ratios[0]} in {_rows(len(rows))}"]
    names = ["", ""]
    if least.name != most.name:
        names = [f" ({row.name})" for row in (least, most)]
    ends = f"{ratios[1]}{names[0]} to {ratios[2]}{names[1]}"
    compared = f"{what}, compared with {peer}"
    return [f"{compared}: median {ratios[0]}, from {ends}, {_rows(len(rows))}"]


def _named(row: records.Row, rows: Sequence[records.Row]) -> str:
    """Return a row's name, with its first parameter where others have the same name."""
    if [one.name for one in rows].count(row.name) == 1 or not row.parameters:
        return row.name
    key, value = next(iter(row.parameters.items()))
    return f"{row.name}, {_case(key, value)}"


def _case(key: str, value: object) -> str:
    if key == "rate" and isinstance(value, float) and value >= 1e6:  # no learning rate
        rate = f"{value / 1e9:g} Gbit/s" if value >= 1e9 else f"{value / 1e6:g} Mbit/s"
        return f"rate {rate}"
    return f"{key} {quantity(value, '1') if isinstance(value, float) else value}"


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def _folded(summary: str, text: str, anchor: str = "") -> list[str]:
    """Return lines of Markdown: one line that opens what is below it."""
    name = f' id="{anchor}"' if anchor else ""
    head = f'<details class="record"{name}><summary>{summary}</summary>'
    return [head, "", text, "", "</details>", ""]


def setting(record: records.Record) -> tuple[str, ...]:
    """Return what a record's command was told, but for the suites that it was asked for.

    Runs with equal words measured the same, and the newer takes the older's place.
    """
    return tuple(word for word in record.command.split() if word not in record.suites)


def _figures(row: records.Row) -> list[str]:
    case = ", ".join(
        _case(key, value)
        for key, value in row.parameters.items()
        if isinstance(value, str | int | float) and value != "" and len(str(value)) <= 40
    )
    ratio = "" if row.ratio is None else f"{row.ratio:.2g}"
    ours, peer = (quantity(value, row.unit) for value in (row.value, row.peer_value))
    return [_cell(text) for text in (row.name, case, ours, row.peer, peer, ratio)]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("_", "\\_").replace("*", "\\*")


def api(libraries: Iterable[str] = LIBRARIES) -> str:
    """Return the list of libraries with the first line of each."""
    lines = ["# Libraries", "", "What the notebooks import, and what works in any script.", ""]
    for name in libraries:
        text = importlib.import_module(f"helpers.{name}").__doc__ or ""
        first = text.strip().splitlines()[0].replace("``", "`")
        lines.append(f"- [`helpers.{name}`]({name}.md): {first}")
    entries = "\n".join(libraries)
    return "\n".join([*lines, "", f"```{{toctree}}\n:hidden:\n\n{entries}\n```", ""])


def library(name: str) -> str:
    """Return the page of one library; Sphinx fills it from the docstrings.

    A package shows what its ``__all__`` has and the modules that a notebook imports beside it;
    where it has no ``__all__``, all of its modules.
    """
    address = f"helpers.{name}"
    module = importlib.import_module(address)
    if not hasattr(module, "__path__"):
        return _page(address, [f".. automodule:: {address}\n   :members:"])
    items = [item for item in getattr(module, "__all__", []) if not item.startswith("_")]
    calls = [
        f".. autodata:: {address}.{item}" if item.isupper() else _directive(name, item)
        for item in items
    ]
    shown = {thing.__name__ for item in items if _is_module(thing := getattr(module, item))}
    parts = [f"{address}.{part.name}" for part in pkgutil.iter_modules(module.__path__)]
    if items:
        parts = sorted({one for one in imported() if one.startswith(f"{address}.")} - shown)
    text = _page(address, [f".. automodule:: {address}\n   :no-members:", *calls])
    return text + "".join(
        f"\n## {part.removeprefix('helpers.')}\n\n{_rst(f'.. automodule:: {part}{MEMBERS}')}"
        for part in parts
    )


MEMBERS = "\n   :members:"


def _page(address: str, parts: Iterable[str]) -> str:
    return f"# {address}\n\n" + _rst("\n\n".join(parts))


def _rst(text: str) -> str:
    return f"```{{eval-rst}}\n{text}\n```\n"


def _is_module(thing: object) -> bool:
    return isinstance(thing, ModuleType)


@cache
def imported() -> frozenset[str]:
    """Return the modules of ``helpers`` that a notebook imports, or imports from."""
    found = set()
    for path in notebooks.sources(ROOT):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                found |= {str(node.module)} | {f"{node.module}.{one.name}" for one in node.names}
    ours = {name for name in found if name.startswith("helpers.")}
    return frozenset(name for name in ours if _exists(name))


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a name of a module that is no package
        return False


def _directive(library: str, item: str) -> str:
    thing = getattr(importlib.import_module(f"helpers.{library}"), item)
    address = f"helpers.{library}.{item}"
    if isinstance(thing, type):
        kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
        return f".. {kind}:: {address}\n   :members:"
    if callable(thing):
        return f".. autofunction:: {address}"
    if _is_module(thing):
        return f".. automodule:: {thing.__name__}{MEMBERS}"
    return f".. autodata:: {address}"
