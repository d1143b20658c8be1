"""Pages made from records and docstrings: what holds, and each library's calls."""

from __future__ import annotations

import ast
import html
import importlib
import importlib.util
import math
import pkgutil
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from types import ModuleType

import claims
from helpers.claims.claim import Claim
from helpers.claims.recorded import Recorded, recorded
from helpers.claims.written import typeset
from helpers.paths import ROOT
from tools import notebooks
from tools.site import measured, on_a_gpu
from tools.site.measured import folded
from tools.site.ratios import strip

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


def pages(libraries: Iterable[str] = LIBRARIES) -> dict[str, str]:
    """Return the generated pages, with one for each of the libraries: Markdown by file name."""
    made = {"what_holds.md": what_holds(), "measured.md": measured.page()}
    made |= {"api/index.md": api(libraries), "on_a_gpu.md": on_a_gpu.page()}
    return made | {f"api/{name}.md": library(name) for name in libraries}


def what_holds() -> str:
    """Return the page of all claims: sentence, verdict and record of each, by notebook."""
    found = recorded()
    lines = [
        "# What holds",
        "",
        "Each sentence below is a claim that a run could refute. We tested it with several seeds "
        "and settings against the strongest simple alternative. Under each sentence stands the "
        "effect in the newest record: ÷ is a ratio of two means, − a difference. The *margin*, "
        "fixed before the runs, is the least effect that counts (× 1.1: a tenth more, or its "
        "inverse). A verdict says what the effect and its 95 % interval show:",
        "",
        "- *holds*: the effect has the claimed direction and at least the margin's size, and the "
        "whole interval has that direction;",
        "- *fails*: the same in the opposite direction;",
        "- *equal*: the whole interval is within the margin, which confirms a claim that two "
        "things are equal and refutes any other;",
        "- *open*: none of these, so the runs do not decide;",
        "- *depends on*: settings or processors have different verdicts.",
        "",
        "Some claims count runs. They have no margin: the share of runs is *held against* another "
        "share. The claim's notebook defines its symbols, such as Ξ (10). Open a claim to see both "
        "means, the interval and the number of runs. `make claims NB=02` runs the claims of one "
        "notebook on your machine.",
        "",
        "Notebooks 05 and 14 have no claims: they count what kernels do. A count is the same in "
        "each run, and the tests assert the counts of the course's kernels exactly. Notebook 00 "
        "and appendices A1, A2 and A5 say only what the run on the page shows.",
        "",
        *_totals(found),
        "",
        _strip(found),
        "",
    ]
    for topic in claims.topics():
        known = claims.of(topic)
        link = f"[Notebook {topic[:2]}](notebooks/{topic}.ipynb)"
        lines += [f"## {topic[:2]} {_heading(topic)}", "", link, ""]
        for name in known:
            one = found[name]
            sentence = typeset(html.escape(one.rows[0].parameters["sentence"], quote=False))
            effects = typeset(html.escape(one.effects(), quote=False))
            effects += f"; {_margin(known[name])} (<code>{name}</code>)"
            summary = f'<em>{one.verdict}</em>: {sentence}<span class="effect">{effects}</span>'
            tables = one.tables().replace("](glossary.md#", "](notebooks/glossary.md#")
            lines += folded(summary, tables, name)
    return "\n".join(lines)


def _margin(claim: Claim) -> str:
    """Return the least effect that counts; of what is counted, the share to be above or below."""
    if claim.rival_share is not None:
        return f"held against {100 * claim.rival_share:g} %"
    return f"margin {f'× {1 + claim.margin:g}' if claim.scale == 'ratio' else f'{claim.margin:g}'}"


def _strip(found: Mapping[str, Recorded]) -> str:
    """Return the picture of all effects in margins; of what is counted there is no margin."""
    rows = {}
    for topic in claims.topics():
        for name, claim in claims.of(topic).items():
            if claim.rival_share is None:
                label = f'<a href="#{name}">{name}</a>'
                verdict = re.split(r" on |:", found[name].verdict)[0]
                rows[label] = in_margins(claim, found[name]), f"<em>{verdict}</em>"
    caption = (
        "All claims but those that count runs. Each mark is the effect at one setting, in "
        "margins (×\u00a01.21 is two margins of ×\u00a01.1), with its 95 % interval. Blue dots "
        "hold, orange diamonds fail, grey dots are equal, rings are open. In the shaded band an "
        "effect is less than the margin. Far from 0 the axis is logarithmic."
    )
    return strip(caption, ("the opposite", "as the sentence says"), rows)


def in_margins(claim: Claim, one: Recorded) -> list[tuple[str, float, float, float]]:
    """Return word, effect and interval of each setting, above 0 on the side that is claimed."""
    sign = 1 if claim.larger else -1

    def margins(effect: float | None) -> float:
        if effect is None:
            return math.inf
        if claim.scale == "difference":
            return sign * effect / claim.margin
        factor = math.log1p(effect) if effect > -1 else -math.inf
        return sign * factor / math.log1p(claim.margin)

    made = []
    for row in one.rows:
        given = row.parameters
        low, high = sorted(map(margins, given["interval"]))
        made.append((given["word"], margins(given["effect"]), low, high))
    return made


def _heading(topic: str) -> str:
    text = (ROOT / "notebooks" / "source" / f"{topic}.py").read_text("utf-8")
    found = re.search(r"^# # (.+)$", text, re.M)
    return found[1] if found else topic


def _totals(found: Mapping[str, Recorded]) -> list[str]:
    """Return a table: how many claims of each notebook have each verdict."""
    words = {
        topic: Counter(re.split(r" on |:", found[name].verdict)[0] for name in claims.of(topic))
        for topic in claims.topics()
    }
    every = sum(words.values(), Counter())
    columns = [word for word, _ in every.most_common()]
    total = [f"**all {every.total()} claims**", *(f"**{every[word]}**" for word in columns)]
    rows = [["notebook", *columns], total]
    for topic, counts in words.items():
        title = f"[{topic[:2]} {_heading(topic)}](notebooks/{topic}.ipynb)"
        rows.append([title, *(str(counts[word] or "") for word in columns)])
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return [head, "|---" * len(rows[0]) + "|", *body]


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
