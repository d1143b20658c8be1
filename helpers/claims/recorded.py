"""The newest records of a claim, one for each processor, for the notebook that makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from helpers import records
from helpers.claims.claim import PROCESSOR, ClaimError
from helpers.paths import CLAIM_RECORDS
from helpers.records import Row

VERDICT = "[verdict](glossary.md#verdict)"


@dataclass(frozen=True)
class Recorded:
    """A claim as a record has it: its rows, one for each setting, and where they come from.

    ``others`` are the newest records that other processors left.
    """

    id: str
    rows: tuple[Row, ...]
    machine: str
    cpu_details: str
    date: str
    others: tuple[Recorded, ...] = ()

    @property
    def here(self) -> str:
        """What the runs on this processor said, over all settings."""
        return self.rows[0].parameters["verdict"]

    @property
    def verdict(self) -> str:
        """What the runs said, over all settings and processors."""
        found = self.by_processor
        words: dict[str, set[str]] = {}
        for row in (row for one in found for row in one.rows):
            words.setdefault(row.parameters["setting"], set()).add(row.parameters["word"])
        contrary = any({"holds", "fails"} <= said for said in words.values())
        return PROCESSOR if contrary or len({one.here for one in found}) > 1 else self.here

    @property
    def processor(self) -> str:
        """The machine's name, and what tells processors of that name apart."""
        return f"{self.machine} ({self.cpu_details})" if self.cpu_details else self.machine

    @property
    def by_processor(self) -> tuple[Recorded, ...]:
        """This record and those of other processors, the newest first."""
        return (self, *self.others)

    def _repr_markdown_(self) -> str:
        first = self.rows[0]
        said = f"**{first.parameters['sentence']}** *{self.verdict}* (`{self.id}`)"
        return f"{said}\n\n{self.tables()}"

    def tables(self) -> str:
        """Return the rows as Markdown; what other processors measured otherwise is folded."""
        first = self.rows[0].parameters
        found: dict[tuple, list[Recorded]] = {}
        for one in self.by_processor:
            found.setdefault(tuple(tuple(_cells(row)) for row in one.rows), []).append(one)
        lines: list[str] = []
        for rows, ones in found.items():
            where = ", and on ".join(f"{one.processor}, {one.date[:10]}" for one in ones)
            columns = [f"{self.rows[0].peer} | effect (95 %) | runs", "share (95 %)"]
            table = [
                f"| setting | {first['ours']} | {columns[_counts(self.rows[0])]} | {VERDICT} |",
                "|---" * len(rows[0]) + "|",
                *(f"| {' | '.join(row)} |" for row in rows),
                "",
            ]
            if lines:
                summary = f"Recorded on {where}: <em>{ones[0].here}</em>"
                lines += [f"<details><summary>{summary}</summary>", "", *table, "</details>", ""]
            else:
                verdict = f": *{ones[0].here}*" if len(found) > 1 else ""
                lines += [*table, f"Recorded on {where}{verdict}.", ""]
        return "\n".join(lines).rstrip()


def evidence(id: str, folder: str | Path = CLAIM_RECORDS) -> Recorded:
    """Return, as a table, what the newest record of each processor says of a claim.

    ClaimError if no record holds it.
    """
    found = recorded(folder).get(id)
    if found is None:
        raise ClaimError(
            f"no record in {folder} holds claim {id!r}: `make claims NB={id[:2]}` makes it"
        )
    return found


def recorded(folder: str | Path = CLAIM_RECORDS) -> Mapping[str, Recorded]:
    """Return the newest rows of every claim that a record holds, by identifier.

    Records are read again when one has come, gone or changed.
    """
    files = sorted(Path(folder).rglob("*.json"))
    state = tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in files)
    return _read(Path(folder), state)


@lru_cache(maxsize=4)  # a notebook asks for one claim after the other
def _read(folder: Path, state: tuple) -> Mapping[str, Recorded]:
    found: dict[str, dict[str, Recorded]] = {}
    for record in records.load(folder):  # the newest first
        rows: dict[str, list[Row]] = {}
        for row in (row for suite in record.suites.values() for row in suite):
            for key in ("word", "verdict"):
                if row.parameters.get(key) == "ties":  # so older records call it
                    row.parameters[key] = "equal"
            rows.setdefault(row.name, []).append(row)
        name, model = record.machine["name"], record.machine.get("cpu_details", "")
        for id, settings in rows.items():
            one = Recorded(id, tuple(settings), name, model, record.date)
            found.setdefault(id, {}).setdefault(one.processor, one)
    newest = {id: list(processors.values()) for id, processors in found.items()}
    every = {id: replace(first, others=tuple(rest)) for id, (first, *rest) in newest.items()}
    return MappingProxyType(every)


def _counts(row: Row) -> bool:
    """Whether the runs were counted: then the effect is a share, no ratio and no difference."""
    given = row.parameters
    plain = given["scale"] == "difference" and bool(row.peer_value)
    return plain and given["effect"] == row.value


def _cells(row: Row) -> list[str]:
    given = row.parameters
    if _counts(row):
        events, trials = map(sum, zip(*given["values"], strict=True))
        low, high = (f"{100 * end:.3g}" for end in given["interval"])
        share = f"{100 * row.value:.3g} % ({low} to {high} %)"
        return [given["setting"], f"{events} of {trials}", share, given["word"]]
    if given["scale"] == "ratio":
        low, high = (_part(end) for end in given["interval"])
        effect = f"{_part(given['effect'])} ({low} to {high})"
    else:
        low, high = ("∞" if end is None else f"{end:+.3g}" for end in given["interval"])
        effect = f"{given['effect']:+.3g} ({low} to {high})"
    sides = [quantity(one, row.unit) for one in (row.value, row.peer_value)]
    return [given["setting"], *sides, effect, str(given["runs"]), given["word"]]


def quantity(value: float | None, unit: str) -> str:
    """Return a value that can be read: 30 µs for 2.998e-05 s, 315 GB/s for 3.151e+11 bytes/s."""
    if value is None:
        return ""
    if unit == "s" and 0 < abs(value) < 1:
        places = ((1e-7, 1e9, "ns"), (1e-4, 1e6, "µs"), (1, 1e3, "ms"))
        by, unit = next((by, name) for end, by, name in places if abs(value) < end)
        value *= by
    elif unit in ("bytes/s", "flop/s") and abs(value) >= 1e6:
        large = abs(value) >= 1e9
        value *= 1e-9 if large else 1e-6
        unit = ("G" if large else "M") + unit.replace("bytes", "B")
    text = f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"
    return f"{text} {unit}".removesuffix(" 1")


def _part(value: float | None) -> str:
    if value is None:
        return "∞"
    text = f"{1 + value:.3g}"
    if 1e3 <= 1 + value < 1e6:
        text = f"{float(text):,.0f}"  # 1,040 for 1.04e+03
    return f"×\u00a0{text}"  # not the sign alone on a line
