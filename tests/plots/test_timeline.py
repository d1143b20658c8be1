"""The timeline draws what the trace says, in time and place, and stays legible with many calls."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from helpers.plots.timeline import HEIGHT, messages, timeline, turns
from helpers.plots.timeline_html import timeline_html
from helpers.tracing import Trace, build


def example(messages=1) -> Trace:
    """Rank 0 sends at 2 ms; rank 1 receives from 0 to 4 ms: it waits 2 ms and gets 2 ms."""
    ms = 1_000_000
    sends, receives = [], []
    for k in range(messages):
        at = 10 * k * ms
        sends.append(("Send", "send", "c", 1, 7, 1500, at + 2 * ms, at + 3 * ms, None, None))
        receives.append(("Recv", "receive", "c", 0, 7, 1500, at, at + 4 * ms, None, None))
    request = ["Ibcast", "collective", "c", 0, None, 8, 5 * ms, 5 * ms, 9 * ms, None]
    return build({0: [*sends, request], 1: receives})


def boxes(ax):
    """(x, width, y) of every rectangle drawn, by whether it is hatched."""
    found = {True: [], False: []}
    for collection in ax.collections:
        for path in collection.get_paths():
            box = path.get_extents()
            found[bool(collection.get_hatch())].append(
                (round(box.x0, 6), round(box.width, 6), round(box.y0, 2))
            )
    return found


def test_turns_are_bars_on_a_line_that_says_how_long_the_rank_took():
    ax = turns([[(3.0, 3.5), (4.0, 5.0)], [(3.5, 4.0)]], alone=1.5)
    assert boxes(ax)[False] == [
        (0.0, 2.0, -0.06), (0.0, 0.5, -0.35), (1.0, 1.0, -0.35), (0.5, 0.5, 0.94), (0.5, 0.5, 0.65),
    ]  # fmt: skip
    assert ax.get_lines()[0].get_xdata() == [1.5, 1.5]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # rank 0 above


def test_boxes_stand_where_and_when_the_calls_were():
    ax = timeline(example())
    found = boxes(ax)
    top = round(-HEIGHT / 2, 2)
    assert found[True] == [(0.0, 2.0, round(1 + top, 2))]  # rank 1 waited for 2 ms
    assert (2.0, 1.0, top) in found[False]  # rank 0's send
    assert (2.0, 2.0, round(1 + top, 2)) in found[False]  # rank 1 got the message
    assert (5.0, 4.0, round(HEIGHT / 2 + 0.02, 2)) in found[False]  # the Ibcast under way
    assert ax.get_xlabel() == "time since the first call [ms]"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["rank 0", "rank 1"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # rank 0 above


def test_arrows_run_from_send_to_receipt_with_their_size():
    ax = timeline(example())
    (arrow,) = [a for a in ax.texts if getattr(a, "arrow_patch", None)]
    assert arrow.xyann == (2.0, pytest.approx(HEIGHT / 2))
    assert arrow.xy == (pytest.approx(4.0), pytest.approx(1 - HEIGHT / 2))
    assert "1.5 kB" in [text.get_text() for text in ax.texts]
    *kinds, last = [text.get_text() for text in ax.get_legend().get_texts()]
    assert kinds == ["send", "receive", "collective", "waiting for the other side"]
    assert last == "non-blocking, under way"


def test_the_legend_says_once_of_which_size_all_messages_are():
    ax = timeline(example(messages=3))
    assert "1.5 kB" not in [text.get_text() for text in ax.texts]
    assert ax.get_legend().get_texts()[-1].get_text() == "message of 1.5 kB"


def test_a_message_is_named_beside_the_name_of_a_call_that_its_arrow_crosses():
    ms = 1_000_000
    send = ("Send", "send", "c", 2, 7, 1500, 48 * ms, 50 * ms, None, None)
    test = ("test", "wait", "c", None, None, 0, 0, 100 * ms, None, None)
    receive = ("Recv", "receive", "c", 0, 7, 1500, 48 * ms, 52 * ms, None, None)
    ax = timeline(build({0: [send], 1: [test], 2: [receive]}))
    ax.figure.canvas.draw()
    shown = {text.get_text(): text for text in ax.texts}
    one, other = (shown[name].get_window_extent() for name in ("1.5 kB", "test"))
    assert not one.overlaps(other)


def test_a_call_too_short_for_its_name_is_named_beside_it_and_over_no_other_call():
    ms = 1_000_000
    brief = ("Isend", "send", "c", 1, 7, 8, 50 * ms, 50 * ms + 1000, 90 * ms, None)
    wait = ("Wait", "wait", "c", 1, None, 8, 50 * ms + 1000, 90 * ms, None, None)
    receive = ("Recv", "receive", "c", 0, 7, 8, 0, 100 * ms, None, None)
    ax = timeline(build({0: [brief, wait], 1: [receive]}))
    ax.figure.canvas.draw()
    isend = next(text for text in ax.texts if text.get_text() == "Isend")
    x = ax.transData.inverted().transform(isend.get_window_extent())[:, 0]
    assert x[1] < 50  # ms: Wait follows at once
    assert x[0] > 0


def test_calls_too_close_to_be_told_apart_have_one_label():
    ms = 1_000_000
    brief = ("Iallreduce", "collective", "c", None, None, 8, 90 * ms, 90 * ms + 1000, 91 * ms, None)
    wait = ("Wait", "wait", "c", None, None, 8, 90 * ms + 2000, 91 * ms, None, None)
    early = ("Allreduce", "collective", "c", None, None, 8, 0, 91 * ms, None, None)
    ax = timeline(build({0: [brief, wait], 1: [early]}))
    assert [text.get_text() for text in ax.texts] == ["Iallreduce, Wait", "Allreduce"]


def test_messages_show_what_ranks_compute_between_receiving_and_sending():
    ms = 1_000_000
    server = [
        ("Send", "send", "c", 1, 2, 8, 0, 1 * ms, None, None),
        ("Recv", "receive", "c", 1, 1, 8, 1 * ms, 60 * ms, None, None),
        ("Send", "send", "c", 1, 2, 8, 80 * ms, 99 * ms, None, None),
    ]
    worker = [
        ("Recv", "receive", "c", 0, 2, 8, 0, 10 * ms, None, None),
        ("Send", "send", "c", 0, 1, 8, 50 * ms, 60 * ms, None, None),
        ("Recv", "receive", "c", 0, 2, 8, 60 * ms, 100 * ms, None, None),
    ]
    ax = messages(build({0: server, 1: worker}), {1: "gradient", 2: "parameters"})
    assert sorted(box[:2] for box in boxes(ax)[False]) == [(10.0, 40.0), (60.0, 20.0)]
    looks = [(arrow.arrow_patch.get_edgecolor(), arrow.arrow_patch.get_linestyle())
             for arrow in ax.texts]  # fmt: skip
    assert looks[0] == looks[2]
    assert looks[0][0] != looks[1][0]
    assert looks[0][1] != looks[1][1]


def test_the_svg_tells_call_peer_tag_size_and_duration():
    svg = timeline_html(example()).data
    root = ElementTree.fromstring(svg)
    told = [e.text for e in root.iter("{http://www.w3.org/2000/svg}title")]
    send = next(text for text in told if "rank 0: Send" in text)
    assert send.splitlines()[1:4] == ["to rank 1", "tag 7", "1.5 kB"]
    assert "1 ms" in send
    assert "of which 2 ms waiting" in next(text for text in told if "Recv" in text)
    assert any("message from rank 0 to rank 1" in text for text in told)
    assert "<script" not in svg


def test_the_svg_says_in_words_what_it_shows_and_hides_nothing_of_it():
    svg = ElementTree.fromstring(timeline_html(example()).data)
    assert svg.get("aria-label") == (
        "timeline of 3 MPI calls and 1 message in 5 ms; rank 0: 1 Send, 1 Ibcast; "
        "rank 1: 1 Recv, 2 ms waiting for others"
    )
    assert svg.get("role") == "group"  # an image's contents do not reach a screen reader


def test_diagrams_on_one_page_do_not_lean_on_each_other():
    one, other = (timeline_html(example(messages=n)).data for n in (1, 2))
    names = [set(re.findall(r' id="([^"]+)"', svg)) for svg in (one, other)]
    used = [set(re.findall(r"url\(#([^)]+)\)", svg)) for svg in (one, other)]
    assert names == used
    assert len(names[0] | names[1]) == 4  # a hatching and an arrow's head for each
    assert timeline_html(example()).data == one


def test_the_svg_stays_small_and_says_what_it_leaves_out():
    svg = timeline_html(example(messages=4000)).data
    assert len(svg) < 900_000
    assert "not drawn" in svg
    ElementTree.fromstring(svg[: svg.index("</svg>") + 6])


def test_a_trace_without_events_is_refused():
    for draw in (timeline, timeline_html):
        with pytest.raises(ValueError, match="at least one event"):
            draw(build({0: [], 1: []}))


def test_a_short_call_is_a_box_wide_enough_to_be_seen():
    brief = ("Send", "send", "c", 1, 7, 8, 0, 1_000, None, None)  # 1 µs of 10 ms
    ax = timeline(build({0: [brief], 1: [("Recv", "receive", "c", 0, 7, 8, 0, 10**7, None, None)]}))
    width = min(width for _, width, _ in boxes(ax)[False])
    pixels = ax.transData.transform([(0, 0), (width, 0)])[:, 0]
    assert pixels[1] - pixels[0] >= 4
