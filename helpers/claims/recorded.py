"""The newest records of a claim, one for each processor, for the notebook that makes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from helpers import records
from helpers.claims.claim import PROCESSOR, ClaimError
from helpers.claims.written import SPACE, TIME, TIMES, day, effect_of, in_one_unit, percent, typeset
from helpers.paths import CLAIM_RECORDS
from helpers.records import Row

if TYPE_CHECKING:
    from IPython.display import Markdown

VERDICT = "[verdict](glossary.md#verdict)"
SHOWN = 4  # settings of a line
SYMBOLS = (*TIME, "B", "bytes", "1/s", "bytes/s", "flop/s")  # other units name a quantity


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
        sentence = typeset(self.rows[0].parameters["sentence"])
        least = f", {self._margin()}" if self._margin() else ""
        return f"**{sentence}** *{self.verdict}* (`{self.id}`{least})\n\n{self.tables()}"

    def folded(self) -> Markdown:
        """Return effects, margin, runs and machine as a line that opens to the tables."""
        from IPython.display import Markdown

        runs = f"{self.rows[0].parameters['runs']} runs of each"
        known = "; ".join(filter(None, [self.effects(), self._margin(), runs, self.machine]))
        line = f"<summary>Record {self.id}: {known}</summary>"
        return Markdown(f"<details>{line}\n\n{self.tables()}\n\n</details>")

    def _margin(self) -> str:
        margin, scale = (self.rows[0].parameters[key] for key in ("margin", "scale"))
        if not margin:
            return ""
        if scale == "ratio":
            return f"margin {percent(margin) if margin < 1 else f'{TIMES}{1 + margin:g}'}"
        return f"margin {margin:g}"

    def effects(self) -> str:
        """Return what was compared, and the effect at each setting, in a line; of many, the ends.

        For the newest record. Where the settings, or processors, do not all have the claim's
        verdict, each effect has its own.
        """
        first = self.rows[0]
        given = [row.parameters for row in self.rows]
        if _counts(first):
            compared, said = given[0]["ours"], [percent(row.value) for row in self.rows]
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
            said = [effect_of(one)[0].removeprefix(TIMES) for one in given]
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
        if grid := row.parameters.get("grid"):  # each side's best rate
            setting += " (best at {:g} and {:g})".format(*(grid["rates"][k] for k in grid["best"]))
        setting = re.sub(r" (?=[=÷×])|(?<=[=÷×]) ", SPACE, setting)  # in one line
        lines.append([setting, *between, row.parameters["word"]])
    return (*(typeset(f"| {' | '.join(line)} |") for line in lines), "")


def _head(side: str, shown: str, unit: str) -> str:
    if unit == "1":
        return side
    return f"{side}, {shown}" if unit in SYMBOLS else f"{unit}, {side}"


def _shares(row: Row) -> list[str]:
    events, trials = map(sum, zip(*row.parameters["values"], strict=True))
    low, high = (percent(end) for end in row.parameters["interval"])
    share = f"{percent(row.value)} ({low.removesuffix(SPACE + '%')} to {high})"
    return [f"{events} of {trials}", share]


def _interval(row: Row) -> list[str]:
    effect, low, high = effect_of(row.parameters)
    interval = f"{effect} ({low.removeprefix(TIMES)} to {high.removeprefix(TIMES)})"
    return [interval.replace(" ", SPACE), str(row.parameters["runs"])]
