"""README, the pages of docs/, TEACHING, CONTRIBUTING, LICENSE and others say what is so."""

import ast
import datetime
import re

import pytest
import yaml

from helpers.paths import ROOT
from tools.notebooks import is_appendix
from tools.site.sources import PARTS, USE, at_the_top, leading_somewhere

PAGES = [f"docs/{name}.md" for name in USE]
DOCUMENTS = ["README.md", *PAGES, "TEACHING.md", "CONTRIBUTING.md", "data/README.md"]
WORDS = 1000  # of the README
SAID_IN = ["tools/work.py", "tools/first.py", "helpers/at_work.py", "helpers/board.py"]
SAID_IN += [f"helpers/exercises/{name}.py" for name in ("answers", "core", "groups", "on_ranks")]
SAID_IN += ["tools/board/*.py", "tools/contest/*.py"]
SAID_IN += [f"helpers/{package}/**/*.py" for package in ("cluster", "machine", "cuda", "torch_mpi")]
SOURCES = sorted(path.stem for path in (ROOT / "notebooks" / "source").glob("*.py"))


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def anchors(markdown):
    """Return the anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", markdown, re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_somewhere(name):
    here = (ROOT / name).parent
    prose = re.sub(r"```.*?```", "", text(name), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose)):
        if re.match(r"https?://|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        file = here / path if path else ROOT / name
        assert file.exists(), f"{name} links to {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"{name}: {target}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_command_exists(name):
    known = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    for command in re.findall(r"(?:^|`|&& )make ([a-z-]+)", text(name), re.MULTILINE):
        assert command in known, f"{name}: make {command}"


def test_every_place_on_the_map_is_there():
    page = text("CONTRIBUTING.md").partition("## Where things are\n")[2].partition("\n## ")[0]
    places = re.findall(r"`([\w.]+(?:/[\w.]*)+)`", page)
    assert len(places) > 30
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_every_room_of_helpers_is_on_the_map():
    page = text("CONTRIBUTING.md").partition("## Where things are\n")[2].partition("\n## ")[0]
    rooms = [each.parent.name for each in (ROOT / "helpers").glob("*/__init__.py")]
    assert [room for room in rooms if f"helpers/{room}/" not in page] == []


def test_the_readme_is_short():
    assert len(text("README.md").split()) <= WORDS, "move what not every reader needs to docs/"


def test_the_first_page_of_the_site_says_before_its_picture_how_to_run_the_course():
    top = at_the_top(text("README.md"), "https://a.org/b").partition("\n![")[0]
    assert "[clone the course](https://a.org/b)" in top
    assert "`make lab`" in top
    assert "](players/planner.md)" in top
    assert "http" not in at_the_top(text("README.md")).partition("\n![")[0]


def test_every_page_of_docs_is_in_the_menu_and_in_the_readme():
    assert sorted(PAGES) == sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))
    assert [name for name in PAGES if f"]({name})" not in text("README.md")] == []


def test_the_table_of_notebooks_has_the_order_of_reading():
    rows = re.findall(r"^\| \[(\d\d)_\w+\]", text("README.md"), re.MULTILINE)
    assert rows == [number for numbers in PARTS.values() for number in numbers]


def test_every_path_of_the_readme_meets_what_its_notebooks_need():
    section = text("README.md").partition("## Where to go on")[2]
    first = re.findall(r"\d\d", re.search(r"^Every path begins with (.*)$", section, re.M)[1])
    needs = dict(
        re.findall(r"^\| \[(\d\d)_\w+\].*\| \d+ \|([^|]*)\|$", text("README.md"), re.MULTILINE)
    )
    paths = re.findall(r"^\| [^|]+ \| ((?:\d\d(?:, )?)+) \|$", section, re.MULTILINE)
    assert len(paths) > 2
    for path in paths:
        read = [*first, *path.split(", ")]
        for place, number in enumerate(read):
            assert set(re.findall(r"\d\d", needs[number])) <= set(read[:place]), (path, number)


def test_links_of_pages_in_folders_lead_on_in_the_site(tmp_path):
    told = "[a](../README.md#notebooks) [b](../README.md) [c](RANKS.md#x) [d](../data/README.md) "
    told += "[e](../LICENSE) [f](../data/bench) [g](https://a.org) [h](#x) [i](../../LICENSE)"
    lead = "[a](../index.md#notebooks) [b](../index.md) [c](RANKS.md#x) [d](../data/README.md) "
    lead += '<a href="../files/LICENSE">e</a> f [g](https://a.org) [h](#x) i'
    assert leading_somewhere(told, "docs/USE.md", tmp_path) == lead
    assert (tmp_path / "extra/files/LICENSE").is_file()
    told = "[a](README.md#x) [b](docs/RANKS.md) [c](LICENSE) [d](notebooks/00_start_here.ipynb)"
    lead = told.replace("README", "index").replace("[c](LICENSE)", '<a href="files/LICENSE">c</a>')
    assert leading_somewhere(told, "TEACHING.md", tmp_path) == lead


def test_every_message_of_the_troubleshooting_page_is_said_by_the_code():
    """Each piece between two ellipses stands in one text of the code, an error's name aside."""
    said = [re.sub(r"\\\n", "", text(name)) for name in ("Makefile", "tools/setup.sh")]
    said += [text("tools/gpu.sh"), text("tools/nearest.sh").replace("\\047", "'")]
    for path in (path for pattern in SAID_IN for path in sorted(ROOT.glob(pattern))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said += [node.value for node in ast.walk(tree)
                 if isinstance(node, ast.Constant) and isinstance(node.value, str)]  # fmt: skip
        said += [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    page = text("docs/TROUBLESHOOTING.md")
    lines = re.findall(r"^- (.*?`): ", page, re.MULTILINE)
    messages = [one for line in lines for one in re.findall(r"`([^`]+)`", line)]
    assert len(messages) >= len(lines) == page.count("\n- ") > 50
    for message in messages:
        pieces = re.sub(r"^(\w+(?:Error|Attempted|Answer)): ", r"\1…", message).split("…")
        for words in map(str.strip, pieces):
            assert not words or any(words in one for one in said), f"{message}: who says {words!r}?"


def test_the_table_of_notebooks_is_complete_and_its_minutes_are_the_notebooks():
    rows = dict(
        re.findall(
            r"^\| \[([\dA]\d_\w+)\]\([^)]+\) \|.*\| (\d+) \|[^|]*\|$", text("README.md"), re.M
        )
    )
    assert sorted(rows) == SOURCES
    for stem in SOURCES:
        source = text(f"notebooks/source/{stem}.py")
        minutes = re.search(r"\*Time:\* (\d+) minutes", source)[1]
        assert minutes == rows[stem], f"{stem} says {minutes} minutes: change its row in README.md"


def test_every_notebook_has_a_plan_and_its_minutes_in_the_term():
    """Lesson and homework are no less than what the notebook asks of one reader."""
    plans, term = text("TEACHING.md").split("### A term: ")
    own = {
        stem[:2]: int(re.search(r"\*Time:\* (\d+)", text(f"notebooks/source/{stem}.py"))[1])
        for stem in SOURCES
        if not is_appendix(stem)
    }
    planned = set(re.findall(r"^\| \d+-\d+ \| (\d\d) \|", plans, re.MULTILINE))
    assert planned == set(own)
    given = dict.fromkeys(own, 0)
    lessons = re.findall(r"^\| \d+ \| (\d\d)\b[^|]*\| (\d+) \| ([^|]*) \|$", term, re.MULTILINE)
    assert len(lessons) == 17
    for number, minutes, home in lessons:
        given[number] += int(minutes) + sum(map(int, re.findall(r"(\d+) min", home)))
    given["01"] += given["00"]  # the first lesson begins 01
    own["01"] += own.pop("00")
    for number in own:
        assert given[number] >= own[number], (
            f"notebook {number} says {own[number]} minutes, the term {given[number]}: "
            "in TEACHING.md, *A term*, add minutes in class or at home"
        )


def test_help_names_every_setting():
    makefile = text("Makefile")
    settings = set(re.findall(r"^([A-Z_]+) =$", makefile, re.MULTILINE))
    said = re.findall(r'^\t@echo "(.*)"$', makefile, re.MULTILINE)
    assert not {name for name in settings if not re.search(rf"\b{name}=", " ".join(said))}
    recipes = re.split(r"^(?=[a-z-]+:)", makefile, flags=re.MULTILINE)[1:]
    for recipe in recipes:
        command = recipe.partition(":")[0]
        for name in ("TEST_ARGS", "NB", "SUITE", "OUT", "REQUIRE"):
            if f"$({name})" in recipe or f"$({name})," in recipe:
                lines = [line for line in said if f"{name}=" in line or command in line]
                assert any(command in line for line in lines if f"{name}=" in line), recipe


def test_every_suite_that_is_named_can_be_measured():
    sources = [f"notebooks/source/{stem}.py" for stem in SOURCES]
    for name in (*DOCUMENTS, "deploy/jupyterhub/README.md", *sources):
        for suite in re.findall(r"\bSUITE=([a-z]\w*)", text(name)):
            assert (ROOT / "bench" / f"{suite}.py").is_file(), (name, suite)


def test_every_folder_of_data_states_its_terms():
    folders = {path.name for path in (ROOT / "data").iterdir() if path.is_dir()}
    rows = set(re.findall(r"^\| `(\w+)/` \|(?:[^|]+\|){3}$", text("data/README.md"), re.MULTILINE))
    assert folders <= rows | {"__pycache__"}


def test_the_citation_has_the_keys_and_the_version():
    data = yaml.safe_load(text("CITATION.cff"))
    assert data["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "type"} <= set(data)
    assert data["license"] == ["BSD-3-Clause", "CC-BY-4.0"]
    datetime.date.fromisoformat(data["date-released"])
