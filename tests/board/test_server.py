"""tools.board: what the server takes, what it refuses, and with which words."""

import json
import uuid

import pytest
from tornado.testing import AsyncHTTPTestCase

from tools.board import server
from tools.board.__main__ import main
from tools.board.store import Store


def event(kind="said", **more):
    value = {"said": {"value": 2.0}, "measured": {"values": {"a": 1.0}}}.get(kind, {})
    return {"id": uuid.uuid4().hex, "kind": kind, "notebook": "01", "name": "it", **value, **more}


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "board.sqlite")
    yield made
    made.close()


@pytest.fixture
def board(store):
    return server.Board(store)


@pytest.fixture
def member(board):
    return board.member(board.join("10.0.0.1", {"code": board.code}))


def refusal(call, *arguments):
    with pytest.raises(server.HTTPError) as caught:
        call(*arguments)
    return caught.value.status_code, caught.value.message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (None, "expected 1 to 50 events"),
        ({"events": [event()] * 51}, "expected 1 to 50 events"),
        ({"events": ["said"]}, "events[0]: expected object, got 'said'"),
        ({"events": [event(kind="run")]}, "events[0].kind"),
        ({"events": [event(code="import os")]}, "unknown key 'code'"),
        ({"events": [event(value=float("inf"))]}, "expected a finite number"),
        ({"events": [event(value=1e31)]}, "expected at most 1e+30"),
        ({"events": [event(value="x" * 121)]}, "at most 120 printable"),
        ({"events": [event(value="a\u202eb")]}, "at most 120 printable"),
        ({"events": [event(name="x" * 121)]}, "events[0].name"),
        ({"events": [event(notebook="../../etc")]}, "events[0].notebook"),
        ({"events": [event(id="1")]}, "events[0].id"),
        ({"events": [event("solved", value=1.0)]}, "expected no value"),
        ({"events": [event("measured", value=1.0)]}, "expected values"),
        ({"events": [event("measured", values={"a": "b"})]}, "expected number"),
        ({"events": [event("measured", values=dict.fromkeys("abcde", 1.0))]}, "at most 4 values"),
    ],
)
def test_what_is_no_event_is_refused_whole(board, member, body, words):
    status, said = refusal(board.send, member, body)
    assert status == 400
    assert words in said
    assert board.store.sent(member) == 0


def test_the_same_event_counts_once(board, member):
    one = event()
    board.send(member, {"events": [one, event("came", value=3.0)]})
    board.send(member, {"events": [one]})
    assert board.store.sent(member) == 2


def test_a_prediction_is_locked_once_its_answer_came(board, member):
    for one in (event(), event(value=3.0), event("came", value=9.0), event(value=9.0)):
        board.send(member, {"events": [one]})
    shown = board.store.question(board.now, "01", "it")
    assert (shown["said"], shown["came"], shown["came_count"]) == ([3.0], [], 1)
    board.store.reveal(board.now, "01", "it", on=True)
    assert board.store.question(board.now, "01", "it")["came"] == [9.0]
    board.store.reveal(board.now, "01", "it", on=False)
    assert board.store.question(board.now, "01", "it")["came"] == []


def test_who_withdraws_leaves_nothing(board, member):
    board.send(member, {"events": [event(), event("solved"), event("measured")]})
    board.store.withdraw(member)
    state = board.store.state(board.now)
    assert not any(state[key] for key in ("members", "questions", "measurements", "solved"))
    assert len(board.store.as_csv(board.now).splitlines()) == 1


