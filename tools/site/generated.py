"""Pages made from records and docstrings: what holds, what was measured, each library's calls."""

from __future__ import annotations

import html
import importlib
import re
from collections.abc import Iterable

import claims
from helpers import records
from helpers.claims.recorded import Recorded, recorded
from helpers.paths import ROOT

BENCH = ROOT / "data" / "bench"
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
)
REFERENCE = ["what_holds", "measured", "api/index"]
MOST = 40  # rows of one suite on the page; the record has all


def pages() -> dict[str, str]:
    """Return the generated pages: Markdown by file name."""
    made = {"what_holds.md": what_holds(), "measured.md": measured(), "api/index.md": api()}
    return made | {f"api/{name}.md": library(name) for name in LIBRARIES}


def what_holds() -> str:
    """Return the page of all claims: sentence, verdict and record of each, by notebook."""
    found = recorded()
    lines = [
        "# What holds",
        "",
        "Every conclusion of the course is an experiment over seeds and settings against the "
        "strongest simple rival. Here are all of them with what the newest record of each "
        "processor says: *holds*, *ties*, *fails*, *open* (these runs do not decide) or *depends "
        "on* a setting or the processor. The effect stands with its 95 % interval; *runs* is how "
        "many pairs it comes from. `make claims NB=02` runs those of one notebook on your machine. "
        "Open a line to see its measurements.",
        "",
    ]
    for topic in claims.topics():
        known = claims.of(topic)
        lines += [f"## {topic}", "", f"[The notebook](notebooks/{topic}.ipynb).", ""]
        lines += ["| verdict | how many |", "|---|---|"]
        lines += [f"| {word} | {count} |" for word, count in _counted(known, found)]
        lines.append("")
        for name in known:
            one = found[name]
            sentence = html.escape(one.rows[0].parameters["sentence"], quote=False)
            summary = f"<em>{one.verdict}</em>: {sentence} (<code>{name}</code>)"
            lines += _folded(summary, one.tables(), name)
    return "\n".join(lines)


def _counted(known: Iterable[str], found: dict[str, Recorded]) -> list[tuple[str, int]]:
    words = [re.split(r" on |:", found[name].verdict)[0] for name in known]
    return sorted({word: words.count(word) for word in words}.items(), key=lambda pair: -pair[1])


def measured() -> str:
    """Return the page of measured figures: ours, the peer's and their ratio.

    Of each suite the newest run stands there; of an older one, by another command, what no newer
    run has: the rows of other cases, and all of a run on another number of ranks.
    """
    lines = [
        "# What was measured",
        "",
        "Figures of `make bench`, ours and a peer's from the same run on the same machine. "
        "Another machine gives other seconds; the ratios travel further.",
        "",
    ]
    tables: dict[str, list[tuple[records.Record, list[records.Row]]]] = {}
    commands: set[tuple[str, tuple[str, ...]]] = set()
    names: set[tuple[str, str, str]] = set()
    for record in records.load(BENCH):  # the newest first
        ranks = record.command.partition("--ranks ")[2]
        for suite, rows in record.suites.items():
            new = [row for row in rows if (suite, ranks, row.name) not in names]
            if new and (suite, setting(record)) not in commands:
                tables.setdefault(suite, []).append((record, new))
            commands.add((suite, setting(record)))
            names |= {(suite, ranks, row.name) for row in rows}
    for suite, (record, rows) in ((name, one) for name in sorted(tables) for one in tables[name]):
        if record is tables[suite][0][0]:
            lines += [f"## {suite}", ""]
        table = [
            "| what | case | ours | peer | peer's | ours ÷ peer's |",
            "|---|---|---|---|---|---|",
            *(f"| {' | '.join(_figures(row))} |" for row in rows[:MOST]),
        ]
        if len(rows) > MOST:
            table += ["", f"{len(rows) - MOST} more rows stand in the record."]
        where = f"{record.machine['name']}, {record.date[:10]}, {len(rows)} rows"
        command = html.escape(record.command)
        lines += _folded(f"<code>{command}</code>, {where}", "\n".join(table))
    return "\n".join(lines)


def _folded(summary: str, text: str, anchor: str = "") -> list[str]:
    """Return lines of Markdown: one line that opens what is below it."""
    name = f' id="{anchor}"' if anchor else ""
    head = f'<details class="record"{name}><summary>{summary}</summary>'
    return [head, "", text, "", "</details>", ""]


def setting(record: records.Record) -> tuple[str, ...]:
    """Return what a record's command was told, but for the suites that it was asked for.

    Parameters
    ----------
    record : Record
        Of any run.

    Returns
    -------
    tuple of str
        The words of the command, such as ``("python", "-m", "bench.conformance", "--ranks", "2")``:
        runs with equal ones measured the same, and the newer takes the older's place.
    """
    return tuple(word for word in record.command.split() if word not in record.suites)


def _figures(row: records.Row) -> list[str]:
    case = ", ".join(
        f"{key} {value}"
        for key, value in row.parameters.items()
        if isinstance(value, str | int | float) and len(str(value)) <= 40
    )
    peer = "" if row.peer_value is None else f"{row.peer_value:.4g} {row.unit}".removesuffix(" 1")
    ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
    ours = f"{row.value:.4g} {row.unit}".removesuffix(" 1")
    return [_cell(text) for text in (row.name, case, ours, row.peer, peer, ratio)]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("_", "\\_").replace("*", "\\*")


def api() -> str:
    """Return the list of libraries with the first line of each."""
    lines = ["# Libraries", "", "What the notebooks import, and what works in any script.", ""]
    for name in LIBRARIES:
        text = importlib.import_module(f"helpers.{name}").__doc__ or ""
        first = text.strip().splitlines()[0].replace("``", "`")
        lines.append(f"- [`helpers.{name}`]({name}.md): {first}")
    entries = "\n".join(LIBRARIES)
    return "\n".join([*lines, "", f"```{{toctree}}\n:hidden:\n\n{entries}\n```", ""])


def library(name: str) -> str:
    """Return the page of one library; Sphinx fills it from the docstrings."""
    module = importlib.import_module(f"helpers.{name}")
    names = getattr(module, "__all__", [])
    calls = [
        f".. autodata:: helpers.{name}.{item}" if item.isupper() else _directive(name, item)
        for item in names
        if not item.startswith("_")
    ]
    body = "\n\n".join([f".. automodule:: helpers.{name}\n   :no-members:", *calls])
    return f"# helpers.{name}\n\n```{{eval-rst}}\n{body}\n```\n"


def _directive(library: str, item: str) -> str:
    thing = getattr(importlib.import_module(f"helpers.{library}"), item)
    address = f"helpers.{library}.{item}"
    if isinstance(thing, type):
        kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
        return f".. {kind}:: {address}\n   :members:"
    if callable(thing):
        return f".. autofunction:: {address}"
    if hasattr(thing, "__file__"):
        return f".. automodule:: {thing.__name__}\n   :members:"
    return f".. autodata:: {address}"
