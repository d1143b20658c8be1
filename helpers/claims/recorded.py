"""The newest records of a claim, one for each processor, for the notebook that makes it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from helpers import records
from helpers.claims.claim import PROCESSOR, ClaimError
from helpers.paths import CLAIM_RECORDS
from helpers.records import Row

if TYPE_CHECKING:
    from IPython.display import Markdown

VERDICT = "[verdict](glossary.md#verdict)"
SPACE = "\u00a0"  # does not break a line
TIMES = f"×{SPACE}"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SHOWN = 4  # settings of a line
TIME = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}  # seconds in one
SYMBOLS = (*TIME, "B", "bytes", "1/s", "bytes/s", "flop/s")  # other units name a quantity
LEAST = 0.01  # of a table's unit, where a smaller unit can help


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
        return f"{self.machine} ({self.cpu_details or 'model not recorded'})"

    @property
    def by_processor(self) -> tuple[Recorded, ...]:
        """This record and those of other processors, the newest first."""
        return (self, *self.others)

    def _repr_markdown_(self) -> str:
        first = self.rows[0]
        margin = first.parameters["margin"]
        least = f"{margin:g}"
        if first.parameters["scale"] == "ratio":
            least = _percent(margin) if margin < 1 else f"{TIMES}{1 + margin:g}"
        least = f", margin {least}" if margin else ""
        said = f"**{typeset(first.parameters['sentence'])}** *{self.verdict}* (`{self.id}`{least})"
        return f"{said}\n\n{self.tables()}"

    def folded(self) -> Markdown:
        """Return the effects as a line that opens to the tables."""
        from IPython.display import Markdown

        line = f"<summary>Record {self.id}: {self.effects()}</summary>"
        return Markdown(f"<details>{line}\n\n{self.tables()}\n\n</details>")

    def effects(self) -> str:
        """Return what was compared, and the effect at each setting, in a line; of many, the ends.

        For the newest record. Where the settings, or processors, do not all have the claim's
        verdict, each effect has its own.
        """
        first = self.rows[0]
        given = [row.parameters for row in self.rows]
        if _counts(first):
            compared, said = given[0]["ours"], [_percent(row.value) for row in self.rows]
        else:
            ratio = given[0]["scale"] == "ratio"
            sides = [
                f"({side})" if re.search(r" [−÷·=] |, ", side) else side
                for side in (given[0]["ours"], first.peer)
            ]
            compared = f" {'÷' if ratio else '−'} ".join(sides)
            measured = "time" if first.unit in TIME else first.unit
            if first.unit != "1" and not compared.startswith(measured):
                compared = f"{measured}, {compared}"
            said = [_effect(one)[0].removeprefix(TIMES) for one in given]
        words = [one["word"] for one in given]
        told = {*words} != {self.verdict}
        if len(said) > SHOWN:
            ends = sorted(range(len(said)), key=lambda k: given[k]["effect"])
            counts = ", ".join(f"{word} in {words.count(word)}" for word in dict.fromkeys(words))
            where = f"{len(said)} settings{f' ({counts})' if told else ''}"
            return f"{compared}: {said[ends[0]]} to {said[ends[-1]]} in {where}"
        notes = [one["setting"] + (f": {one['word']}" if told else "") for one in given]
        each = (f"{text} ({note})" for text, note in zip(said, notes, strict=True))
        return f"{compared}: {', '.join(each)}"

    def tables(self) -> str:
        """Return the rows as Markdown; what other processors measured otherwise is folded."""
        found: dict[tuple[str, ...], list[Recorded]] = {}
        for one in self.by_processor:
            found.setdefault(_table(one.rows), []).append(one)
        lines: list[str] = []
        for table, ones in found.items():
            where = ", and on ".join(f"{one.processor}, {day(one.date)}" for one in ones)
            if lines:
                summary = f"Recorded on {where}: <em>{ones[0].here}</em>"
                lines += [f"<details><summary>{summary}</summary>", "", *table, "</details>", ""]
            else:
                verdict = f": *{ones[0].here}*" if len(found) > 1 else ""
                lines += [*table, f"Recorded on {where}{verdict}.", ""]
        return "\n".join(lines).rstrip()


def typeset(text: str) -> str:
    """Return a text with its powers and indices as HTML, and 10⁻⁶ for 1e-6.

    >>> typeset("‖∂h_T‖ stays within 1e-6 of ‖U‖^k by two_level")
    '‖∂h<sub>T</sub>‖ stays within 10⁻⁶ of ‖U‖<sup>k</sup> by two_level'
    """
    text = re.sub(r"(?<![\w.])1e(-?\d+)", lambda found: "10" + found[1].translate(RAISED), text)
    text = re.sub(r"\^(\w+)", r"<sup>\1</sup>", text)
    return re.sub(r"(?<!\w)([A-Za-z])_(\w+)", r"\1<sub>\2</sub>", text)


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


def _table(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the lines of a table in Markdown; its sides share one unit, which the heads name."""
    first = rows[0]
    ours = first.parameters["ours"]
    if _counts(first):
        heads, cells = [ours, "share (95 %)"], [_shares(row) for row in rows]
    else:
        sides = [side for row in rows for side in (row.value, row.peer_value)]
        said, unit = in_one_unit(sides, first.unit)
        heads = [_head(side, unit, first.unit) for side in (ours, first.peer)]
        heads += ["effect (95 %)", "runs"]
        pairs = zip(said[::2], said[1::2], strict=True)
        cells = [[*pair, *_interval(row)] for pair, row in zip(pairs, rows, strict=True)]
    lines = [["setting", *heads, VERDICT], ["---"] * (len(heads) + 2)]
    for row, between in zip(rows, cells, strict=True):
        setting = row.parameters["setting"]
        setting = re.sub(r" (?=[=÷×])|(?<=[=÷×]) ", SPACE, setting)  # in one line
        lines.append([setting, *between, row.parameters["word"]])
    return (*(typeset(f"| {' | '.join(line)} |") for line in lines), "")


