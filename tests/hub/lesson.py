"""A lesson on the hub, from the users' making to their removal; what was seen goes to a file.

``python -m tests.hub.lesson FOLDER STUDENTS IDLE`` runs within a world (``tests.hub.world``) and
writes ``FOLDER/seen.json``, which the tests read.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from helpers.paths import ROOT
from tests.hub import assignment, prying
from tests.hub.student import HUB, CellError, Student
from tests.hub.world import HUB as ENVIRONMENT

RECIPE = ROOT / "deploy" / "jupyterhub"
COURSE, CORES, MEMORY = "parallel", 1, 1 << 30
TEACHER = "teacher"
RANKS = """
import json, os
from helpers.cluster import Cluster
from helpers.machine import memory_bytes, usable_cores

def who(number):
    import os
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    return world.allgather((os.getuid(), os.getpid())), world.allreduce(number)

cluster = Cluster(2)
told = {"ranks": cluster.run(who, os.getuid()), "cores": usable_cores(), "memory": memory_bytes()}
print("\\n" + json.dumps(told), end="")
"""
COMMANDS = """
import subprocess
done = subprocess.run(%r, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
print(done.returncode)
print(done.stdout[-4000:])
"""


BOARD = f"{HUB}/services/board/"
PREDICTION = """
from helpers import board
from helpers.exercises.predictions import Predictions

board.join()
guess = Predictions()
guess["time of two ranks"] = 2
print(board.flush(60))
"""


def on_the_board(teacher: Student) -> dict:
    """Open the projector's page as a teacher does; return what it shows."""
    page = teacher.session.get(BOARD + "open", timeout=60)
    page.raise_for_status()
    key = page.url.partition("#")[2]
    state = requests.get(
        BOARD + "api/state", headers={"Authorization": f"Bearer {key}"}, timeout=60
    )
    state.raise_for_status()
    return {name: state.json()[name] for name in ("members", "names", "questions")}


def recipe(heading: str) -> str:
    """Return the commands that the recipe gives under a heading."""
    text = (RECIPE / "README.md").read_text(encoding="utf-8")
    return re.search(rf"^## \d\. {heading}.*?```bash\n(.*?)```", text, re.M | re.S)[1]


def enrol(names: list[str]) -> None:
    """Make the users as the recipe says, homes readable by all, as many systems make them."""
    desk = Path("/srv/class")
    desk.mkdir(mode=0o700)
    subprocess.run("echo HOME_MODE 0755 >>/etc/login.defs", shell=True, check=True)
    (desk / "students.txt").write_text("".join(f"{name}:secret of {name}\n" for name in names))
    subprocess.run(["sh", "-ec", recipe("Students")], cwd=desk, check=True)
    subprocess.run(["useradd", "--create-home", "--groups", "teachers", TEACHER], check=True)
    subprocess.run(["chpasswd"], input=f"{TEACHER}:secret of {TEACHER}", text=True, check=True)


def start_hub(folder: Path, idle: int) -> subprocess.Popen:
    """Start the hub as `make hub` does, and wait until its proxy answers."""
    settings = {
        "MEMORY": f"{MEMORY >> 20}M",
        "CORES": str(CORES),
        "IDLE": str(idle),
        "COURSE": COURSE,
    }
    with (folder / "hub.log").open("w") as output:
        hub = subprocess.Popen(
            [ENVIRONMENT / "bin/python", "-m", "jupyterhub", "-f", RECIPE / "jupyterhub_config.py"],
            env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8"}
            | settings,
            cwd="/srv",
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    answers(hub, 60)
    return hub


def answers(hub: subprocess.Popen, seconds: float) -> None:
    """Wait until the hub's proxy answers; requests' error if it ends, or takes longer."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return requests.get(f"{HUB}/hub/api/", timeout=5).raise_for_status()
        except requests.RequestException:
            if hub.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def sit_down(person: Student) -> None:
    """Log in and open a notebook."""
    person.enter()
    person.open("00_start_here.ipynb")


def type_in(person: Student, command: str, seconds: float = 600.0) -> str:
    """Type a command in the person's home on their server; AssertionError if it fails."""
    status, _, said = person.run(COMMANDS % command, seconds).partition("\n")
    assert status == "0", f"{person.name}: {command}\n{said}"
    return said


def hand_in(student: Student, solve: bool) -> None:
    """Fetch the assignment by JupyterLab's list, answer it unless told otherwise, submit it."""
    given = {"course_id": COURSE, "assignment_id": assignment.NAME}
    student.told("POST", "assignments/fetch", json=given)
    path = f"api/contents/{assignment.NAME}/{assignment.NAME}.ipynb"
    notebook = student.told("GET", path)["content"]
    if solve:
        notebook = assignment.answered(notebook)
        student.told("PUT", path, json={"type": "notebook", "content": notebook})
    listed = student.told("POST", "assignments/submit", json=given)
    assert listed["success"], listed


def returned(student: Student) -> str:
    """Fetch the feedback by JupyterLab's list; return the page."""
    student.told("POST", "assignments/fetch_feedback", json={
        "course_id": COURSE, "assignment_id": assignment.NAME})  # fmt: skip
    below = f"api/contents/{assignment.NAME}/feedback"
    (when,) = student.told("GET", below)["content"]
    return student.told("GET", f"{below}/{when['name']}/{assignment.NAME}.html")["content"]


def lesson(folder: Path, count: int, idle: int, seen: dict) -> None:
    """Hold it; what was seen goes into ``seen``."""
    names = [f"student{number:02d}" for number in range(1, count + 1)]
    enrol(names)
    seen |= {"uids": {name: pwd.getpwnam(name).pw_uid for name in names}, "seconds": {}}
    began = time.monotonic()

    def passed(what: str) -> None:
        seen["seconds"][what] = round(time.monotonic() - began, 1)
        print(f"{seen['seconds'][what]:6.1f} s  {what}", flush=True)
        (folder / "seen.json").write_text(json.dumps(seen, indent=1))

    before = prying.traces(folder)
    hub = start_hub(folder, idle)
    passed("the hub answers")
    teacher = Student(TEACHER, f"secret of {TEACHER}")
    students = [Student(name, f"secret of {name}") for name in names]
    pool = ThreadPoolExecutor(count)

    def all_do(deed) -> list:
        return list(pool.map(deed, students))

    seen["wrong password"] = refused(Student(names[0], "guessed"))
    sit_down(teacher)
    type_in(teacher, f"python -m tools.course ~/{COURSE} 00")
    source = f"/home/{TEACHER}/{COURSE}/source/{assignment.NAME}"
    put = (
        f"import os; os.mkdir({source!r}); open({source + '/' + assignment.NAME + '.ipynb'!r}, 'w')"
    )
    teacher.run(f"{put}.write({assignment.solved()!r})")
    release = [f"nbgrader {what}_assignment {assignment.NAME}" for what in ("generate", "release")]
    type_in(teacher, " && ".join([f"cd ~/{COURSE}", *release]))
    passed("the assignment is released")
    all_do(sit_down)
    passed("all have a notebook open")
    answers = all_do(lambda student: json.loads(student.run(RANKS).splitlines()[-1]))
    seen["told"] = dict(zip(names, answers, strict=True))
    passed("ranks have answered all")
    joined = all_do(lambda student: student.run(PREDICTION))
    seen["waits for the board"] = [said.splitlines()[-1] for said in joined]
    seen["board"] = on_the_board(teacher)
    seen["board of a student"] = students[0].session.get(BOARD + "open", timeout=60).status_code
    passed("all have predicted on the board")
    seen["running"] = {name: prying.ranks(uid) for name, uid in seen["uids"].items()}
    seen["pss"] = {name: prying.pss(uid) for name, uid in seen["uids"].items()}
    seen["pss of the hub"] = prying.pss(0)
    seen["pried"] = prying.all_on_all(students, seen["uids"])
    seen["of all"] = prying.of_all(names[0])
    passed("all have pried into all")
    seen["greedy"] = greed(students[-1])
    seen["others after it"] = all_do(
        lambda one: one is students[-1] or one.run("cluster.run(lambda: 6 * 7)")
    )
    all_do(lambda one: hand_in(one, solve=one is not students[-1]))
    seen["inbound"] = prying.listed(f"/srv/nbgrader/exchange/{COURSE}/inbound", seen["uids"])
    passed("all have submitted")
    sit_down(teacher)  # the kernel was idle
    steps = ("collect", "autograde", "generate_feedback", "release_feedback")
    grade = [f"nbgrader {step} {assignment.NAME}" for step in steps]
    type_in(teacher, " && ".join([f"cd ~/{COURSE}", *grade, "nbgrader export"]), 60 * count + 300)
    seen["grades"] = type_in(teacher, f"cat ~/{COURSE}/grades.csv")
    passed("all are graded")
    seen["idle and there"] = prying.gone(seen["uids"].values(), 2 * idle + 90)
    passed("what was idle has ended")
    all_do(Student.enter)
    seen["feedback"] = dict(zip(names, all_do(returned), strict=True))
    passed("feedback is back")
    all_do(Student.leave)
    teacher.leave()
    everybody = [*seen["uids"].values(), pwd.getpwnam(TEACHER).pw_uid]
    seen["stopped and there"] = prying.gone(everybody, 60)
    hub.send_signal(signal.SIGTERM)
    seen["hub ended with"] = hub.wait(60)
    seen["left"] = sorted(prying.traces(folder) - before)
    seen["processes"] = prying.processes()
    for name in [*names, TEACHER]:
        subprocess.run(["userdel", "--remove", name], check=True, stderr=subprocess.DEVNULL)
    seen["homes"] = os.listdir("/home")
    passed("all are gone")


def refused(person: Student) -> bool:
    """Return whether the hub lets this person in not."""
    try:
        person.enter()
    except (PermissionError, requests.HTTPError):
        return True
    return False


def greed(student: Student) -> str:
    """Ask for more memory than is given to one; return what became of it."""
    try:
        return student.run(f"len(bytearray({2 * MEMORY}))")
    except CellError as error:
        return str(error)


if __name__ == "__main__":
    where, number, seconds = sys.argv[1:]
    found: dict = {}
    lesson(Path(where), int(number), int(seconds), found)
