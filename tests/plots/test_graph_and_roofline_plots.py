"""helpers.plots.pagerank and helpers.plots.roofline: what is drawn is what was passed."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from scipy.sparse import csr_array

from helpers.pagerank import pagerank
from helpers.pagerank.graphs import random_links
from helpers.plots import pagerank as graphs
from helpers.plots import roofline as roofs
from helpers.plots.neighbourhood import neighbourhood
from helpers.plots.style import BLUE, GREEN, ORANGE
from helpers.roofline import Point
from helpers.roofline.cache import Cache

POINTS = [Point("dot & co", 2e6, 8e6, 1e-3), Point("gemm", 2e9, 1e7, 0.05)]
PEAKS, BANDS = {"peak": 1e11}, {"memory": 2e10, "L1": 4e11}


def test_time_against_bytes_is_in_megabytes_and_milliseconds():
    rows = [{"name": "4", "bytes": 1e6, "seconds": 1e-3}]
    ax = graphs.time_against_bytes(rows, 1e9)
    assert (*ax.lines[1].get_xdata(), *ax.lines[1].get_ydata()) == (1, pytest.approx(1.0))  # MB, ms
    np.testing.assert_allclose(ax.lines[0].get_ydata() / ax.lines[0].get_xdata(), 1)


def test_a_circle_shows_where_the_bound_of_convergence_reaches_the_tolerance():
    changes = {"one": [1.0, 0.1]}
    circle = graphs.convergence(changes, 0.5, 20, 1e-3).lines[-2]
    assert (circle.get_marker(), *circle.get_xdata()) == ("o", 11)  # 2 · 0.5¹¹ = 0.98e-3
    assert len(graphs.convergence(changes, 0.5, 5, 1e-3).lines[-2].get_xdata()) == 0


def test_a_small_graph_says_what_each_link_carries_and_which_ranks_cross_the_cut():
    G = np.array([[0, 0, 1, 0], [1, 0, 0, 0], [1, 1, 0, 1], [0, 0, 1, 0]])
    whole, cut = (graphs.small_graph(G, [0.2, 0.1, 0.4, 0.3], cut=way) for way in (False, True))
    shares, carried = ([text.get_text() for text in ax.texts] for ax in (whole, cut))
    assert [shares.count(share) for share in ("1/2", "1", "40 %")] == [4, 3, 1]  # "1": a node's too
    assert {said for said in carried if "rank" in said} == {"rank of 0", "rank of 1", "rank of 2"}
    areas = [circle.radius**2 for circle in whole.patches[:4]]
    np.testing.assert_allclose(np.divide(areas, areas[1]), [2, 1, 4, 3])


def test_neighbourhood_names_its_nodes_and_escapes_them():
    matrix = random_links(40, 0.1, seed=2).incoming.T.tocsr()
    names = [f"<p{i}>" for i in range(40)]
    page = neighbourhood(matrix, names, pagerank(matrix).scores, centre=3).data
    assert "&lt;p3&gt;" in page
    assert "<p3>" not in page
    assert 2 <= page.count("<circle") <= 29
    again = neighbourhood(matrix, names, pagerank(matrix).scores, centre=3).data
    assert again == page  # the same picture each time


def test_neighbourhood_tells_its_kinds_by_more_than_colour_and_in_words():
    matrix = csr_array(np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0]]))
    page = neighbourhood(matrix, ["a&b", "below", "above"], [0.2, 0.5, 0.3], 0).data
    label = "a&amp;b and its surroundings. 1 that it needs: below; 1 that need it: above"
    assert f'aria-label="{label}"' in page
    looks = dict(re.findall(r'<circle [^>]*r="[.\d]+" fill="#\w+"([^>]*)><title>([&;\w]+):', page))
    looks = {name: look for look, name in looks.items()}
    assert 'stroke-width="3"' in looks["a&amp;b"]
    assert looks["below"] == ""
    assert "stroke-dasharray" in looks["above"]
    tips = [tip.split()[0].split(",") for tip in re.findall(r'<polygon points="([^"]*)"', page)]
    rounds = re.findall(
        r'<circle cx="([-.\d]+)" cy="([-.\d]+)" r="([.\d]+)"[^>]*><title>(a|b)', page
    )
    for tip, (x, y, r, _) in zip(tips, (rounds[1], rounds[0]), strict=True):  # what is needed
        away = np.hypot(float(tip[0]) - float(x), float(tip[1]) - float(y))
        assert away == pytest.approx(float(r) + 1, abs=0.2)
    alone = neighbourhood(csr_array(np.zeros((1, 1))), ["a"], [1.0], 0).data
    assert 'aria-label="a and its surroundings. It has none"' in alone


def test_a_dot_in_each_bar_is_the_rank_before():
    ax = graphs.bars(["a", "b"], [0.6, 0.4], "ranks", before=[0.1, 0.3])
    dots = {y: x for x, y in zip(*ax.lines[0].get_data(), strict=True)}
    where = {
        y: name.get_text() for y, name in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
    }
    assert {where[y]: x for y, x in dots.items()} == {"a": 10, "b": 30}


def test_names_of_two_equal_peaks_do_not_cover_each_other():
    page = roofs.interactive({"1 thread": 1e11, "2 threads": 1e11}, BANDS).data
    places = [
        re.search(rf'<text[^>]* y="([\d.]+)"[^>]*>{name}<', page)[1]
        for name in ("1 thread", "2 threads")
    ]
    assert abs(float(places[0]) - float(places[1])) > 36  # two lines each


def test_names_of_roofs_stand_apart_and_above_every_kernel():
    bands = {"1 thread": 31e9, "2 threads": 31.5e9, "L2": 300e9, "L1": 310e9}
    page = roofs.interactive({"peak": 224e9}, bands, POINTS).data
    peak = float(re.search(r'y1="([\d.]+)"[^>]* stroke="#8a8a8a"', page)[1])
    turned = r'<text x="([\d.]+)" y="([\d.]+)"[^>]*rotate\(-([\d.]+)[^>]*>[^<]* GB/s'
    names = np.array(re.findall(turned, page), float)
    assert len(names) == 4
    assert (names[:, 1] < peak).all()
    slope = np.radians(names[0, 2])
    assert (np.diff(sorted(names[:, 0])) * np.sin(slope) > 13).all()  # between lines of words


def test_the_name_of_a_roof_below_the_highest_peak_ends_under_its_own_ridge():
    peaks = {"fp32, 1 thread": 5e10, "fp32, 2 threads": 1e11}
    bands = {"memory, 1 thread": 1e10, "memory, 2 threads": 2e10}
    near = Point("near", 3e6, 1e6, 1e-4)  # just under the ridge: the name goes down the line
    back = []
    for points in ([], [near]):
        page = roofs.interactive(peaks, bands, points).data
        ridge = re.search(r'cx="([.\d]+)" cy="([.\d]+)" r="4"[^>]*><title>memory, 1', page)
        name = re.search(r'<text x="([.\d]+)" y="([.\d]+)" text-anchor="end"[^>]*>mem', page)
        slope = np.radians(float(re.search(r"rotate\(-(?!90 )([.\d]+)", page)[1]))
        way, down = (np.cos(slope), -np.sin(slope)), (np.sin(slope), np.cos(slope))
        off = np.subtract(np.float64(name.groups()), np.float64(ridge.groups()))
        assert off @ down == pytest.approx(19, abs=0.3)
        back.append(-(off @ way))
    assert back[0] == pytest.approx(8, abs=0.3)
    assert back[1] > 20


def test_names_of_circles_that_overlap_keep_their_order_and_off_the_roofs():
    points = [Point("upper", 2.5e6, 1e7, 4e-4), Point("lower", 2.5e6, 1e7, 4.7e-4)]
    page = roofs.interactive({"peak": 1e11}, {"memory": 2.5e10}, points).data
    circles, names = (
        [float(re.search(pattern.format(name), page)[1]) for name in ("upper", "lower")]
        for pattern in (r'cy="([.\d]+)" r="7"[^>]*><title>{}', r'y="([.\d]+)"[^>]*>{}</text>')
    )
    assert 6 < circles[1] - circles[0] < 14
    assert names[1] - names[0] > 17


@pytest.mark.parametrize(
    ("peak", "ticks", "unit"),
    [(851e12, "50 100 200 500", "Tflop/s"), (200e9, "1 10 100", "Gflop/s")],
)
def test_the_axis_of_performance_has_several_ticks(peak, ticks, unit):
    points = POINTS if peak < 1e12 else []
    bands = BANDS if peak < 1e12 else {"HBM": 4500e9}
    page = roofs.interactive({"peak": peak}, bands, points).data
    found = re.findall(r'text-anchor="end" fill="#444" >([\d.]+)<', page)
    assert set(ticks.split()) <= set(found)
    assert f">{unit}</text>" in page


def test_the_time_of_a_narrow_plateau_stands_beside_it():
    sizes = 2.0 ** np.arange(12, 25)
    found = [
        {"seconds": 2e-9, "capacity": 2.0**17},
        {"seconds": 2e-8, "capacity": 2.0**18},  # too narrow for its text
        {"seconds": 1e-7, "capacity": np.inf},
    ]
    times = [2e-9 if n < 2**17 else 2e-8 if n < 2**18 else 1e-7 for n in sizes]
    ax = roofs.latency(list(zip(sizes, times, strict=True)), found)
    assert [text.xy for text in ax.texts][1] == (2.0**8, pytest.approx(20))  # KiB, ns
    assert [text.get_ha() for text in ax.texts] == ["center", "left", "center"]


def test_bandwidths_of_one_thread_are_hollow_and_others_filled_and_named_once():
    kinds, threads = ("read", "copy", "triad"), (1, 4)
    rows = [
        {"level": level, "kind": kind, "threads": k, "rate": 1e9 * k}
        for kind in kinds for level in ("L1", "memory") for k in threads
    ]  # fmt: skip
    ax = roofs.bandwidths(rows)
    marks = [line for line in ax.lines if line.get_marker() not in ("", "None")]
    hollow = {line.get_ydata()[0]: line.get_markerfacecolor() == "white" for line in marks}
    assert hollow == {1: True, 4: False}
    assert len({line.get_marker() for line in marks}) == 3  # told by more than colour
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(kinds)
    assert "4 threads" in ax.get_title()


def test_bandwidths_of_one_thread_alone_are_filled():
    ax = roofs.bandwidths([{"level": "L1", "kind": "read", "threads": 1, "rate": 1e9}])
    assert ax.lines[-1].get_markerfacecolor() != "white"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["read"]


def test_where_no_bandwidth_could_be_measured_the_picture_says_so_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax = roofs.bandwidths([])
    assert "not measured" in ax.texts[0].get_text()


def test_interactive_roofline_holds_the_figures_without_a_script():
    page = roofs.interactive(PEAKS, BANDS, POINTS).data
    picture = page.split("<script>")[0]
    assert "dot &amp; co: 0.25 flop/byte, 2 Gflop/s, 8 GB/s, 40 % of its roof" in picture
    told = re.search('<svg [^>]*aria-label="([^"]*)"', picture)[1]
    assert told.startswith("roofline. Ceilings: ")
    assert all(name in told for name in [*PEAKS, *BANDS])
    assert "dot &amp; co 2 Gflop/s at 0.25 flop/byte" in told
    assert len(re.findall("<circle", picture)) == 4  # two ridges, two kernels


def test_cache_step_shows_what_is_held():
    axes = roofs.cache_step("ijk", 4, Cache(64, 16, 2), 2)
    # c[0,0] and a[0,0] were loaded: a's first line (4 elements) is held, b's none.
    a, b, c = (ax.images[0].get_array() for ax in axes)
    assert (a[0] > 0).all()
    assert a[0, 0] == 3  # a miss
    assert not b.any()
    assert (c[0] > 0).all()
    assert "2 misses in 2 accesses" in axes[0].get_xlabel()


def test_a_kernel_is_held_against_the_roof_of_its_threads():
    peaks = {"fp32, 1 thread": 5e10, "fp32, 2 threads": 1e11}
    bands = {"memory, 1 thread": 1e10, "memory, 2 threads": 2e10, "L1": 4e11}
    points = [Point("one", 2e6, 8e6, 1e-3, 1), Point("two", 2e6, 8e6, 1e-3, 2)]
    page = roofs.interactive(peaks, bands, points).data
    assert "one: 0.25 flop/byte, 2 Gflop/s, 8 GB/s, 80 % of its roof" in page
    assert "two: 0.25 flop/byte, 2 Gflop/s, 8 GB/s, 40 % of its roof" in page
    fast = roofs.interactive(peaks, bands, [Point("dot", 2e6, 8e6, 5e-4, 1)]).data
    assert "160 % of its roof, above it: a cache served" in fast
    fills = re.findall(r'r="7" fill="(#\w+)"[^>]*><title>(\w+)', page)
    assert fills == [("#fff", "one"), ("#0072B2", "two")]  # hollow under the dashed roof
    assert "Hollow circle: 1 thread" in page
    assert "Hollow circle: 1 thread" in fast
    assert "Filled circle" not in fast  # there is none
    both = roofs.interactive(peaks, bands, points[1:]).data
    assert "All circles: 2 threads, as the solid lines." in both
    one = {"fp32, 1 thread": 5e10}, {"memory, 1 thread": 1e10}, points[:1]
    assert "All circles: 1 thread." in roofs.interactive(*one).data
    assert "All circles" not in roofs.interactive(PEAKS, BANDS, POINTS).data  # of no such name


def test_a_kernel_above_its_roof_is_framed_and_called_a_fault_of_measuring():
    below, above = Point("dot", 2e6, 8e6, 1e-3), Point("fast & co", 2e6, 8e6, 2e-4)
    page = roofs.interactive(PEAKS, BANDS, [below, above]).data
    frames = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="20"', page)
    circle = re.search(r'cx="([\d.]+)" cy="([\d.]+)" r="7"[^>]*><title>fast', page)
    assert len(frames) == 1
    np.testing.assert_allclose(np.add(np.float64(frames[0]), 10), np.float64(circle.groups()))
    assert "above its roof (fast &amp; co)" in page
    page = roofs.interactive(PEAKS, BANDS, [below, replace(above, twice=True)]).data
    assert "above its roof, also when both were measured again (fast &amp; co)" in page
    assert "fault of measuring" in page
    assert "fault of measuring" not in roofs.interactive(PEAKS, BANDS, [below]).data


def test_tiles_show_their_bytes_and_lie_in_the_rows_and_columns_of_their_piece_of_c():
    block, register = roofs.reuse(32, (6, 16))
    said = " ".join(text.get_text() for ax in (block, register) for text in ax.texts)
    for part in ("4 KiB a tile", "12 KiB for three", "384 bytes", "24 bytes", "64 bytes"):
        assert part in said
    faces = {p.get_facecolor(): p.get_bbox() for p in register.patches}
    a, b, c = (faces[to_rgba(shade)] for shade in (ORANGE, GREEN, BLUE))
    assert (a.y0, a.y1) == (c.y0, c.y1)
    assert (b.x0, b.x1) == (c.x0, c.x1)
    assert (c.width, c.height) == (16, 6)


def test_requests_share_the_weights_and_each_has_its_own_keys_and_values():
    ax = roofs.phases(512, 512, (1, 4))
    ends = {}
    for bar in ax.patches:
        y = round(bar.get_y() + bar.get_height() / 2)
        ends[y] = max(ends.get(y, 0), bar.get_x() + bar.get_width())
    weights, cache = 48 * 512**2 / 1e6, 8 * 512**2 / 1e6
    assert ends == pytest.approx({0: weights + cache, 1: weights + cache, 2: weights + 4 * cache})
    assert [text.get_text() for text in ax.texts] == [f"{n} MB a token" for n in (0.029, 15, 5.2)]


def test_additions_into_one_sum_wait_and_those_into_many_overlap():
    one, many = roofs.waiting(8, 4)
    for ax, apart, ends in ((one, 4, 32), (many, 1, 11)):
        assert [bar.get_x() for bar in ax.patches] == [k * apart for k in range(8)]
        assert {bar.get_width() for bar in ax.patches} == {4}
        assert f"{ends} cycles" in ax.texts[0].get_text()


def test_an_output_channel_reads_the_channels_of_its_group_and_a_shuffle_interleaves():
    axes = roofs.groups(8, 4)
    reads = [[p.get_xy() for p in ax.patches if p.get_facecolor()[3]] for ax in axes[:3]]
    assert [len(one) for one in reads] == [64, 16, 8]
    assert all(row // 2 == column // 2 for column, row in reads[1])
    assert all(row == column for column, row in reads[2])
    after = {p.get_y(): p.get_facecolor() for p in axes[3].patches if p.get_x() == 4}
    shades = [after[k] for k in range(8)]
    assert shades[:4] == shades[4:]
    assert len(set(shades)) == 4


def test_orders_with_one_inner_loop_stand_together():
    one = {"a": 1, "b": 2, "c": 3}
    ax = roofs.misses(dict.fromkeys(("ijk", "jik", "kij", "ikj"), one))
    assert ax.get_xticks().tolist() == [0, 1, 2.5, 3.5]
    said = {text.get_text(): text.xy[0] for text in ax.texts}
    assert said == {"inner loop k": 0.5, "inner loop j": 3}