def test_a_flood_from_one_is_refused_and_the_others_are_not(board, member):
    other = board.member(board.join("10.0.0.1", {"code": board.code}))
    for _ in range(server.BURST // 50):
        board.send(member, {"events": [event() for _ in range(50)]})
    assert refusal(board.send, member, {"events": [event() for _ in range(50)]})[0] == 429
    assert board.store.sent(member) == server.BURST
    board.send(other, {"events": [event()]})


def test_wrong_codes_are_limited_for_each_address(board):
    for _ in range(server.WRONG_CODES):
        status, said = refusal(board.join, "10.0.0.9", {"code": "WRONG1"})
        assert (status, said) == (403, "'WRONG1' is not the code of this class: read it again")
    assert refusal(board.join, "10.0.0.9", {"code": board.code})[0] == 429
    assert board.join("10.0.0.8", {"code": board.code})


@pytest.mark.parametrize("body", [None, [], {}, {"code": 7}, {"code": "x", "name": "n" * 41}])
def test_a_join_of_another_form(board, body):
    assert refusal(board.join, "10.0.0.7", body)[0] == 400


def test_a_restart_goes_on_with_todays_class_and_new_begins_another(store, board):
    again = server.Board(store)
    assert (again.now, again.code, again.key) == (board.now, board.code, board.key)
    other = server.Board(store, new=True)
    assert other.now != board.now
    assert [one["id"] for one in store.classes()] == [other.now, board.now]


def test_the_table_holds_no_formula(board, member):
    board.send(member, {"events": [event(value="=HYPERLINK(1)"), event(value=-2.0)]})
    rows = board.store.as_csv(board.now).splitlines()
    assert rows[1].endswith(",it,'=HYPERLINK(1)")
    assert rows[2].endswith(",it,-2.0")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host=203.0.113.7"], "cannot listen on 203.0.113.7:8765"),
        (["--file=no/such/folder/b.sqlite"], "expected a file of the board's"),
        (["--file=notes.txt"], "expected a file of the board's"),
    ],
)
def test_a_board_that_cannot_open_says_why(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("no database" * 100)
    assert main(["--no-browser", "--file=b.sqlite", *arguments]) == 1
    assert words in capsys.readouterr().err


class Http(AsyncHTTPTestCase):
    """The routes, over real HTTP."""

    def get_app(self):
        self.store = Store(":memory:")
        self.board = server.Board(self.store)
        return server.application(self.board)

    def ask(self, path, body=None, token=""):
        headers = {"Authorization": f"Bearer {token}"}
        method = "GET" if body is None else "POST"
        return self.fetch(path, method=method, body=body, headers=headers)

    def join(self):
        reply = self.ask("/api/join", json.dumps({"code": self.board.code}))
        return json.loads(reply.body)["token"]

    def test_pages_are_there_and_nothing_else(self):
        for path, kind in (("/", "text/html"), ("/board.js", "text/javascript")):
            reply = self.ask(path)
            assert reply.code == 200
            assert reply.headers["Content-Type"].startswith(kind)
            assert "default-src 'self'" in reply.headers["Content-Security-Policy"]
        for path in ("/..%2fserver.py", "/server.py", "/..", "/store.py"):
            assert self.ask(path).code == 404

    def test_only_the_teacher_sees_the_class(self):
        token = self.join()
        for path, body in (("/api/state", None), ("/api/csv", None), ("/api/show", "{}")):
            assert self.ask(path, body, token).code == 401
            assert self.ask(path, body).code == 401
        assert self.ask("/api/state", token=self.board.key).code == 200
        for path in ("/api/state?class=99", "/api/csv?class=99", "/api/csv?class=²"):
            assert self.ask(path.replace("²", "%C2%B2"), token=self.board.key).code == 404
        assert self.ask("/api/show", "{}", self.board.key).code == 400

    def test_what_is_sent_must_be_small_json_from_a_member(self):
        reply = self.ask("/api/send", json.dumps({"events": [event()]}), "stranger")
        assert (reply.code, reply.body) == (
            401,
            b"this laptop does not belong to the class: join again",
        )
        token = self.join()
        for body in ("", "[" * 5000, '{"events": [NaN]}', "\xff"):
            assert self.ask("/api/send", body, token).code == 400
        assert self.ask("/api/send", json.dumps({"events": [event()]}), token).code == 200
        assert self.ask("/api/withdraw", "", token).code == 200
        assert self.ask("/api/withdraw", "", token).code == 401
