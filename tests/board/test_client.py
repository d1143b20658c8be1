"""helpers.board and helpers.progress: what is kept, and what leaves the laptop."""

import json

import pytest

from helpers import board, progress
from helpers.exercises.core import exercise
from helpers.exercises.predictions import Predictions
from helpers.predictions import Prediction


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    path = tmp_path / "05_cuda_tiling.ipynb"
    path.write_text(json.dumps({"cells": []}))
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    monkeypatch.delenv("COURSE_BOARD", raising=False)
    monkeypatch.chdir(tmp_path)
    return path


def answered(said, came=7):
    guess = Predictions()
    guess["steps"] = said
    guess.answer("steps", came)


def test_what_was_typed_before_the_answer_stays(notebook, capsys):
    answered(3)
    answered(7)
    Prediction("bytes", 3).answer(7)
    Prediction("bytes", 7).answer(7)
    first, second, third, fourth = capsys.readouterr().out.splitlines()
    assert first == "steps: you predicted 3; it is 7, 2.33 times your number"
    assert second == f"{first} (you knew the answer when you typed 7.0; it is not counted)"
    assert third == "bytes: you predicted 3; it is 7, 2.33 times your number"
    assert fourth.startswith(third)
    assert "not counted" in fourth


def test_who_ran_on_without_a_prediction_can_still_make_one(notebook, capsys):
    answered(...)
    answered(5)
    assert "you predicted nothing; it is 7" in capsys.readouterr().out.splitlines()[0]
    assert progress._read(notebook)["predictions"] == {"steps": {"said": 5.0, "came": 7.0}}


def test_a_fresh_copy_begins_anew(notebook, capsys):
    answered(3)
    progress.forget(notebook)
    answered(6)
    assert capsys.readouterr().out.splitlines()[1].startswith("steps: you predicted 6;")


@pytest.mark.parametrize(
    "variables", [{"JPY_SESSION_NAME": "nowhere.ipynb"}, {"NBGRADER_EXECUTION": "validate"}]
)
def test_nothing_is_kept_elsewhere(notebook, monkeypatch, variables, capsys):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    answered(3)
    answered(7)
    assert "you predicted 7" in capsys.readouterr().out
    assert [path.name for path in notebook.parent.iterdir()] == [notebook.name]


@pytest.mark.parametrize("spoiled", ["", '{"predictions": 3, "solved": []}'])
def test_a_spoiled_file_is_begun_anew(notebook, spoiled):
    (notebook.parent / progress.PLACE).mkdir()
    progress._file(notebook).write_text(spoiled)
    answered(3)
    assert progress._read(notebook)["predictions"]["steps"]["said"] == 3


def test_the_page_says_what_is_done_and_where_to_go_on(notebook):
    @exercise
    def halo(answer):
        assert answer == 1

    graded = {"nbgrader": {"grade": True}}
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["## Lesson 1. Why tiles?\n", "x"]},
        {"cell_type": "code", "metadata": graded, "source": ["check.halo(halo)"]},
        {"cell_type": "markdown", "metadata": {}, "source": "## Lesson 2. Who waits?"},
        {"cell_type": "code", "metadata": graded, "source": ["check.barrier(f)"]},
    ]
    notebook.write_text(json.dumps({"cells": cells}))
    (notebook.parent / "06_broken.ipynb").write_text("{")
    halo(2)
    answered(3)
    assert "| ○ ○ | 1 |" in progress.table(notebook.parent)
    halo(1)
    page = (notebook.parent / progress.PAGE).read_text()
    assert "| [05_cuda_tiling](05_cuda_tiling.ipynb) | ● ○ | 1 |" in page
    assert (
        "**Go on with** [Lesson 2. Who waits?](05_cuda_tiling.ipynb#Lesson-2.-Who-waits?)" in page
    )


def test_without_joining_nothing_waits_and_nothing_is_written(notebook):
    answered(3)
    board.offer("a message", alpha=2e-6)
    board.solved("halo")
    assert not (notebook.parent / progress.PLACE / "board.sqlite").exists()
    assert board.flush() == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("127.0.0.1:9", "ABCDEF"), "there is no board at http://127.0.0.1:9: "),
        ((), "expected the address and the code that the teacher shows"),
        (("127.0.0.1:9",), "got address '127.0.0.1:9' and code ''"),
    ],
)
def test_a_board_that_is_not_there(notebook, arguments, words):
    with pytest.raises(board.BoardError) as caught:
        board.join(*arguments)
    assert words in str(caught.value)


def test_a_wrong_address_in_the_environment_disturbs_once(notebook, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_BOARD", "ABCDEF@127.0.0.1:9")
    answered(3)
    answered(3)
    said = capsys.readouterr().out
    assert said.count("The notebook goes on without the board.") == 1


def test_who_never_joined_has_nothing_to_withdraw(notebook):
    with pytest.raises(board.BoardError, match="you have not joined a board"):
        board.withdraw()


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        (3, 3.0),
        ("3", "3"),
        ("two\nlines\x01\u202e", "two lines"),
        ("7" * 200, "7" * 120),
        (1e31, "1e+31"),
        (float("inf"), "inf"),
        ((1, 2), "(1, 2)"),
        (10**400, str(10**400)[:120]),
        (..., None),
    ],
)
def test_what_is_typed_is_kept_as_a_board_takes_it(typed, kept):
    assert progress.plain(typed) == kept


def test_one_event_that_is_refused_takes_no_other_with_it(notebook, monkeypatch):
    sent = []

    def post(url, body, token=""):
        if any(event["name"] == "bad" for event in body["events"]):
            refused = board.BoardError("no")
            refused.status = 400
            raise refused
        sent.extend(event["name"] for event in body["events"])
        return {}

    monkeypatch.setattr(board, "_post", post)
    monkeypatch.setattr(board, "_wake", lambda: None)
    with board._kept() as kept:
        kept.execute("INSERT INTO membership VALUES ('http://x', 't', 1e12)")
    (notebook.parent / "05 my copy (1).ipynb").write_text(notebook.read_text())
    monkeypatch.setenv("JPY_SESSION_NAME", str(notebook.parent / "05 my copy (1).ipynb"))
    for name in ("first", "bad", "last"):
        board.said(name, 1)
    with board._kept() as kept:
        events = [json.loads(event) for (event,) in kept.execute("SELECT event FROM outbox")]
    assert {event["notebook"] for event in events} == {"05_my_copy__1_"}
    assert board._send_some()
    assert sent == ["first", "last"]
    assert not board._send_some()
