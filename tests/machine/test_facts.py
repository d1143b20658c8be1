"""Cores and memory: the tightest of what system, affinity and control groups say."""

import os
import subprocess
import sys

import pytest

from helpers.machine import cgroup, facts


@pytest.mark.parametrize(
    ("quota", "cores"), [(1.0, 1), (0.2, 1), (1.6, 2), (1e6, None), (None, None)]
)
def test_a_quota_limits_the_cores(quota, cores, monkeypatch):
    monkeypatch.setattr(cgroup, "cpu_limit", lambda: quota)
    everything = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    assert facts.usable_cores() == min(cores or everything, everything)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_affinity_limits_the_cores():
    code = (
        "import os, helpers.machine as m; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(m.usable_cores())"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "1"


def test_memory_is_bytes_and_limited(monkeypatch):
    assert 0 < facts.free_memory() < facts.memory_bytes()
    monkeypatch.setattr(cgroup, "memory_limit", lambda: 1000)
    monkeypatch.setattr(cgroup, "memory_left", lambda: 10)
    assert (facts.memory_bytes(), facts.free_memory()) == (1000, 10)


def test_names_are_tidied():
    from helpers.machine.programs import tidy

    assert tidy("Intel(R) Xeon(R) CPU  E5 @ 2.30GHz") == "Intel Xeon E5"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "processor : 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name : A\n"
            "flags : fpu avx avx2 avx512f avx512_bf16\n\nprocessor : 1\nmodel : 18\n",
            "family 25, model 17, AVX-512, bf16",
        ),
        ("cpu family : 6\nmodel : 85\nflags : avx avx2\n", "family 6, model 85, AVX2"),
        ("processor : 0\nFeatures : fp asimd bf16\n", "NEON, bf16"),
        ("", ""),
    ],
)
def test_processors_of_one_name_are_told_apart(monkeypatch, said, expected):
    monkeypatch.setattr(facts.Path, "read_text", lambda self, **_: said)
    assert facts.cpu_details() == expected
