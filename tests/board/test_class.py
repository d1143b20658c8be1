"""A class of real processes: laptops, the board's server, and Chromium as the projector."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from helpers.paths import ROOT

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
ENVIRONMENT.pop("COURSE_BOARD", None)


class Served:
    """`make board` on loopback, which can be killed and started again."""

    def __init__(self, folder):
        self.file, self.port, self.process = folder / "board.sqlite", "0", None
        self.start()

    def start(self):
        command = [sys.executable, "-m", "tools.board", "--no-browser"]
        command += [f"--file={self.file}", f"--port={self.port}"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
        )
        said = ""
        while "Ctrl-C" not in said:
            line = self.process.stdout.readline()
            assert line, f"the board ended: {said}"
            said += line
        self.page = re.search(r"http://\S+", said)[0]
        self.key = self.page.partition("#")[2]
        self.port = re.search(r":(\d+)/", self.page)[1]
        self.code = re.search(r'"([A-Z0-9]{6})"', said)[1]

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        assert self.process.wait(10) in (0, -signal.SIGKILL)
        self.process.stdout.close()

    def ask(self, path, body=None):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self.key}"},
        )
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.read().decode()

    @property
    def state(self):
        return json.loads(self.ask("state"))

    def question(self, name):
        """Show a question, and return what the projector then gets."""
        state = self.state
        (topic,) = [q for q in state["questions"] if q["name"] == name]
        self.ask("show", {"class": state["class"], "notebook": topic["notebook"], "name": name})
        return self.state["shown"]


@pytest.fixture
def board(tmp_path):
    served = Served(tmp_path)
    yield served
    if served.process.poll() is None:
        served.end()


@contextlib.contextmanager
def laptops(board, folder, ways):
    """Start a laptop for each way of behaving, and wait until all have predicted."""
    started = []
    try:
        for number, how in enumerate(ways):
            home = folder / f"laptop{number}"
            home.mkdir()
            command = [sys.executable, "-m", "tests.board.laptop", f"127.0.0.1:{board.port}"]
            started.append(
                subprocess.Popen(
                    [*command, board.code, str(number), how],
                    cwd=home,
                    env=ENVIRONMENT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        for one in started:
            said = ""
            while not said.endswith("predicted\n"):
                line = one.stdout.readline()
                assert line, said
                said += line
        yield started
    finally:
        for one in started:
            if one.poll() is None:
                one.kill()
            one.communicate()


def until(seen, limit=60):
    """Wait until a condition holds."""
    end = time.monotonic() + limit
    while not seen():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)


def a_class(board, folder, ways):
    """A lesson: predictions, a server that is killed and comes back, the answers; check each."""
    stayed, count = ways.count("stay"), len(ways)
    with laptops(board, folder, ways) as started:
        until(lambda: max([q["said"] for q in board.state["questions"]] or [0]) == count)
        hidden = board.question("speed-up on 4 ranks")
        assert sorted(hidden["said"]) == sorted(1.0 + n % 4 for n in range(count))
        assert hidden["came"] == []
        code, page = board.code, board.page
        board.end(signal.SIGKILL)
        for one in started:  # they go on without a network
            one.stdin.write("\n")
            one.stdin.flush()
        time.sleep(1)
        board.start()
        assert (board.code, board.page) == (code, page)
        for one in started:
            said, _ = one.communicate(timeout=120)
            assert "left 0" in said, said
    state = board.state
    assert state["members"] == count - ways.count("leave")
    solved = {one["name"]: one["count"] for one in state["solved"]}
    assert (
        solved["double"] >= stayed
    )  # who flooded is held back, and may have lost nothing but time
    topic = board.question("speed-up on 4 ranks")
    assert len(topic["said"]) == count - ways.count("leave")
    assert 1.5 not in topic["said"]  # typed when the answer was known
    assert topic["came"] == []  # nobody has revealed it
    rows = board.ask("csv").splitlines()
    assert len([row for row in rows if ",solved,double" in row]) == solved["double"]  # sent once
    return state


def test_a_small_class_loses_nothing_when_the_board_is_killed(board, tmp_path):
    state = a_class(board, tmp_path, ["stay", "leave", "stay"])
    assert state["members"] == 2


@pytest.mark.part("browser")
@pytest.mark.browser
@pytest.mark.timeout(600)
def test_thirty_laptops_and_the_projector(board, tmp_path, browser):
    state = a_class(board, tmp_path, ["leave", "flood", *["stay"] * 28])
    assert state["names"] == ["Ada"]
    flooded = [row for row in board.ask("csv").splitlines() if ",flood," in row]
    assert len(flooded) <= 500, "120 a minute, and 400 at once"
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    asked, alerts = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    page.goto(board.page)
    page.get_by_role("button", name="speed-up on 4 ranks").click()
    page.get_by_text("29 predicted (median 2)").wait_for()
    assert page.locator("circle.came").count() == 0
    page.keyboard.press("r")
    page.get_by_text("Measured on 28 laptops").wait_for()
    assert page.locator("circle.came").count() == 28
    page.keyboard.press("ArrowDown")
    page.get_by_role("heading", name="<b>who</b> waits").wait_for()
    page.get_by_role("button", name="a message").click()
    page.get_by_role("heading", name="a message").wait_for()
    page.get_by_text("Measured on 28 laptops").wait_for()
    assert page.locator("circle.came").count() == 28
    assert not alerts
    assert all(url.startswith((f"http://127.0.0.1:{board.port}/", "blob:")) for url in asked)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
