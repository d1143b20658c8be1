"""The cards for teachers and the map of what needs what, made from the notebooks' own words."""

import re

import nbformat
import pytest

from helpers.paths import ROOT
from tools.notebooks import sources
from tools.site import cards

PATHS = sources(ROOT)
NOTEBOOKS = {
    path.stem: nbformat.read(ROOT / "notebooks" / f"{path.stem}.ipynb", 4) for path in PATHS
}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_lesson_has_its_minutes_what_to_ask_and_its_answer(name):
    text = (ROOT / "notebooks" / "source" / f"{name}.py").read_text(encoding="utf-8")
    found = cards.cards(NOTEBOOKS[name])
    assert len(found) == len(re.findall(r"^# ## Lesson ", text, re.MULTILINE))
    for card in found:
        assert card.minutes, card.heading
        assert card.predictions + card.exercises, card.heading
        assert card.answer, card.heading
    exercises = [exercise for card in found for exercise in card.exercises]
    assert all(re.search(r"\([●○]{3}, \d+ minutes\)$", one) for one in exercises), exercises
    for card in found:
        assert _minutes(card.exercises) < int(card.minutes), card.heading
    if found:
        (whole,) = re.findall(r"\*Time:\* (?:about )?(\d+) minutes", text)
        apart = re.findall(r"a project of (\d+) minutes", text)
        lessons = sum(map(int, [*(card.minutes for card in found), *apart]))
        assert lessons <= int(whole) <= lessons + 15, lessons  # the opening, and what breaks
    numbers = re.findall(r"^# ### Exercise (\d+)", text, re.MULTILINE)
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)]


def _minutes(exercises):
    return sum(int(re.findall(r"\d+", one)[-1]) for one in exercises)


def test_links_lead_to_the_notebooks_folder():
    page = cards.page(NOTEBOOKS)
    assert "](notebooks/08_allreduce_animation.ipynb#Lesson-1." in page
    for target in re.findall(r"\]\(([\w/]+\.(?:ipynb|md))", page):
        assert (ROOT / target).exists(), target


def test_the_map_draws_every_need_from_left_to_right():
    needed = {"00": [], "01": ["00"], "02": ["01"], "13": ["01", "02"], "03": []}
    picture = cards.needs_picture(needed)
    at = {n: int(x) for x, n in re.findall(r'<text x="(\d+)"[^>]*>(\w+)</text>', picture)}
    assert set(at) == set(needed)
    assert all(at[one] < at[number] for number, those in needed.items() for one in those)
    assert picture.count("<path d=") - 1 == sum(map(len, needed.values()))
    assert 'aria-label="01 needs 00; 02 needs 01; 13 needs 01 and 02"' in picture
