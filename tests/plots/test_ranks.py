"""Pictures of ranks: a ball that goes round, what they ask their parent, who waits."""

import xml.etree.ElementTree as ElementTree

import pytest

from helpers.cluster import Cluster
from helpers.first_words import Exchange, Start
from helpers.plots.conversation import conversation
from helpers.plots.data_parallel import waiting
from helpers.plots.ring_html import pass_round, ring
from tests.plots import values


@pytest.mark.mpi
def test_the_ball_goes_round_in_order():
    with Cluster(3) as cluster:
        answers = cluster.run(pass_round, 2)
        with pytest.raises(Exception, match="expects at least one lap; got 0"):
            cluster.run(pass_round, 0)
    shown = values(ring(answers).data)
    assert shown["processes"] == [process for process, _ in answers]
    assert len(set(shown["processes"])) == 3
    assert [rank for _, rank in shown["stops"]] == [0, 1, 2, 0, 1, 2, 0]
    assert shown["stops"][0][0] == 0.0


def test_a_circle_of_one_or_of_more_than_there_is_room_for_is_refused():
    for ranks in (1, 9):
        with pytest.raises(ValueError, match=f"2 to 8 ranks; got {ranks}"):
            ring([(rank, [0.0]) for rank in range(ranks)])


ASKED = [
    (0, "cmd=init pmi_version=1", {0: ""}),
    (0, "cmd=get key=PMI_process_mapping", {0: ""}),
    (0, "cmd=put key=a value=1", {0: ""}),
    (0, "cmd=barrier_in", {}),
    (1, "cmd=put key=b value=2", {1: ""}),
    (1, "cmd=barrier_in", {0: "", 1: ""}),
    (1, "cmd=get key=a", {1: ""}),
]


def test_each_request_is_a_mark_in_its_ranks_lane_and_waiting_is_a_bar():
    told = Start(2, [Exchange(0.1 * k, *asked) for k, asked in enumerate(ASKED)])
    ax = conversation(told, title="title")
    marks = {line.get_label().split(":")[0]: line.get_xydata().tolist() for line in ax.get_lines()}
    assert marks["about itself"] == [[1, 0], [2, 0]]
    assert marks["put"] == [[3, 0], [5, 1]]
    assert marks["get"] == [[7, 1]]
    bars = sorted((bar.get_y() + 0.25, bar.get_x(), bar.get_width()) for bar in ax.patches)
    assert [(round(y), round(x, 1), round(width, 1)) for y, x, width in bars] == [
        (0, 3.7, 2.6),
        (1, 5.7, 0.6),
    ]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["rank 0", "rank 1"]
    (named,) = (
        handle
        for handle, text in zip(*ax.get_legend_handles_labels(), strict=True)
        if text.startswith("barrier_in")
    )
    assert named[0].get_hatch()  # what is hatched in the picture is hatched in its key


def test_who_is_never_answered_waits_to_the_end():
    asked = [(0, "cmd=barrier_in", {}), (1, "cmd=put key=b value=2", {1: ""})]
    ax = conversation(Start(2, [Exchange(0.1 * k, *each) for k, each in enumerate(asked)]))
    (bar,) = ax.patches
    assert (round(bar.get_x(), 1), round(bar.get_x() + bar.get_width(), 1)) == (0.7, 3.3)


def test_a_start_in_which_nothing_was_said():
    conversation(Start(1))


SVG = "{http://www.w3.org/2000/svg}"
RECORDED = {
    "together": [[(0.0, 0.1), (0.4, 0.5)], [(0.0, 0.4), (0.4, 0.8)]],
    "alone": [[], [(0.0, 0.1), (0.1, 0.2), (0.7, 0.9)]],
}


def test_each_gradient_is_a_bar_until_the_shorter_record_ends():
    root = ElementTree.fromstring(waiting(RECORDED, late=1).data)
    bars = [bar for bar in root.iter(f"{SVG}rect") if bar.find(f"{SVG}animate") is not None]
    assert len(bars) == 7
    ends = [float(bar.get("x")) + float(bar.get("width")) for bar in bars]
    assert max(ends) == pytest.approx(880, abs=0.2)
    assert ends[-1] == pytest.approx(ends[3], abs=0.2)  # 0.9 s is cut at 0.8 s
    assert {bar.get("fill") for bar in bars[2:4]} != {bars[0].get("fill")}


def test_it_says_in_words_what_it_shows_and_has_no_script():
    svg = waiting(RECORDED).data
    label = ElementTree.fromstring(svg).get("aria-label")
    assert label == "together: 4 gradients in 0.80 s; alone: 2 gradients in 0.80 s"
    assert "<script" not in svg
    assert "rank 0: server" in svg


def test_everything_is_there_before_the_click_and_the_click_is_its_own():
    svg = waiting(RECORDED).data
    (name,) = {each.get("id") for each in ElementTree.fromstring(svg).iter() if each.get("id")}
    begins = [each.get("begin") for each in ElementTree.fromstring(svg).iter() if each.get("begin")]
    assert begins
    assert all(begin.startswith(f"{name}.click") for begin in begins)
    assert name not in waiting({"another": RECORDED["alone"]}).data


def test_a_record_without_a_gradient_is_refused():
    with pytest.raises(ValueError, match="'none' has none"):
        waiting({"none": [[], []]})
