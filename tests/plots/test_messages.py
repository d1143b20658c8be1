"""helpers.plots.messages: what notebook 01 draws is what it was given."""

import numpy as np

from helpers.collectives.cost import Link
from helpers.plots import messages
from helpers.plots.description import describe

REST = dict.fromkeys(("broadcast", "reduce", "allgather", "allreduce"), 3)


def test_eager_ends_where_send_begins_to_wait():
    ax = messages.end_of_eager([8, 16, 32, 64], [1e-5, 2e-5, 0.015, 0.015], late=0.015)
    assert ax.get_title() == "Eager up to 16 B, rendezvous from 32 B"
    assert 'Line "the receiver comes": level at 15' in describe(ax.figure)


def test_who_gives_to_a_collective_and_who_gets():
    got = [{"scatter": 0, "gather": [1, 2], **REST}, {"scatter": 10, "gather": None, **REST}]
    first, second = messages.collectives([1, 2], got, listed=[0, 10]).axes[:2]
    assert [text.get_text() for text in first.texts if text.get_text()] == [
        "rank 0", "[0, 10]", "0", "rank 1", "10",
    ]  # fmt: skip
    assert [text.get_text() for text in second.texts if text.get_text()] == ["1", "[1, 2]", "2"]


def test_messages_and_their_fit():
    ax = messages.message_times(np.array([[10, 1e-6], [1000, 2e-6]]), Link("here", 1e-6, 1e-9))
    said = describe(ax.figure)
    assert 'Line "measured, one way": from 1 at 10 to 2 at 1000' in said
    assert "upright at 1e+03" in said  # α / β


def test_speed_ups_have_a_second_line_where_cores_are_few():
    def law(N, s):
        return 1 / (s + (1 - s) / N)

    few = describe(messages.speed_ups({1: 1.0, 2: 1.5, 4: 1.6}, law, 0.2, 2).figure)
    assert 'Line "the same on 2 cores": from 1 at 1 to 1.67 at 4' in few
    assert 'Line "measured": from 1 at 1 to 1.6 at 4' in few
    many = describe(messages.speed_ups({1: 1.0, 2: 1.5}, law, 0.2, 2).figure)
    assert "the same on" not in many


def test_both_laws_for_one_fraction():
    laws = {"grows": lambda N, s: s + (1 - s) * N, "stays": lambda N, s: 1 / (s + (1 - s) / N)}
    said = describe(messages.laws(laws, 0.5).figure)
    assert 'Line "1/s = 2": level at 2' in said
    assert 'Line "grows": from 1 at 1' in said


def test_boards_have_the_borders_between_ranks():
    rows = np.zeros((2, 16), bool)
    axes = messages.boards({"before": [rows, rows, rows], "after": [rows, rows, rows]})
    assert [line.get_ydata()[0] for line in axes[1].lines] == [1.5, 3.5]
    assert [text.get_text() for text in axes[0].texts] == ["rank 0", "rank 1", "rank 2"]
