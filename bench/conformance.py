"""PyTorch's own distributed tests, on our backend ``mpi4py`` and on PyTorch's ``gloo``.

    python -m bench.conformance [--ranks 4]

A run is written to data/bench/: a row for each test, 1 if it passes, with both
outcomes and the reason of a failure.

The suite ships inside the installed package (``torch.testing._internal.distributed``). It is meant
to start its own processes; here the ranks are MPI's, for both backends alike, and each test runs on
all of them with a fresh default group. A test that fails, hangs or dies costs no other: the ranks
are started again for the next one.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import timedelta
from pathlib import Path

from bench.__main__ import table
from helpers import records
from helpers.machine.mpi import start_ranks
from helpers.paths import BENCH_RECORDS, ROOT
from helpers.waiting import doze

MODULE = "torch.testing._internal.distributed.distributed_test"
LIMIT = 120.0  # seconds for one test
GRACE = 20.0  # seconds that the other ranks get once one rank has failed a test
GROUP_TIMEOUT = 60.0  # seconds: of the default group, unless the suite asks for another


class _AsGloo(str):
    """A backend's name that also equals "gloo": so that no test for gloo is skipped for ours."""

    def __eq__(self, other):
        return str.__eq__(self, other) or other == "gloo"

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash("gloo")


