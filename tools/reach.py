"""Which notebooks' claims ``make test-all`` saw pass with the code that they have now.

Code is compared by content, not by commit, so that every clone decides the same: the modules that a
topic imports or names, the other files of their packages (kernels, C), data and pinned versions.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

import grimp

import claims
from helpers import records
from helpers.paths import BENCH_RECORDS, CLAIM_RECORDS, DATA, GPU_RECORDS, ROOT

SUITE = "test-all"
ROW = "claims {topic}"
RUNNER = "helpers.claims.running"  # runs what a topic states
TEST = re.compile(r"test_every_experiment_of_the_course_runs\[(([\dA]\d)-.*)\]")


class Code:
    """The modules of some packages below the folder ``root``, as they are now."""

    def __init__(self, *packages: str, root: Path = ROOT) -> None:
        self.root = root
        self._graph = grimp.build_graph(*packages, cache_dir=None)
        self._name = re.compile(rf"\b(?:{'|'.join(packages)})(?:\.\w+)+")
        self._needs = cache(self._needed)
        self._digest = cache(lambda path: sha256(path.read_bytes()).hexdigest())

    def reached(self, *modules: str) -> set[str]:
        """Return these modules and what they import or name, directly or not."""
        found: set[str] = set()
        waiting = set(modules)
        while waiting:
            found |= waiting
            waiting = set().union(*map(self._needs, waiting)) - found
        return found

    def files(self, *modules: str) -> list[Path]:
        """Return the files that decide how modules run."""
        found = {self._file(module) for module in self.reached(*modules)}
        for path in [path for path in found if path.name == "__init__.py"]:
            found.update(_others(path.parent))
        data, *recorded = (
            self.root / folder.relative_to(ROOT)
            for folder in (DATA, BENCH_RECORDS, CLAIM_RECORDS, GPU_RECORDS)
        )
        found |= {path for path in data.rglob("*") if not {*path.parents} & {*recorded}}
        found.add(self.root / "requirements.txt")
        return sorted(p for p in found if p.is_file() and "__pycache__" not in p.parts)

    def fingerprint(self, *modules: str) -> str:
        """Return a hash of the names and contents of those files."""
        files = self.files(*modules)
        lines = [f"{path.relative_to(self.root).as_posix()} {self._digest(path)}" for path in files]
        return sha256("\n".join(lines).encode()).hexdigest()

    def _needed(self, module: str) -> set[str]:
        """Return what a module imports, the packages above it, and what its text names.

        Names count wherever they stand: some are handed to ``python -m`` or to a process of ranks.
        """
        names = {module, f"{module}.__main__"}
        names |= set(self._name.findall(self._file(module).read_text(encoding="utf-8")))
        names = {part for name in names for part in accumulate(name.split("."), "{}.{}".format)}
        return names & self._graph.modules | self._graph.find_modules_directly_imported_by(module)

    def _file(self, module: str) -> Path:
        path = self.root.joinpath(*module.split("."))
        return path / "__init__.py" if path.is_dir() else path.with_name(f"{path.name}.py")


def _others(folder: Path) -> Iterator[Path]:
    """Yield what is no module in a package, but not what is in a package below it."""
    for path in folder.iterdir():
        if path.is_dir() and not (path / "__init__.py").exists():
            yield from _others(path)
        elif path.suffix != ".py" and not path.name.startswith("."):
            yield path


@cache
def code() -> Code:
    """Return the course's modules as they were at the first call."""
    return Code("claims", "helpers")


@cache
def fingerprints() -> dict[str, str]:
    """Return each topic's fingerprint at the first call."""
    return {topic: code().fingerprint(f"claims.{topic}", RUNNER) for topic in claims.topics()}


def seen(folder: Path = BENCH_RECORDS) -> set[str]:
    """Return the topics that passed with the code that they have now, by their newest records."""
    newest: dict[str, dict] = {}
    for record in records.load(folder, SUITE):
        for row in record.suites[SUITE]:
            newest.setdefault(row.name, row.parameters)
    return {
        topic
        for topic, now in fingerprints().items()
        if (then := newest.get(ROW.format(topic=topic)))
        and (then["fingerprint"], then["failed"]) == (now, 0)
    }


def rows(report: Path) -> list[records.Row]:
    """Return a row for each topic of which a JUnit report of pytest holds every experiment.

    Each experiment's test reports the fingerprint that its topic had when it was collected.
    """
    told: dict[str, dict[str, set[str]]] = {}  # topic's number → claim → what stands below its test
    then: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        if test := TEST.fullmatch(case.get("name", "")):
            claim, number = test.groups()
            told.setdefault(number, {}).setdefault(claim, set()).update(one.tag for one in case)
            for stated in case.iterfind("properties/property[@name='fingerprint']"):
                then[number] = stated.get("value", "")
    whole = [
        topic
        for topic in claims.topics()
        if told.get(topic[:2], {}).keys() == claims.of(topic).keys()
    ]
    return [_row(topic, then.get(topic[:2], ""), [*told[topic[:2]].values()]) for topic in whole]


def _row(topic: str, fingerprint: str, told: list[set[str]]) -> records.Row:
    failed = sum(bool(below & {"failure", "error"}) for below in told)
    passed = sum(not below & {"failure", "error", "skipped"} for below in told)
    counts = {"fingerprint": fingerprint, "passed": passed, "failed": failed}
    return records.Row(ROW.format(topic=topic), passed, "tests", parameters=counts)
