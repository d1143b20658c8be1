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
import contextlib
import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import asdict
from pathlib import Path

from helpers import records
from helpers.records import Row

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    if options.worker:
        return _work(*options.worker)
    there = suites(options.gpu)
    if unknown := [name for name in options.suites if name not in there]:
        known = ", ".join(there) or "none"
        print(f"bench: no suite {', '.join(unknown)}; there are: {known}", file=sys.stderr)
        return 1
    measured, broken = {}, []
    for name in options.suites or there:
        print(f"\n{name} ...", flush=True)
        begin = time.perf_counter()
        rows, trouble = _run(name, options.gpu, options.limit)
        spent = time.perf_counter() - begin
        if trouble:
            broken.append(name)
            print(trouble, flush=True)
        elif rows:
            measured[name] = rows
            print(f"{table(rows)}\n{name}: {len(rows)} rows in {spent:.0f} s", flush=True)
    if measured:
        if options.gpu:
            import torch  # noqa: F401  its versions of CUDA and cuDNN belong to the record
        command = shlex.join(["python", "-m", "bench", *arguments])
        folder = options.out or ROOT / "data" / ("gpu" if options.gpu else "bench")
        print(f"\nwritten: {records.write(records.make(measured, command), folder)}")
    for name in broken:
        print(f"bench: suite {name} FAILED (see above)", file=sys.stderr)
    return 1 if broken or not measured else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="default: every suite")
    parser.add_argument("--gpu", action="store_true", help="the GPU's part of each suite")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: data/bench, data/gpu")
    parser.add_argument(
        "--limit", type=float, default=1800.0, metavar="S", help="seconds a suite (default 1800)"
    )
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def suites(gpu: bool) -> list[str]:
    """Return the suites, or those with a part for a GPU, without importing any."""
    found = []
    for path in sorted(HERE.glob("[a-z]*.py")):
        text = path.read_text(encoding="utf-8")
        alone = re.search(r"^GPU = True", text, re.M)
        fits = alone or re.search(r"^def gpu_rows", text, re.M) if gpu else not alone
        if fits and re.search(r"^SUITE = ", text, re.M):
            found.append(path.stem)
    return found


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
            with contextlib.suppress(ProcessLookupError):  # with all that it started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code or not result.exists():
            how = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
            return [], f"{name}: {how}"
        return [Row(**row) for row in json.loads(result.read_text(encoding="utf-8"))], ""


def _work(name: str, gpu: str, result: str) -> int:
    """Run in the suite's own process: measure, and leave the rows in the file ``result``."""
    try:
        module = importlib.import_module(f"bench.{name}")
        why = getattr(module, "lacks", str)()
        if why:
            print(f"{name} is left out: {why}", flush=True)
        call = getattr(module, "gpu_rows", module.rows) if gpu == "1" else module.rows
        rows = [] if why else call()
        if not why and not rows:
            raise ValueError(f"bench/{name}.py: no rows")
    except Exception:
        traceback.print_exc()
        return 1
    Path(result).write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")
    return 0


def table(rows: list[Row]) -> str:
    """Return ``rows`` as text; lists of values and long texts are left to the record."""
    lines = []
    for row in rows:
        case = ", ".join(f"{key}={_short(value)}" for key, value in row.parameters.items())
        ours = f"{row.value:.4g} {row.unit}"
        if row.peer:
            there = "not here" if row.peer_value is None else f"{row.peer_value:.4g} {row.unit}"
            ratio = "" if row.ratio is None else f": × {row.ratio:.3g}"
            ours += f", {row.peer} {there}{ratio}"
        lines.append(f"{row.name} ({case}): {ours}" if case else f"{row.name}: {ours}")
    return "\n".join(lines)


def _short(value: object) -> str:
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 32 and not isinstance(value, list | dict) else "..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
