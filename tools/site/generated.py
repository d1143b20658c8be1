"""Pages made from records and docstrings: what holds, what was measured, each library's calls."""

from __future__ import annotations

import ast
import html
import importlib
import importlib.util
import pkgutil
import re
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from types import ModuleType

import claims
from helpers import records
from helpers.claims.recorded import (
    Recorded,
    day,
    quantity,
    recorded,
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
LEFT_OUT = ("gates", "grading")  # a map that notebook 03 draws; marks, which tests hold
SHOWN = 8  # rows of a suite that stand open
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

    Of each suite that a command still measures, the newest record of each setting.
    """
    lines = [
        "# What was measured",
        "",
        "`make bench` measures our code and another library's in the same run. Another machine "
        "gives other seconds; ratios change less. Where the last column is below 1, ours took less "
        "time or memory; a bandwidth is better above 1.",
        "",
    ]
    tables: dict[str, dict[tuple[str, ...], tuple[records.Record, list[records.Row]]]] = {}
    for record in records.load(BENCH):  # the newest first
        for suite, rows in record.suites.items():
            if _about(suite) and suite not in LEFT_OUT:
                kept = [row for row in rows if row.name not in DROPPED]
                tables.setdefault(suite, {}).setdefault(setting(record), (record, kept))
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
                lines += _folded(f"All figures: {_rows(len(rows))}", every)
    return "\n".join(lines)


def _first(rows: Sequence[records.Row]) -> list[records.Row]:
    """Return what stands open: of each name and peer the last case, of tests their counts."""
    counts = [row for row in rows if row.unit == "tests"]
    last = {(row.name, row.peer): row for row in counts or rows}
    return [*last.values()][:SHOWN]


def _shared(rows: Sequence[records.Row]) -> list[str]:
    """Return the cases that all rows have."""
    every = [_cases(row) for row in rows]
    return [text for text in every[0] if all(text in cases for cases in every)]


def _table(rows: Sequence[records.Row], shared: Iterable[str] = ()) -> list[str]:
    head = "| what | case | ours | other | other's | ours ÷ other's |"
    lines = [f"| {' | '.join(_figures(row, shared))} |" for row in rows]
    return [head, "|---|---|---|---|---|---|", *lines]


def _case(key: str, value: object) -> str:
    if key == "rate" and value >= 1e6:  # no learning rate
        return f"{value / 1e9:g} Gbit/s" if value >= 1e9 else f"{value / 1e6:g} Mbit/s"
    if key in ("ranks", "hosts", "steps", "bytes", "threads", "nodes", "edges"):
        return f"{value:,} {key}"
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


def _figures(row: records.Row, shared: Iterable[str]) -> list[str]:
    case = ", ".join(text for text in _cases(row) if text not in shared)
    ratio = "" if row.ratio is None else f"{row.ratio:.2g}"
    ours, peer = (quantity(value, row.unit) for value in (row.value, row.peer_value))
    return [_cell(text) for text in (row.name, case, ours, row.peer, peer, ratio)]


def _cases(row: records.Row) -> list[str]:
    """Return what the row was measured with; a number with decimals is a result, but for rates."""
    return [
        _case(key, value)
        for key, value in row.parameters.items()
        if (isinstance(value, str | int) or (key == "rate" and "link" not in row.parameters))
        and 0 < len(str(value)) <= 40
        and str(value) not in row.name
    ]


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
