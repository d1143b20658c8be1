"""The model, curves, kernels in C, design counts and ceilings of helpers.roofline."""

import json
import os
from collections import Counter
from time import sleep
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from helpers.machine import usable_cores
from helpers.roofline import (
    Point,
    curves,
    design,
    kernels,
    matmul,
    measuring,
    place,
    probes,
    under_roof,
)
from helpers.roofline import ceilings as ceilings_module
from helpers.roofline.ceilings import Ceilings, ceilings
from helpers.roofline.curves import ends, implausible, implausible_peaks
from helpers.roofline.measuring import _settled
from helpers.roofline.system import instruction_sets


def test_a_point_below_its_roof():
    point = Point("p", flops=100, bytes=50, seconds=2)
    assert (point.intensity, point.performance, point.bandwidth) == (2, 50, 25)
    assert point.share(peak=1000, bandwidth=50) == 0.5
    assert point.share(peak=60, bandwidth=50) == 50 / 60


def test_place_measures_and_refuses():
    calls = []
    point = place("x", lambda: calls.append(1), 10, 5, time_limit=0.1)
    assert calls
    assert point.seconds > 0
    assert (point.threads, place("y", lambda: None, 1, 1, 3, time_limit=0.1).threads) == (1, 3)
    with pytest.raises(ValueError, match="bytes > 0"):
        place("x", lambda: None, 1, 0, time_limit=1)


def test_one_thread_is_timed_by_what_it_computes_and_several_by_the_clock_on_the_wall():
    one, two = (place("x", lambda: sleep(0.01), 1, 1, n, time_limit=0.1) for n in (1, 2))
    assert one.seconds < 0.005
    assert two.seconds > 0.009


def peak(dtype, flops, threads=1, isa="x"):
    return {"isa": isa, "dtype": dtype, "threads": threads, "flops": flops, "spread": 0.1}


def row(level, rate, threads=1, kind="read"):
    named = {"level": level, "kind": kind, "threads": threads, "bytes": 4096}
    return named | {"rate": rate, "spread": 0.0}


def roofs(peaks, rows, skipped=()):
    """Ceilings that are these peaks and bandwidths."""
    return Ceilings("m", "never", 2, 1e9, peaks, rows, [], [], [], None, None, 1.0, [*skipped])


def slow_roof(monkeypatch, peaks=(), memories=()):
    """Ceilings of one thread, too low; what each measurement made again returns: see the others."""
    found = {"flops": iter(peaks), "bandwidth": iter(memories)}
    for name, rates in found.items():
        monkeypatch.setattr(probes, name, lambda *_, rates=rates, **__: [next(rates)])
    return roofs([peak("float32", 1e9, isa=instruction_sets()[0].name)], [row("memory", 1e8)])


def times(*seconds):
    """A kernel of 1 flop/byte and one of 100, of which each measurement takes so long."""
    left = iter(seconds)
    return lambda: [Point(name, 1e6, moved, next(left)) for name, moved in (("a", 1e6), ("b", 1e4))]


def test_a_kernel_above_a_roof_has_the_roof_measured_again(monkeypatch):
    machine = slow_roof(monkeypatch, memories=[4e8])
    low, high = under_roof(machine, times(4e-3, 2e-3, 3e-3, 3e-3))  # a reaches 2.5 times its roof
    assert machine.roof(1) == (1e9, 4e8)
    assert (low.seconds, high.seconds) == (3e-3, 2e-3)  # the best of two rounds
    assert not low.twice
    assert low.share(*machine.roof(1)) < 1


def test_what_stays_above_its_roof_is_marked_and_the_roof_stays_as_high_as_it_was(monkeypatch):
    machine = slow_roof(monkeypatch, peaks=[3e9], memories=[9e7] * 3)
    points = under_roof(machine, times(*[4e-3, 4e-4] * 4))
    assert [p.twice for p in points] == [True, False]  # b's roof was too low, a's is not known
    assert machine.roof(1) == (3e9, 1e8)


def test_a_kernel_below_its_roof_is_timed_as_often_as_asked(monkeypatch):
    machine = slow_roof(monkeypatch)  # measured again it would have no rate to return
    points = under_roof(machine, times(1, 2, 3, 1, 2, 4), rounds=3)
    assert [p.seconds for p in points] == [1, 1]