def _head(side: str, shown: str, unit: str) -> str:
    if unit == "1":
        return side
    return f"{side}, {shown}" if unit in SYMBOLS else f"{unit}, {side}"


def _shares(row: Row) -> list[str]:
    events, trials = map(sum, zip(*row.parameters["values"], strict=True))
    low, high = (_percent(end) for end in row.parameters["interval"])
    share = f"{_percent(row.value)} ({low.removesuffix(SPACE + '%')} to {high})"
    return [f"{events} of {trials}", share]


def _interval(row: Row) -> list[str]:
    effect, low, high = _effect(row.parameters)
    interval = f"{effect} ({low.removeprefix(TIMES)} to {high.removeprefix(TIMES)})"
    return [interval.replace(" ", SPACE), str(row.parameters["runs"])]


def _effect(given: Mapping) -> list[str]:
    """Return an effect and the ends of its interval, with no more digits than the interval has."""
    numbers = [given["effect"], *given["interval"]]
    if given["scale"] == "ratio":
        factors = [None if number is None else 1 + number for number in numbers]
        digits = next((d for d in (2, 3) if len({_factor(one, d) for one in factors}) == 3), 3)
        return [_factor(one, digits) for one in factors]
    known = [number for number in numbers if number is not None]
    width = (max(known) - min(known)) / 5
    places = max(0, math.ceil(-math.log10(width))) if width else 3
    if any(end and not round(end, places) for end in numbers[1:]):
        places += 1  # so that no end is shown as 0
    return ["∞" if one is None else f"{one:+.{places}f}".replace("-", "−") for one in numbers]


def _factor(value: float | None, digits: int) -> str:
    if value is None:
        return "∞"
    if 10**digits <= value < 1e6:
        return f"{TIMES}{float(f'{value:.{digits}g}'):,.0f}"  # 1,000 for 1.0e+03
    return TIMES + powers(f"{value:#.{digits}g}".removesuffix("."))


def powers(text: str) -> str:
    """Write 2.5·10¹⁸ for 2.5e+18."""
    number, _, power = text.partition("e")
    return f"{number}·10{str(int(power)).translate(RAISED)}" if power else number


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f}{SPACE}%" if percent >= 10 or not percent else f"{percent:.2g}{SPACE}%"


def in_one_unit(values: Sequence[float | None], unit: str) -> tuple[list[str], str]:
    """Return values in one unit, and its name: 0.03 and 20, ms.

    It is the largest value's unit, or a smaller one if the least value has too many zeros in it.
    """
    sizes = sorted((abs(one) for one in values if one), reverse=True) or [0.0]
    scales = [_scale(size, unit) for size in sizes]
    by, name = next((scale for scale in scales if sizes[-1] * scale[0] >= LEAST), scales[0])
    return ["" if one is None else _text(one * by, "") for one in values], name


def quantity(value: float | None, unit: str) -> str:
    """Return a value that can be read: 30 µs for 2.998e-05 s, 315 GB/s for 3.151e+11 bytes/s."""
    if value is None:
        return ""
    by, name = _scale(abs(value), unit)
    return _text(value * by, name)


def _scale(value: float, unit: str) -> tuple[float, str]:
    """Return by what to multiply a value of this size, and the unit that it then has."""
    if unit in TIME:
        seconds = value * TIME[unit]
        places = ((1, 1, "s"), (1e-3, 1e3, "ms"), (1e-6, 1e6, "µs"), (0, 1e9, "ns"))
        by, name = next((by, name) for least, by, name in places if seconds >= least or not seconds)
        return by * TIME[unit], name
    if unit in ("bytes/s", "flop/s") and value >= 1e6:
        large = value >= 1e9
        return (1e-9 if large else 1e-6), ("G" if large else "M") + unit.replace("bytes", "B")
    return 1, unit


def _text(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else powers(f"{value:.3g}")
    return f"{text}{SPACE}{unit}".removesuffix(f"{SPACE}1").rstrip(SPACE)


def day(date: str) -> str:
    """Return a record's date as it is written in a text, on one line.

    >>> day("2026-11-02T10:00:00Z").split()
    ['2', 'November', '2026']
    """
    found = datetime.fromisoformat(date.replace("Z", "+00:00"))
    return f"{found.day}{SPACE}{found:%B}{SPACE}{found.year}"