def _load(backend: str):
    """Import the suite with BACKEND set to ``backend``; return a test class for MPI's ranks."""
    import importlib.util

    from mpi4py import MPI

    os.environ.setdefault("BACKEND", backend)
    os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())
    os.environ["WORLD_SIZE"] = str(MPI.COMM_WORLD.Get_size())
    spec = importlib.util.find_spec(MODULE)
    source = Path(spec.origin).read_text()
    wanted = 'BACKEND = os.environ["BACKEND"]'
    if source.count(wanted) != 1:
        raise RuntimeError(f"{MODULE} of this torch does not contain {wanted!r} once")
    module = importlib.util.module_from_spec(spec)
    module.__dict__["_AsGloo"] = _AsGloo
    sys.modules[MODULE] = module
    name = "str" if backend == "gloo" else "_AsGloo"
    source = source.replace(wanted, f"BACKEND = {name}({backend!r})")
    exec(compile(source, spec.origin, "exec", dont_inherit=True), module.__dict__)
    harness = MPI.COMM_WORLD.Dup()

    class OnMPI(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def _barrier(self, timeout=None, *args, **kwargs):
            doze(harness, timeout=timeout or 30)

    return module, OnMPI


def test_names(backend: str) -> list[str]:
    """All the tests that the installed suite has."""
    _, cls = _load(backend)
    return sorted(name for name in dir(cls) if name.startswith("test_"))


def names_in_a_process() -> list[str]:
    """The same list, found in a process of its own: importing the suite leaves traces."""
    code = (
        "from bench import conformance as c\nfrom helpers.machine import shared_memory\n"
        "print(*c.test_names('gloo'))\nshared_memory.unlink_own()  # it ends without MPI_Finalize"
    )
    listing = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"MASTER_ADDR": "127.0.0.1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    if listing.returncode:
        raise SystemExit(f"the suite cannot be imported:\n{listing.stderr}")
    return listing.stdout.split()


def run_test(module, cls, name: str, backend: str, store_file: str) -> tuple[str, str]:
    """Run one test on this rank; return ``(outcome, reason)`` of passed, failed or skipped."""
    import unittest

    import torch.distributed as dist
    from mpi4py import MPI
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_distributed import TEST_SKIPS

    skips = {skip.exit_code: skip.message for skip in TEST_SKIPS.values()}
    rank = MPI.COMM_WORLD.Get_rank()
    seconds = module.CUSTOM_PG_TIMEOUT.get(name, GROUP_TIMEOUT)
    environment = dict(os.environ)
    try:
        test = cls(name)
        test.rank, test.file_name = rank, store_file
        module.INIT_METHOD = f"file://{store_file}-again"
        dist.init_process_group(
            backend,
            init_method=f"file://{store_file}",
            world_size=MPI.COMM_WORLD.Get_size(),
            rank=rank,
            timeout=timedelta(seconds=seconds),
        )
        test._barrier()  # a rank that skips must not leave gloo while others still connect
        common_utils.set_rng_seed()
        getattr(test, name)()
        test._barrier()
        return "passed", ""
    except unittest.SkipTest as skip:
        return "skipped", str(skip)
    except SystemExit as end:
        if end.code in skips:
            return "skipped", skips[end.code]
        return ("passed", "") if end.code in (0, None) else ("failed", f"exit code {end.code}")
    except BaseException:
        return "failed", traceback.format_exc()
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        os.environ.clear()
        os.environ.update(environment)


def _rank_main(backend: str, folder: str) -> None:
    import torch.distributed as dist
    from mpi4py import MPI

    import helpers.torch_mpi as ours

    theirs = dist.monitored_barrier  # refuses all groups but gloo's; the suite has tests of it

    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        mine = isinstance(group or dist.group.WORLD, ours.ProcessGroupMPI4Py)
        (ours.monitored_barrier if mine else theirs)(group, timeout, wait_all_ranks)

    dist.monitored_barrier = monitored_barrier
    module, cls = _load(backend)
    rank = MPI.COMM_WORLD.Get_rank()
    with Path(folder, f"{rank}.jsonl").open("a", buffering=1) as log:
        for name in json.loads(Path(folder, "tests.json").read_text()):
            outcome, reason = run_test(module, cls, name, backend, f"{folder}/store-{name}")
            log.write(json.dumps([name, outcome, reason]) + "\n")
            MPI.COMM_WORLD.Barrier()
    MPI.COMM_WORLD.Barrier()


def run_suite(backend: str, tests: list[str], ranks: int) -> dict[str, tuple[str, str]]:
    """Run ``tests`` on ``ranks`` MPI ranks; return name → (outcome, reason)."""
    results: dict[str, tuple[str, str]] = {}
    while left := [name for name in tests if name not in results]:
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            results |= _run_job(backend, left, ranks, folder)
    return results


def _run_job(backend: str, tests: list[str], ranks: int, folder: str) -> dict:
    Path(folder, "tests.json").write_text(json.dumps(tests))
    command = [sys.executable, "-m", "bench.conformance", "--rank-of", backend, "--folder", folder]
    environment = {"TEMP_DIR": folder, "PYTHONPATH": str(ROOT)}
    environment |= {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": str(ranks)}
    # "mpi" is what the suite asks before it skips tests of sub-groups on fewer than 8 ranks.
    environment |= {"BACKEND": "mpi", "INIT_METHOD": f"file://{folder}/init"}
    Path(folder, "test_dir").mkdir()
    with start_ranks(ranks, command, folder, cwd=ROOT, env=environment) as job:
        done: dict[str, tuple[str, str]] = {}
        since = time.monotonic()
        while len(done) < len(tests):
            exited = job.poll() is not None
            time.sleep(0.05)
            reports = _reports(folder, ranks)
            current = tests[len(done)]
            outcomes = reports.get(current, {})
            elapsed = time.monotonic() - since
            failed = [reason for outcome, reason in outcomes.values() if outcome == "failed"]
            if len(outcomes) == ranks:
                done[current] = _verdict(outcomes)
            elif exited or elapsed > LIMIT or (failed and elapsed > GRACE):
                reason = "a rank died" if exited else f"no end within {elapsed:.0f} s"
                done[current] = "failed", (failed or [reason])[0]
            else:
                continue
            since, outcome = time.monotonic(), done[current][0]
            print(f"{backend:8s} {outcome:8s}{elapsed:7.2f} s  {current}", flush=True)
            if outcome == "failed":  # it may have left its ranks in any state: take fresh ones
                break
        if len(done) == len(tests):
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(10)
    return done


def _reports(folder: str, ranks: int) -> dict[str, dict[int, tuple[str, str]]]:
    reports: dict[str, dict[int, tuple[str, str]]] = collections.defaultdict(dict)
    for rank in range(ranks):
        path = Path(folder, f"{rank}.jsonl")
        for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
            if line.endswith("\n"):
                name, *report = json.loads(line)
                reports[name][rank] = tuple(report)
    return reports


def _verdict(outcomes: dict[int, tuple[str, str]]) -> tuple[str, str]:
    return min(outcomes.values(), key=lambda one: ("failed", "passed", "skipped").index(one[0]))


def rows(results: dict[str, dict[str, tuple[str, str]]], ranks: int) -> list[records.Row]:
    """One row for each test, and one for each count: ours as value, gloo's as peer_value."""
    ours, gloo = results["mpi4py"], results["gloo"]
    found = []
    for wanted in ("passed", "failed", "skipped"):
        mine, theirs = (sum(o == wanted for o, _ in part.values()) for part in (ours, gloo))
        found.append(records.Row(wanted, mine, "tests", "gloo", theirs, {"ranks": ranks}))
    for name, (outcome, reason) in ours.items():
        other, why = gloo[name]
        about = {"ranks": ranks, "ours": outcome, "gloo": other}
        if outcome != "passed":
            about["our reason"] = _last_line(reason)
        if other == "failed":
            about["gloo's reason"] = _last_line(why)
        passes = float(outcome == "passed"), float(other == "passed")
        found.append(records.Row(name, passes[0], "1", "gloo", passes[1], about))
    return found


def _last_line(reason: str) -> str:
    """The line of a traceback that says what went wrong; PyTorch adds advice below it."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|SkipTest)\b", line)]
    return (errors or lines or [""])[-1][:300]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        _rank_main(options.rank_of, options.folder)
        return
    names = names_in_a_process()
    results = {name: run_suite(name, names, options.ranks) for name in ("mpi4py", "gloo")}
    made = rows(results, options.ranks)
    print(table([row for row in made if row.value != row.peer_value]))
    command = f"python -m bench.conformance --ranks {options.ranks}"
    written = records.write(records.make({"conformance": made}, command), BENCH_RECORDS)
    print("written:", written)


if __name__ == "__main__":
    main()
