"""A one-minute test of everything the course runs on, and a table of what this machine has."""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from IPython.utils.capture import capture_output

from helpers.machine import gpus, machine, versions
from helpers.machine.compilers import CompilerError, compiler_version, find_compiler
from helpers.paths import ROOT

WORKS, ABSENT, FAILS = "works", "not here", "FAILS"
PROGRAM = """
#include <iostream>
#include <numeric>
#include <vector>
int main() {
    std::vector<long> numbers(1000);
    std::iota(numbers.begin(), numbers.end(), 1);
    std::cout << std::accumulate(numbers.begin(), numbers.end(), 0L);
}
"""
DGL_PROGRAM = "import dgl; print(dgl.graph(([0, 1], [1, 2])).in_degrees().tolist())"
TIME_LIMIT = 60.0  # seconds for one test that runs a program


@dataclass(frozen=True)
class Finding:
    """What one test found: ``status`` is WORKS, ABSENT or FAILS; ``seconds`` is what it took."""

    name: str
    status: str
    detail: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.name:18} {self.status:9} {self.seconds:5.1f} s   {self.detail}"


class _AbsentError(Exception):
    """An optional part is missing; the message says what is skipped."""


def checkup(ranks: int = 4) -> Iterator[Finding]:
    """Yield a :class:`Finding` for each part of the course's environment, as soon as it is tested.

    Nothing is raised: a test that fails is a finding that says what to do. ``ranks`` is the number
    of MPI ranks to start.
    """
    tests = {
        "Python": _python,
        "NumPy and SciPy": _numpy,
        "PyTorch": _torch,
        "pictures": _pictures,
        "C++ compiler": _compiler,
        "MPI ranks": lambda: _ranks(ranks),
        "several hosts": _hosts,
        "GPU": _gpu,
        "DGL": _dgl,
    }
    for name, test in tests.items():
        yield _run(name, test)


def report(ranks: int = 4) -> list[Finding]:
    """Show :func:`checkup` as a table that grows by a row with each test; return the findings."""
    from IPython.display import Markdown, display

    findings: list[Finding] = []
    handle = display(Markdown("Testing ..."), display_id=True)
    for finding in checkup(ranks):
        findings.append(finding)
        rows = [
            f"| {one.name} | {one.status} | {one.seconds:.1f} | {one.detail} |" for one in findings
        ]
        failed = [one.name for one in findings if one.status == FAILS]
        took = sum(one.seconds for one in findings)
        verdict = f"{len(findings)} tests, {took:.0f} s; failed: {', '.join(failed) or 'none'}."
        head = ["| part | result | seconds | what was seen |", "|---|---|---|---|"]
        if handle is not None:
            handle.update(Markdown("\n".join([*head, *rows, "", verdict])))
    return findings


def _run(name: str, test) -> Finding:
    started = time.perf_counter()
    try:
        with capture_output():  # a cluster says that it is ready
            status, detail = WORKS, test()
    except _AbsentError as error:
        status, detail = ABSENT, str(error)
    except Exception as error:  # whatever is wrong with a machine, the other tests still run
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        status, detail = FAILS, f"{type(error).__name__}: {first}"
    return Finding(name, status, detail, time.perf_counter() - started)


def describe() -> str:
    """Return a Markdown table of what this machine has (no GPU and no compiler are said too)."""
    found = machine()
    free = shutil.disk_usage(os.getcwd()).free / 2**30
    cards = [f"{card['name']}, {card['memory_gib']} GiB" for card in found["gpus"]]
    rows = {
        "system": found["os"],
        "processor": f"{found['cpu']} ({found['architecture']})",
        "cores this Python may use": found["cores"],
        "memory": f"{found['memory_gib']} GiB",
        "free disk": f"{free:.0f} GiB",
        "MPI": found["mpi"] or "none: the ranks need one",
        "C++ compiler": found["compiler"] or "none",
        "GPU": "; ".join(cards) or "none: the course runs without",
    }
    lines = ["| | this machine |", "|---|---|"]
    return "\n".join(lines + [f"| {key} | {value} |" for key, value in rows.items()])


def installed() -> str:
    """Return the versions of Python and of the course's packages, as a line of Markdown."""
    return " · ".join(f"{name} **{version}**" for name, version in versions().items())


def _expect(right: bool, problem: str) -> None:
    if not right:
        raise RuntimeError(problem)


def _python() -> str:
    version = sys.version_info[:3]
    shown = ".".join(map(str, version))
    _expect((3, 11) <= version < (3, 14), f"Python {shown}, and the course needs 3.11 to 3.13")
    where = "the course's own" if Path(sys.prefix) == ROOT / ".venv" else sys.executable
    return f"{shown}, {where}"


def _numpy() -> str:
    import numpy as np
    from scipy import sparse

    matrix = sparse.random_array((50, 50), density=0.2, rng=np.random.default_rng(0))
    product = matrix @ np.ones(50)
    _expect(np.allclose(product, matrix.toarray().sum(axis=1)), "a sparse product is wrong")
    return f"NumPy {np.__version__}, SciPy {metadata.version('scipy')}: a sparse product is right"


