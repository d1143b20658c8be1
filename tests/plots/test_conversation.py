"""The picture of what ranks ask their parent."""

from helpers.first_words import Exchange, Start
from helpers.plots.conversation import conversation

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