def test_a_raised_roof_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine = slow_roof(monkeypatch, memories=[3e8, 7e8])
    machine.raise_roof(1, "memory")
    assert not list(tmp_path.rglob("*.json"))  # it was never kept: another's is not overwritten
    ceilings_module._keep(machine, ceilings_module._file())
    machine.raise_roof(1, "memory")
    assert ceilings().roof(1) == machine.roof(1) == (1e9, 7e8)
    assert machine.lines(1) == ({"fp32, 1 thread": 1e9}, {"memory, 1 thread": 7e8})


def test_levels_of_a_made_up_curve():
    sizes = [2.0**k for k in range(12, 28)]
    truth = [(2**15, 1.0), (2**19, 4.0), (2**24, 15.0), (float("inf"), 100.0)]
    rng = np.random.default_rng(0)
    times = [next(t for end, t in truth if s <= end) * rng.uniform(1, 1.1) for s in sizes]
    times[3] *= 1.5  # one disturbed sample
    found = curves.levels(sizes, times, 4)
    for one, (end, time) in zip(found, truth, strict=True):
        assert one["capacity"] == pytest.approx(end * 2**0.5, rel=0.01)
        assert one["seconds"] == pytest.approx(time, rel=0.12)
        assert 1 <= one["rise"] <= (1.65 if time == 1 else 1.1)  # the first has the disturbed one


def test_a_piece_of_a_slope_says_how_much_it_rises():
    sizes = [4096 * 2**k for k in range(12)]
    times = [1, 1, 1, 1, 4, 4, 4, 4, 9, 18, 36, 72]  # no third plateau
    flat, second, slope, end = curves.levels(sizes, times, 4)
    assert flat["rise"] == second["rise"] == 1
    assert slope["rise"] == pytest.approx(2)
    assert end["rise"] == pytest.approx(2)
    with pytest.raises(ValueError, match="at least 8"):
        curves.levels([1, 2, 3], [1, 1, 1], 4)


def test_first_jump():
    assert curves.first_jump([8, 16, 32, 64, 128], [1, 1.1, 1, 2, 2.1]) == 64
    assert curves.first_jump([8, 16, 32, 64, 128], [1, 3, 1, 2, 2.1]) == 64  # 16 was noise
    assert curves.first_jump([8, 16, 32], [1, 1.5, 1.5]) is None
    assert curves.first_jump([1, 2, 3], [1, 1, 1]) is None


