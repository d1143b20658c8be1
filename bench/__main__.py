"""Measure every suite, print ours beside the peer's, and write one record.

    python -m bench                      every suite
    python -m bench allreduce cluster    these two
    python -m bench --gpu                the GPU's part of every suite that has one

A suite is a module ``bench/<topic>.py`` with ``SUITE = "<topic>"`` and ``rows() -> list[Row]``. It
may have ``gpu_rows()`` too, which ``--gpu`` calls in place of ``rows``; ``GPU = True`` says that
``rows`` itself needs a GPU, and ``lacks() -> str`` what else is missing here. Each suite runs
in a process of its own under a time limit: one that fails, crashes or hangs is reported, and the
others go on.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from dataclasses import asdict
from pathlib import Path

from helpers import records
from helpers.records import Record, Row

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    if options.worker:
        return _work(*options.worker)
    chosen = _choose(options)
    if isinstance(chosen, str):
        print(chosen, file=sys.stderr)
        return 1
    if options.list:
        print("\n".join(chosen))
        return 0
    command = shlex.join(["python", "-m", "bench", *arguments])
    suites, broken = {}, {}
    for name in chosen:
        print(f"\n{name} ...", flush=True)
        begin = time.perf_counter()
        rows, trouble = _run(name, options.gpu, options.limit)
        spent = time.perf_counter() - begin
        if trouble:
            broken[name] = trouble
            print(trouble, flush=True)
        elif rows:
            suites[name] = rows
            print(f"{table(rows)}\n{name}: {len(rows)} rows in {spent:.0f} s", flush=True)
    if suites and not options.no_record:
        record = _record(suites, command, options.gpu)
        print(f"\nwritten: {_relative(records.write(record, options.out))}")
    for name in broken:
        print(f"bench: suite {name} FAILED (see above)", file=sys.stderr)
    return 1 if broken or not suites else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="default: every suite")
    parser.add_argument("--gpu", action="store_true", help="the GPU's part of each suite")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: data/bench, data/gpu")
    parser.add_argument("--no-record", action="store_true", help="print only")
    parser.add_argument("--list", action="store_true", help="print the suites' names only")
    parser.add_argument(
        "--limit", type=float, default=1800.0, metavar="S", help="seconds a suite (default 1800)"
    )
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.out = options.out or ROOT / "data" / ("gpu" if options.gpu else "bench")
    return options


def discover(folder: Path = HERE) -> dict[str, set[str]]:
    """Return suite → the names that its module defines, read without importing anything."""
    found = {}
    for path in sorted(folder.glob("[a-z]*.py")):
        names = set()
        for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
            if isinstance(node, ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Assign):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if "SUITE" in names:
            found[path.stem] = names
    return found


def _choose(options: argparse.Namespace) -> list[str] | str:
    """Return the suites to run, or the sentence that says why there are none."""
    found = discover()
    if unknown := [name for name in options.suites if name not in found]:
        return f"bench: no suite {', '.join(unknown)}; there are: {', '.join(found) or 'none'}"
    fitting = [
        name
        for name, names in found.items()
        if (options.gpu and names & {"GPU", "gpu_rows"}) or (not options.gpu and "GPU" not in names)
    ]
    if unfit := [name for name in options.suites if name not in fitting]:
        kind = "no GPU part" if options.gpu else "a GPU part only: add --gpu"
        return f"bench: {', '.join(unfit)} has {kind}"
    if not fitting:
        return "bench: there is no suite with a GPU part yet" if options.gpu else "bench: no suite"
    return [name for name in fitting if not options.suites or name in options.suites]


def _run(name: str, gpu: bool, limit: float) -> tuple[list[Row], str]:
    """Measure one suite in a fresh process; return its rows, or what went wrong."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        result = Path(folder, "rows.json")
        command = [sys.executable, "-m", "bench", "--worker", name, str(int(gpu)), str(result)]
        process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            return [], f"{name}: not finished after {limit:g} s, ended"
        finally:
            _end(process)
        if code or not result.exists():
            how = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
            return [], f"{name}: {how}"
        return [Row(**row) for row in json.loads(result.read_text(encoding="utf-8"))], ""


def _end(process: subprocess.Popen) -> None:
    """Leave no process of a suite behind, whatever became of its first one."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _work(name: str, gpu: str, result: str) -> int:
    """Run in the suite's own process: measure, and leave the rows in the file ``result``."""
    try:
        module = importlib.import_module(f"bench.{name}")
        if name != module.SUITE:
            raise ValueError(f"bench/{name}.py: expected SUITE = {name!r}, got {module.SUITE!r}")
        if why := getattr(module, "lacks", str)():
            print(f"{name} is left out: {why}", flush=True)
            Path(result).write_text("[]", encoding="utf-8")
            return 0
        call = getattr(module, "gpu_rows", None) if gpu == "1" else None
        call = call or module.rows
        rows = call()
        for row in rows:
            if not isinstance(row, Row):
                raise TypeError(f"bench/{name}.py: expected helpers.records.Row, got {row!r}")
        if not rows:
            raise ValueError(f"bench/{name}.py: no rows")
    except Exception:
        traceback.print_exc()
        return 1
    text = json.dumps([asdict(row) for row in rows])
    Path(result).write_text(text, encoding="utf-8")
    return 0


def _record(suites: dict[str, list[Row]], command: str, gpu: bool) -> Record:
    if gpu:
        import torch  # noqa: F401  its versions of CUDA and cuDNN belong to the record
    return records.record(suites, command)


WIDTH = 100  # columns of a printed table


def table(rows: list[Row], width: int = WIDTH) -> str:
    """Return ``rows`` as text: ours, the peer's and the ratio side by side.

    Names, parameters and peers are folded to ``width`` columns, and what all rows share is said
    once; lists of values, long texts and the seventh digit are left to the record.
    """
    common = _common(rows)
    cases = []
    for row in rows:
        own = {key: value for key, value in row.parameters.items() if key not in common}
        cases.append((f"{row.name}  {_short(own)}".rstrip(), *_figures(row)))
    lines = [("", "ours", "peer", "ours ÷ peer"), *cases]
    most = [max(len(line[column]) for line in lines) for column in range(4)]
    most[2] = min(most[2], width // 3)
    most[0] = min(most[0], max(width - sum(most[1:]) - 6, 20))
    text = textwrap.wrap(f"every row: {_short(common)}", width) if _short(common) else []
    for line in lines:
        cells = [
            textwrap.wrap(cell, most[k], subsequent_indent="  ") for k, cell in enumerate(line)
        ]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            padded = (part.ljust(size) for part, size in zip(parts, most, strict=True))
            text.append("  ".join(padded).rstrip())
    return "\n".join(text)


def _common(rows: list[Row]) -> dict:
    """The parameters that are the same in all of several rows: said once."""
    if len(rows) < 2:
        return {}
    first, *others = (row.parameters for row in rows)
    return {k: v for k, v in first.items() if all(k in o and o[k] == v for o in others)}


def _short(parameters: dict) -> str:
    """The parameters that fit into a table, three digits of each."""
    shown = (
        f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in parameters.items()
        if not isinstance(value, list | dict)
    )
    return ", ".join(text for text in shown if len(text) <= 32)


def _figures(row: Row) -> tuple[str, str, str]:
    """Ours, the peer's and the ratio, as a table shows them."""
    peer = "–"
    if row.peer:
        there = "not here" if row.peer_value is None else f"{row.peer_value:.4g} {row.unit}"
        peer = f"{there} ({row.peer})"
    ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
    return f"{row.value:.4g} {row.unit}", peer, ratio


def _relative(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