def _torch() -> str:
    import torch

    x = torch.linspace(0, 1, 64, dtype=torch.float64, requires_grad=True)
    (x**3).sum().backward()
    _expect(torch.allclose(x.grad, 3 * x.detach() ** 2), "a gradient is wrong")
    return f"{torch.__version__}: a gradient is right"


def _pictures() -> str:
    import matplotlib
    from matplotlib.figure import Figure

    figure, file = Figure(figsize=(1, 1)), io.BytesIO()
    figure.subplots().plot([0, 1], [0, 1])
    figure.savefig(file, format="png")
    _expect(file.getvalue().startswith(b"\x89PNG"), "matplotlib drew no picture")
    _expect(importlib.util.find_spec("ipywidgets") is not None, "ipywidgets is not installed")
    return f"Matplotlib {matplotlib.__version__}, ipywidgets {metadata.version('ipywidgets')}"


def _compiler() -> str:
    try:
        tool = find_compiler("C++")
    except CompilerError:
        raise _AbsentError(
            "install g++ or clang++; without it 03, 05, 07, 14, 15 skip their kernels"
        ) from None
    with tempfile.TemporaryDirectory(prefix="checkup-") as folder:
        source, program = Path(folder, "sum.cpp"), Path(folder, "sum")
        source.write_text(PROGRAM, encoding="utf-8")
        _output([tool, "-O2", str(source), "-o", str(program)])
        _expect(_output([str(program)]) == "500500", "a compiled program prints a wrong sum")
    return f"{compiler_version(tool)}: a compiled program gives the right sum"


def _ranks(n: int) -> str:
    from helpers.cluster import Cluster

    def add_up():
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        return world.allreduce(world.Get_rank()), os.getpid()

    with Cluster(n=n) as cluster:
        results = cluster.run(add_up)
    _expect({total for total, _ in results} == {n * (n - 1) // 2}, f"the ranks add up to {results}")
    processes = len({pid for _, pid in results} | {os.getpid()}) - 1
    _expect(processes == n, f"{n} ranks are only {processes} processes")
    return f"{n} ranks, {n} processes of their own, add up their numbers to {results[0][0]}"


def hosts() -> Finding:
    """Return whether this machine can be several hosts, linked by a network: :func:`checkup`'s."""
    return _run("several hosts", _hosts)


def _hosts(rate: float = 100e6, nbytes: int = 1_000_000) -> str:
    from helpers.cluster import Cluster, Network, StartError

    def send_and_name():
        from mpi4py import MPI

        world, box = MPI.COMM_WORLD, bytearray(nbytes)
        for _ in range(2):  # the first message makes the connection, and is not counted
            world.Barrier()
            began = time.perf_counter()
            (world.Send if world.Get_rank() == 0 else world.Recv)(box, 1 - world.Get_rank())
        return os.uname().nodename, nbytes / (time.perf_counter() - began)

    try:
        with Cluster(2, network=Network(2, rate=rate)) as cluster:
            (first, _), (second, arrived) = cluster.run(send_and_name)
    except StartError as error:
        why = str(error).splitlines()[0]
        raise _AbsentError(f"{why}; what needs a network is skipped") from None
    _expect(first != second, f"two hosts have one name, {first}")
    limit = rate / 8 / 1e6
    _expect(
        arrived / 1e6 < 1.2 * limit,
        f"{arrived / 1e6:.1f} MB/s went through a link of {limit:g}: it was not used",
    )
    return f"2 hosts, a link of {limit:g} MB/s between them: {arrived / 1e6:.1f} MB/s arrive"


def _gpu() -> str:
    cards = gpus()
    if not cards:
        raise _AbsentError("the course runs without; cells that need one say so")
    import torch

    if not torch.cuda.is_available():
        raise _AbsentError(f"{cards[0]['name']} is here, but this PyTorch is built without CUDA")
    x = torch.arange(100.0, device="cuda")
    _expect(float(x.sum()) == 4950.0, "the GPU gives a wrong sum")
    return f"{torch.cuda.get_device_name()}: a sum on the GPU is right"


def _dgl() -> str:
    if importlib.util.find_spec("dgl") is None:
        raise _AbsentError("for Python 3.11 only; one of the versions of PageRank in 06 is skipped")
    # a process of its own: DGL takes seconds to load and writes to stderr
    said = _output([sys.executable, "-c", DGL_PROGRAM], {"DGLBACKEND": "pytorch"})
    _expect(said.endswith("[0, 1, 1]"), f"a graph has the wrong degrees: {said}")
    return f"{metadata.version('dgl')}: a small graph has the right degrees"


def _output(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Return what a program prints; raises RuntimeError with its last line if it fails."""
    done = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise RuntimeError(f"{Path(command[0]).name}: {lines[-1]}")
    return done.stdout.strip()