@pytest.mark.parametrize("way", [4096, 16384])
def test_ways_are_the_caches_and_not_the_tlbs(monkeypatch, way):
    def latency(size, stride, second=0, **_):  # twelve ways; a TLB of 16 sets of six pages
        lines = [slot * stride for slot in range(size // stride)]
        most = [
            max(Counter(place % span // unit for place in lines).values())
            for span, unit in ((way, 64), (16 * 4096, 4096))
        ]
        return [1.0 + 3.0 * (most[0] > 12) + 2.0 * (most[1] > 6) + (second >= 64)]

    monkeypatch.setattr(probes, "latency", latency)
    assert measuring._line_and_ways(48 * 1024)[1] == 12


def test_first_full_step():
    offsets = [8, 16, 32, 64, 128, 192, 256]
    assert curves.first_full_step(offsets, [5.7, 5.7, 5.7, 7.4, 7.5, 7.4, 7.4]) == 64
    # Lines of 128 bytes whose slots begin in the middle of every other line: half a step at 64.
    assert curves.first_full_step(offsets, [5.7, 5.7, 5.7, 6.6, 7.5, 7.4, 7.4]) == 128
    assert curves.first_full_step(offsets, [5.7, 5.7, 5.8, 5.7, 5.8, 5.7, 5.9]) is None
    assert curves.first_full_step(offsets, [5.7, 9.0, 5.7, 5.7, 7.5, 7.4, 7.4]) is None  # noise


@pytest.mark.parametrize("n", [48, 50, 1, 336])  # the last is beyond one depth of "tiled"
def test_every_product_is_right(n):
    rng = np.random.default_rng(n)
    a, b = (rng.random((n, n), dtype=np.float32) for _ in range(2))
    made = matmul.versions(n, block=16)
    assert ("tiled" in made) == (n % 48 == 0)
    for name, multiply in made.items():
        for _ in range(2):
            np.testing.assert_allclose(multiply(a, b), a @ b, rtol=1e-4, err_msg=name)


def test_products_that_differ_in_three_causes_are_right_too():
    rng = np.random.default_rng(3)
    a, b = (rng.random((64, 64), dtype=np.float32) for _ in range(2))
    made = matmul.causes(a, b)
    assert len(made) == 8
    for kind, multiply in made.items():
        np.testing.assert_allclose(multiply(), a @ b, rtol=1e-4, err_msg=str(kind))
    with pytest.raises(ValueError, match="multiple of 64; got 40"):
        matmul.causes(a[:40, :40], b[:40, :40])


def test_a_rate_that_cannot_be_is_found():
    good = [row("L1", 200e9), row("L2", 100e9), row("memory", 20e9), row("L1", 400e9, 2)]
    assert implausible(good) == []
    slow = row("L1", 0.5e6, 2)
    assert implausible([*good[:3], slow]) == [slow]  # two threads, less than one
    below = row("L2", 15e9)
    assert implausible([good[0], below, good[2]]) == [below]  # a cache slower than memory
    assert implausible([row("L1", 90e9), row("L2", 100e9)]) == []  # within what a sample varies
    assert implausible([row("L1", 9e9, kind="copy"), row("L2", 100e9)]) == []  # another kind
    half = row("memory", 34e9, 2)
    assert implausible([half, row("memory", 74e9, 2, "copy")]) == [half]  # a copy reads as well


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores are chosen on Linux only")
def test_threads_are_let_go_after_they_were_measured_on_cores_of_their_own(monkeypatch):
    def allowed():
        return [os.sched_getaffinity(int(task)) for task in os.listdir("/proc/self/task")]

    before, during = {frozenset(cores) for cores in allowed()}, []
    spent = probes.time.perf_counter

    def looking():
        during.extend(map(frozenset, allowed()))
        return spent()

    monkeypatch.setattr(probes.time, "perf_counter", looking)
    probes.bandwidth("read", 1 << 20, 2, sample=0.001, repeats=2)
    assert {frozenset(cores) for cores in allowed()} == before
    if usable_cores() > 1:
        assert {len(cores) for cores in during} >= {1}


def test_a_peak_that_cannot_be_is_found():
    good = [peak("float32", 100e9), peak("float64", 50e9), peak("float32", 190e9, 2)]
    assert implausible_peaks(good) == []
    slow = peak("float32", 60e9, 2)
    assert implausible_peaks([*good[:2], slow]) == [slow]  # two threads, less than one
    below = peak("float32", 30e9)
    assert implausible_peaks([below, good[1]]) == [below]  # less than in double precision
    assert implausible_peaks([peak("float32", 10e9), peak("float64", 11e9)]) == []  # scalar: alike
    assert implausible_peaks([good[0], peak("float32", 55e9, isa="wider")]) == []  # a slower clock


def test_what_cannot_be_is_measured_again_and_then_left_out_by_name():
    def settled(second_try):
        rows = [peak("float32", 100e9), peak("float64", 50e9), peak("float64", 5e9, 2)]
        session = SimpleNamespace(skipped=[])
        measured = lambda one: one | {"flops": second_try}  # noqa: E731
        return _settled(session, rows, "flops", implausible_peaks, measured), session.skipped

    kept, skipped = settled(95e9)
    assert [one["flops"] for one in kept] == [100e9, 50e9, 95e9]
    assert skipped == []
    kept, skipped = settled(2e9)
    assert [one["threads"] for one in kept] == [1, 1]
    assert skipped == ["x float64, 2 threads: 5 Gflop/s cannot be"]
    # what was left out breaks nothing that reads the rest
    made = roofs(kept, [], skipped)
    assert made.peak("float64") == 50e9
    assert made.theory() == []  # of instruction sets that this processor has
    assert made.cache_roofs() == {}


def test_every_roof_is_the_highest_of_the_three_loops():
    rows = [row("L1", 3e11), row("L1", 4e11, kind="triad"), row("memory", 1e10)]
    made = roofs([peak("float32", 1e11)], [*rows, row("memory", 2e10, kind="triad")])
    assert made.cache_roofs() == {"L1": 4e11}
    assert made.roof(1) == (1e11, 2e10)


def test_memory_is_read_by_one_thread_even_when_the_time_is_up(monkeypatch):
    monkeypatch.setattr(measuring, "LIMIT", -1.0)
    monkeypatch.setattr(measuring.probes, "bandwidth", lambda *_, **__: [1e9])
    session = measuring._Session(2, measuring._Bar(1, shown=False), quick=True)
    made = measuring._bandwidths(session, [1, 2], [32768.0], 1 << 20)
    assert [(b["level"], b["kind"], b["threads"]) for b in made] == [("memory", "read", 1)]


def test_a_latency_above_that_of_a_larger_working_set_is_measured_again(monkeypatch):
    tried = []

    def latency(size, **_):
        tried.append(size)
        return [4e-9 if tried in ([1, 2], [1, 2, 3]) else 2e-9]  # disturbed twice

    monkeypatch.setattr(measuring.probes, "latency", latency)
    session = measuring._Session(2, measuring._Bar(1, shown=False), quick=True)
    assert measuring._latency(session, [1, 2, 3, 4]) == [[1, 2e-9], [2, 2e-9], [3, 2e-9], [4, 2e-9]]
    assert tried == [1, 2, 3, 4, 2, 3]


def test_caches_end_where_the_curve_says_unless_the_system_contradicts():
    reported = [{"size": 32 << 10}, {"size": 1 << 20}, {"size": 32 << 20}]

    def found(*capacities):
        return [{"capacity": c} for c in (*capacities, float("inf"))]

    assert ends(found(30e3, 9e5, 12e6), reported) == [30e3, 9e5, 12e6]
    # a rising flank behind L2 taken for L3
    assert ends(found(30e3, 9e5, 1.7e6), reported) == [30e3, 9e5, 32 << 20]
    assert ends(found(30e3, 9e5), reported) == [32 << 10, 1 << 20, 32 << 20]
    assert ends(found(30e3, 9e5), []) == [30e3, 9e5]


def test_the_roof_is_that_of_as_many_threads():
    peaks = [peak("float32", 50e9 * t, t) for t in (1, 2)]
    made = roofs(peaks, [row("memory", 10e9 * t, t) for t in (1, 2)])
    assert made.roof(1) == (50e9, 10e9)
    assert made.roof(2) == (100e9, 20e9)
    made.bandwidths.pop()  # could not be measured
    assert made.roof(2) == (100e9, 10e9)
    made.bandwidths.append(row("memory", 25e9, 2, "copy"))
    assert made.roof(2) == (100e9, 25e9)  # no kernel is above the roof because it copies


def test_products_refuse_what_does_not_fit():
    multiply = matmul.versions(8)["ijk"]
    good = np.zeros((8, 8), dtype=np.float32)
    for bad in (good.astype(float), good[:4, :4], good.T[::-1].T):
        with pytest.raises(ValueError, match="contiguous float32"):
            multiply(good, bad)
    with pytest.raises(ValueError, match="n=0"):
        matmul.versions(0)


def test_elementwise_kernels_compute_what_they_say():
    library = kernels._elementwise()
    n = 1003
    x, z, w, y = kernels._arrays(n, 4)
    before = y.copy()
    library.axpy(n, 2.0, x.ctypes.data, y.ctypes.data)
    np.testing.assert_allclose(y, before + 2 * x, rtol=1e-6)
    assert library.dot(n, x.ctypes.data, z.ctypes.data) == pytest.approx(float(x @ z), rel=1e-4)
    library.fused(n, 2.0, x.ctypes.data, z.ctypes.data, w.ctypes.data, y.ctypes.data)
    np.testing.assert_allclose(y, np.maximum(2 * x + z, 0) * w, rtol=1e-5, atol=1e-6)
    again, t = np.zeros_like(y), np.zeros_like(y)
    library.passes(n, 2.0, *(v.ctypes.data for v in (x, z, w, again, t)))
    np.testing.assert_allclose(again, y, rtol=1e-6)
    np.testing.assert_allclose(kernels.unfused(n)[1](), y, rtol=1e-5, atol=1e-6)
    moved = [make(n)[3] / n for make in (kernels.unfused, kernels.passes, kernels.fused)]
    assert moved == [40, 40, 16]


def test_a_layer_counts_the_bytes_of_its_format():
    for dtype, size in ((torch.float64, 8), (torch.float32, 4), (torch.bfloat16, 2)):
        name, call, flops, moved, _ = kernels.layer(3, 16, dtype)
        # 16 × 16 weights, 3 × 16 numbers in and 3 × 16 out
        assert (name, flops, moved) == ("B = 3", 2 * 3 * 256, size * (256 + 48 + 48))
        assert call().shape == (3, 16)
        assert call().dtype == dtype
    formats = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    errors = [kernels.layer_error(3, 64, dtype) for dtype in formats]
    assert errors[0] == 0 < errors[1] < 1e-5 < errors[2] < errors[3] < 0.02


def test_convolution_counts_by_hand():
    layer = design.Layer(inputs=8, outputs=4, kernel=3, stride=1, groups=2, side=5)
    # 4 output channels × 25 places × (8/2 channels × 9 weights) × 2
    assert layer.flops == 4 * 25 * 36 * 2


def test_convolution_counts_agree_with_torch():
    for layer, _, _ in design.variants(design.Layer(16, 16, side=9)).values():
        module, x = layer.build()
        assert module.weight.numel() == layer.parameters
        assert module(x).numel() == layer.output


def test_the_tables_factor_for_groups_is_off_by_one_power():
    base = design.Layer()
    grouped, _, stated = design.variants(base)["4 groups"]
    assert stated == 1 / 16
    assert grouped.flops / base.flops == 1 / 4
    for name in ("kernel 3 → 1", "stride 2"):
        layer, _, stated = design.variants(base)[name]
        assert layer.flops / base.flops == pytest.approx(stated)


def test_shuffle():
    x = torch.arange(6.0).reshape(1, 6, 1, 1)
    assert design.shuffle(x, 2).flatten().tolist() == [0, 3, 1, 4, 2, 5]
    with pytest.raises(ValueError, match="4 groups, 6 channels"):
        design.shuffle(x, 4)


@pytest.mark.parametrize("bad", [{"groups": 3}, {"kernel": 0}])
def test_bad_layers(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))}={next(iter(bad.values()))}"):
        design.Layer(**bad)


def test_ceilings_are_measured_kept_and_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one = ceilings(quick=True, progress=False)
    assert one.seconds < 75
    assert 1e8 < one.frequency < 1e10
    assert one.peak("float32", 1) > 1e8
    if one.skipped:
        pytest.skip(f"this machine is too busy to measure within the limit: {one.skipped}")
    assert one.bandwidths[-1]["level"] == "memory"
    assert one.latency == sorted(one.latency)
    assert len(one.theory()) == 2 * len({p["isa"] for p in one.peaks})
    again = ceilings(quick=True, progress=False)
    assert again == one  # read, not measured
    kept = next((tmp_path / "parallel-deep-learning").glob("ceilings-*.json"))
    kept.write_text(json.dumps({"cut": "off"}))
    assert ceilings(quick=True, progress=False).date >= one.date  # measured anew


def test_a_sample_that_only_waits_is_not_taken_for_the_work(monkeypatch):
    now, asked = [0.0], []

    # A microsecond of work behind five milliseconds of waiting for a core.
    def run(times):
        asked.append(times)
        now[0] += 0.005 + 1e-6 * times

    monkeypatch.setattr(probes.time, "perf_counter", lambda: now[0])
    rates = probes.samples_of(run, 1, threads=2, sample=0.004, repeats=3)
    times = asked[-1]
    assert asked[-3:] == [times] * 3
    assert times > 5000, "the work takes longer than the wait"
    assert rates == pytest.approx([times / (0.005 + 1e-6 * times)] * 3)


def test_probes_refuse_what_they_cannot_measure():
    with pytest.raises(ValueError, match="kind='write'"):
        probes.bandwidth("write", 1 << 20)
    with pytest.raises(ValueError, match="working_set=8"):
        probes.bandwidth("read", 8)


def test_the_chase_visits_every_slot_once():
    buffer = probes.aligned(4096 * 8)
    start = buffer.ctypes.data
    probes._memory().link_cycle(start, 512, 64, 0, 7)
    links, place, seen = buffer.view(np.uint64), start, set()
    for _ in range(512):
        seen.add(place)
        place = int(links[(place - start) // 8])
    assert place == start
    assert seen == {start + 64 * k for k in range(512)}
