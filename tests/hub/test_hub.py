"""A class on a real JupyterHub with its proxy: real users, their ranks, grades, and what is left.

``HUB_STUDENTS=10 make test-all PART=hub`` has ten students in place of three.
"""

import json
import os
import re
import signal
import subprocess

import pytest

from helpers.paths import ROOT
from tests.hub import lesson, world

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.hub,
    pytest.mark.part(of="hub"),
    pytest.mark.timeout(1200),
]
STUDENTS = int(os.environ.get("HUB_STUDENTS") or 3)


@pytest.fixture(scope="module")
def installed():
    """The hub's environment, on a machine that can be a class."""
    if why := world.why_not():
        pytest.skip(why)
    made = subprocess.run(
        ["sh", str(lesson.RECIPE / "setup.sh")], capture_output=True, text=True, timeout=600
    )
    if made.returncode:
        pytest.skip(made.stderr.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def seen(installed, tmp_path_factory):
    """What a lesson on the hub was like, from making the users to removing them."""
    folder = tmp_path_factory.mktemp("hub")
    told, said = world.hold(folder, STUDENTS)
    if not told:
        pytest.fail(said, pytrace=False)
    return told


def test_ranks_of_a_student_meet_each_other_and_nobody_elses(seen):
    everybody = []
    for name, told in seen["told"].items():
        uid = seen["uids"][name]
        for ranks, total in told["ranks"]:
            assert [of for of, _ in ranks] == [uid, uid]
            assert total == 2 * uid
        numbers = [number for _, number in told["ranks"][0][0]]
        assert sorted(seen["running"][name]) == sorted(numbers)  # all while the others' ran too
        everybody += numbers
    assert len(set(everybody)) == 2 * STUDENTS


def test_memory_and_cores_are_held_and_greed_harms_nobody_else(seen):
    for told in seen["told"].values():
        assert (told["memory"], told["cores"]) == (lesson.MEMORY, lesson.CORES)
    assert "the kernel has died" in seen["greedy"]
    *others, _ = seen["others after it"]
    assert others == ["[42, 42]"] * (STUDENTS - 1)


def test_nobody_reads_anothers_home_socket_or_connection_file(seen):
    for name, pried in seen["pried"].items():
        assert pried["sockets"] >= 2 * (STUDENTS - 1), name
        assert pried["connection files"] >= STUDENTS - 1, name
        assert pried["paths"] > 50 * (STUDENTS - 1), name
        assert pried["reached"] == []
    assert seen["of all"]["of root's"] == []


def test_nobody_hears_anothers_kernel_or_is_served_by_anothers_server(seen):
    for pried in seen["pried"].values():
        assert pried["ports"] >= 6  # a server's and a kernel's
        assert pried["heard"] == []
        through_the_proxy, *directly = pried["served"]
        assert through_the_proxy in (403, 404)
        assert set(directly) <= {0, 403, 404}
        assert set(directly) & {403, 404}  # the server itself was asked
    assert seen["of all"]["abstract"] == []
    assert seen["of all"]["outside"] == []
    assert seen["wrong password"] is True


def test_nobody_changes_the_installation(seen):
    assert seen["of all"]["writable"] == []


def test_all_submit_and_get_their_grades_and_feedback(seen):
    assert len(seen["inbound"]["there"]) == STUDENTS
    assert seen["inbound"]["could"] == []
    grades = dict(re.findall(r"^first_ranks,.*?,(student\d+),.*?,(\d\.\d),", seen["grades"], re.M))
    *solved, empty = seen["uids"]
    assert {name: float(grade) for name, grade in grades.items()} == {
        **dict.fromkeys(solved, 3.0),
        empty: 0.0,
    }
    for name, page in seen["feedback"].items():
        assert f"(Score: {float(grades[name])} / 3.0)" in page


def test_what_is_idle_ends_and_nothing_is_left(seen):
    assert seen["idle and there"] == []
    assert seen["stopped and there"] == []
    assert seen["hub ended with"] == 0
    assert seen["left"] == []
    assert seen["processes"] == []
    assert seen["homes"] == []


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM"])
def test_make_hub_starts_it_and_leaves_nothing_when_it_is_ended(installed, tmp_path, how):
    seen, said = world.watch(tmp_path, 600, "tests.hub.typed", how)
    if not seen:
        pytest.fail(said, pytrace=False)
    assert seen["cell"] == "42"
    assert seen["running"] >= 5  # make, hub, proxy, the student's server and kernel
    assert seen["ended with"] in (0, 2, -signal.Signals[how])  # 2: make calls it an error
    assert (seen["processes"], seen["left"], seen["listening"]) == ([], [], [])


def test_a_class_predicts_together_by_the_hubs_own_tokens(seen):
    assert seen["waits for the board"] == ["0"] * STUDENTS
    (question,) = seen["board"].pop("questions")
    assert seen["board"] == {"members": STUDENTS, "names": []}
    assert (question["name"], question["said"]) == ("time of two ranks", STUDENTS)
    assert seen["board of a student"] == 403


EXAMPLES = {
    "logins/oauth.py": ("LocalGenericOAuthenticator", "CourseSpawner"),
    "logins/ldap.py": ("LDAPAuthenticator", "CourseSpawner"),
    "logins/lti.py": ("LTI13Authenticator", "CourseSpawner"),
    "containers/docker.py": ("PAMAuthenticator", "DockerSpawner"),
}


@pytest.mark.parametrize("file", EXAMPLES)
def test_jupyterhub_knows_every_setting_of_the_examples(installed, tmp_path, file):
    text = (lesson.RECIPE / file).read_text(encoding="utf-8")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "own.py").write_text(text)
    hub, packages = [str(world.HUB / "bin" / "python"), "-m"], tmp_path / "packages"
    install = ["pip", "install", "-q", "--target", str(packages), "-c", "requirements.txt"]
    install += ["-c", "deploy/jupyterhub/requirements.txt"]
    wanted = re.search(r"-m pip install (\S+)$", text, re.M)[1]
    subprocess.run([*hub, *install, wanted], cwd=ROOT, check=True, timeout=600)
    done = subprocess.run(
        [*hub, "tests.hub.own", str(tmp_path / "state")],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(packages), "MEMBERS": "root"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["authenticator"], told["spawner"]) == EXAMPLES[file]
    assert told["unknown"] == []
    assert set(told["unused"]) <= {"ConfigurableHTTPProxy", "PAMAuthenticator"}
    assert (told["environment"] == []) == (told["spawner"] == "DockerSpawner")
