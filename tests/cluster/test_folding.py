"""What the ranks give, in little room: folded where it is equal, a choice where it is long."""

import re

import pytest

from helpers.cluster.kernel import folding, report
from helpers.cluster.kernel.gathering import Reply


def replies(*texts: str) -> dict[int, Reply]:
    return {rank: Reply(rank, "ok", parts=_printed(text)) for rank, text in enumerate(texts)}


def _printed(text: str) -> list:
    return [("stdout", text)] if text else []


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (["same\n"] * 8, "[0-7] same\n"),
        (["a\n", "b\n", "a\n", "a\n"], "[0,2-3] a\n[1] b\n"),
        (["a\nb\n", "a\nc\n"], "[0] a\n[0] b\n[1] a\n[1] c\n"),
        (["", "a\n", "", "a\n"], "[1,3] a\n"),
        (["a", "a\n"], "[0-1] a\n"),  # seen, they do not differ
        (["  0%\r 50%\r100%\n", " 10%\r100%\n"], "[0-1] 100%\n"),
    ],
)
def test_equal_output_has_one_label(capsys, texts, shown):
    folding.show(replies(*texts))
    assert capsys.readouterr().out == shown


def test_the_same_text_elsewhere_is_another_output(capsys):
    given = replies("a\n", "a\n")
    given[1].parts = [("stderr", "a\n")]
    folding.show(given)
    assert capsys.readouterr() == ("[0] a\n", "[1] a\n")


def test_a_value_is_shown_by_its_text(capsys):
    value = ("display", {"data": {"text/plain": "array([1, 2])"}})
    folding.show({rank: Reply(rank, parts=[value]) for rank in range(2)})
    assert capsys.readouterr().out == "[0-1] array([1, 2])\n"


def test_equal_pictures_are_one_though_they_are_updated_by_different_numbers():
    pictures = [
        {"data": {"image/png": "x"}, "metadata": {}, "transient": {"display_id": str(number)}}
        for number in range(2)
    ]
    given = {rank: Reply(rank, parts=[("display", pictures[rank])]) for rank in range(2)}
    assert [ranks for ranks, _ in folding.groups(given)] == [[0, 1]]
    pictures[1]["data"] = {"image/png": "y"}
    assert [ranks for ranks, _ in folding.groups(given)] == [[0], [1]]


def test_long_output_of_many_ranks_is_a_choice():
    texts = [f"rank {rank}\n<b>\n\x1b[31mred\x1b[0m\n" for rank in range(32)]
    found = folding.groups(replies(*texts))
    assert folding.too_long(found)
    page = folding.as_html(found)
    heads = re.findall(r"<summary><code>(.*?)</code>(.*?)</summary>", page)
    assert heads[7] == ("[7] rank 7", " … (3 lines)")
    assert len(heads) == page.count("</details>") == 32
    assert "&lt;b&gt;\nred</pre>" in page
    assert folding.as_text(found).count("\n") == 3 * 32 - 1
    for few in (["a\n" * 99] * 32, [f"{i}\n" * 99 for i in range(8)]):
        assert not folding.too_long(folding.groups(replies(*few)))


@pytest.mark.parametrize(
    ("kind", "said", "shown"),
    [
        ("png", None, '<img alt="&lt;Figure &quot;1&quot;&gt;" src="data:image/png;base64,iVBO">'),
        ("png", {"alt": "Line: 3 at 1."}, '<img alt="Line: 3 at 1." '),
        ("png", {"alt": "Line", "kept": []}, '<img class="course-figure" alt="Line" '),
        ("png", {"alt": "Line", "kept": [[0, 0.25, 1, 1]]},
         '<img data-kept="[[0, 0.25, 1, 1]]" alt="Line" '),
        ("svg+xml", {"kept": []}, '<div class="course-figure"><svg/></div>'),
        ("svg+xml", {}, "<div><svg/></div>"),
        ("svg+xml", {"kept": [[0, 0, 1, 0.5]], "alt": "a cat & more"},  # a photograph in it
         '<img data-kept="[[0, 0, 1, 0.5]]" alt="a cat &amp; more" '
         'src="data:image/svg+xml;base64,PHN2Zy8+">'),
    ],
)  # fmt: skip
def test_a_picture_keeps_its_words_and_is_dark_only_where_it_keeps_no_colours(kind, said, shown):
    data = {f"image/{kind}": "iVBO\n" if kind == "png" else "<svg/>"}
    content = {"data": data | {"text/plain": '<Figure "1">'}, "metadata": {}}
    if said is not None:
        content["metadata"] = {f"image/{kind}": said}
    assert shown in folding.as_html([([3], [("display", content)])])


NAME = "\x1b[31mValueError\x1b[39m: rank"


@pytest.mark.parametrize(
    ("tracebacks", "told"),
    [
        (
            dict.fromkeys(range(32), "line 2\nValueError: no"),
            "Ranks 0 to 31 raised:\nline 2\nValueError: no\n\n",
        ),
        (
            {rank: f"line 2\n{NAME} {rank // 2}\nnote" for rank in range(4)},
            f"Ranks 0, 1, 2 and 3 raised:\nline 2\n[0-1] {NAME} 0\n"
            f"[0-1] note\n[2-3] {NAME} 1\n[2-3] note",
        ),
        (
            {0: "line 2\nValueError: a", 1: "line 3\nValueError: a"},
            "Rank 0 raised:\nline 2\nValueError: a\n\nRank 1 raised:\nline 3\n",
        ),
    ],
)
def test_what_tracebacks_have_in_common_is_said_once(tracebacks, told):
    assert report.failed(tracebacks, [], False).startswith(told)
