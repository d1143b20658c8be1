"""Sentences and words of package descriptions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.datasets.text import NAME, NUMBER, sentences, words


def test_markup_links_and_the_own_name_are_dropped():
    description = (
        "aspell-ga dictionary\n Homepage: https://a.b/text\n See <https://a.b/c> or x@y.org.\n"
        " .\n  * aspell-ga item\n  1. numbered\n    continued"
    )
    assert sentences(description, ["aspell-ga", "aspell"]) == [
        f"{NAME} dictionary",
        "See or .",
        f"{NAME} item",
        "numbered continued",
    ]


def test_a_name_inside_another_word_stays():
    assert sentences("the r-base tool r", ["r"]) == [f"the r-base tool {NAME}"]


@pytest.mark.parametrize(
    ("paragraph", "count"),
    [
        ("It is fast, e.g. Quick. It works.", 2),
        ("By J. Smith et al. It works!", 1),
        ('He said "stop." Then he left.', 2),
        ("Es läuft. Änderungen folgen. Über alles! Ödes? Éclair. Øl. Żółw. Да. Ναι.", 9),
        ("Von Ö. Müller und A. Übel. Es geht.", 2),
        ("Es läuft. (Überall.) Das ist alles.", 3),
        ("es läuft. ähnlich wie zuvor", 1),
        ("version 1.2 of it. lower case goes on", 1),
    ],
)
def test_full_stops(paragraph, count):
    assert len(sentences(f"x\n {paragraph}")) == 1 + count


@pytest.mark.parametrize("empty", ["", "\n", "\n .\n .\n", "...", "\n  *\n"])
def test_nothing_said_gives_no_sentence(empty):
    assert sentences(empty) == []


@given(st.text(max_size=200))
def test_any_text_gives_sentences_that_have_words(description):
    for sentence in sentences(description):
        assert words(sentence)
        assert "\n" not in sentence


def test_numbers_become_one_word():
    assert words("2200/2300") == [NUMBER, NUMBER]
