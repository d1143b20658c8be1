"""What ``python -m bench links`` recorded of links and allreduces between hosts.

Where no hosts can be made, notebook 08 shows it in place of a run of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from helpers import records
from helpers.collectives.cost import Link
from helpers.collectives.registry import ALGORITHMS
from helpers.paths import BENCH_RECORDS
from helpers.records import Row

SUITE = "links"


def recorded(
    rate: float, sizes: Sequence[int], folder: Path = BENCH_RECORDS
) -> tuple[Link, Link, dict[str, list[float]]]:
    """Return what the newest record says of links of one rate, four hosts, two ranks on each.

    The links between and inside hosts, as fitted to ping-pongs, and for each algorithm the seconds
    for each size. ``rate`` is in bit/s, ``sizes`` in bytes; ValueError for what no record has.
    """
    rows = [row for row in _rows(folder) if row.parameters.get("rate") == rate]
    links = [row for row in rows if "alpha" in row.parameters]
    block = {
        (row.name, row.parameters["bytes"]): row.value / 1e3
        for row in rows
        if row.parameters.get("placement") == "block"
    }
    wanted = {name: [(f"{name} on 4 hosts", size) for size in sizes] for name in ALGORITHMS}
    missing = [key for keys in wanted.values() for key in keys if key not in block]
    if len(links) != 2 or missing:
        raise ValueError(
            f"no record in {folder} has links of {rate:g} bit/s with arrays of "
            f"{', '.join(str(size) for size in sizes)} bytes: `make bench SUITE={SUITE}` makes one"
        )
    seconds = {name: [block[key] for key in keys] for name, keys in wanted.items()}
    inside, between = map(_link, sorted(links, key=lambda row: row.name.endswith("between hosts")))
    return between, inside, seconds


def growing(
    rate: float, folder: Path = BENCH_RECORDS
) -> tuple[list[int], dict[str, list[float]], dict[str, list[float]]]:
    """Return recorded times of one array on more and more hosts, one rank each.

    How many hosts, ascending, then for each algorithm seconds for each number, measured and
    predicted. ``rate`` is the links', in bit/s; ValueError for one that no record has.
    """
    rows = [
        row
        for row in _rows(folder)
        if row.name.endswith(", more hosts") and row.parameters["rate"] == rate
    ]
    if not rows:
        raise ValueError(f"no record in {folder} has hosts on links of {rate:g} bit/s")
    measured: dict[str, list[float]] = {}
    predicted: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: row.parameters["hosts"]):
        name = row.name.removesuffix(", more hosts")
        measured.setdefault(name, []).append(row.value / 1e3)
        predicted.setdefault(name, []).append((row.peer_value or 0.0) / 1e3)
    return sorted({row.parameters["hosts"] for row in rows}), measured, predicted


def _rows(folder: Path) -> tuple[Row, ...]:
    found = records.load(folder, SUITE)
    return found[0].suites[SUITE] if found else ()


def _link(row: Row) -> Link:
    alpha, beta = row.parameters["alpha"], row.parameters["beta"]
    place = "between hosts" if row.name.endswith("between hosts") else "inside a host"
    return Link(place, alpha, beta, origin="recorded")
