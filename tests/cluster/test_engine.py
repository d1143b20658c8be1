"""A rank's program: what C code and children write is shown in order; half a file is waited for."""

from __future__ import annotations

import json
import threading
import time

import pytest

from helpers.cluster import Cluster
from helpers.cluster.rank import engine, remote
from tests.cluster.ways import WAYS

pytestmark = pytest.mark.mpi

IN_ORDER = """
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None)
print("print")
os.write(1, b"os.write\\n")
libc.printf(b"printf\\n")
print("print again")
subprocess.run(["echo", "echo"])
subprocess.run(["echo", "given sys.stdout"], stdout=sys.stdout)
sys.__stdout__.write("sys.__stdout__\\n")
if os.fork() == 0:
    print("a child")
    os._exit(0)
os.wait()
libc.printf("ä, without an end".encode())
print(", and the end")
libc.printf(b"last");
"""
SAID = (
    "print\nos.write\nprintf\nprint again\necho\ngiven sys.stdout\nsys.__stdout__\na child\n"
    "ä, without an end, and the end\nlast"
)


def parts(cluster, source, **options):
    replies = cluster.submit(remote.side, "execute", source, False, timeout=30, **options).replies
    return [reply.parts for _, reply in sorted(replies.items())]


@pytest.fixture(scope="module", params=WAYS)
def cluster(request):
    with Cluster(2, start=request.param) as cluster:
        yield cluster


def test_all_ways_to_write_are_one_text_in_order(cluster):
    assert parts(cluster, IN_ORDER) == [[("stdout", SAID)]] * 2


def test_descriptor_2_is_stderr(cluster):
    source = 'import os\nprint("a")\nos.write(2, b"no!\\n")\nprint("b")'
    assert (
        parts(cluster, source) == [[("stdout", "a\n"), ("stderr", "no!\n"), ("stdout", "b\n")]] * 2
    )


def test_a_cell_has_nothing_of_the_one_before(cluster):
    late = "import subprocess\np = subprocess.Popen('sleep 0.3; echo late', shell=True)"
    assert parts(cluster, late) == [[], []]
    time.sleep(0.6)
    assert parts(cluster, "print('now')") == [[("stdout", "now\n")]] * 2


def test_what_a_thread_prints_after_its_cell_goes_to_the_log(cluster):
    late = "import threading\nthreading.Timer(0.3, print, ['printed late']).start()"
    assert parts(cluster, late) == [[], []]
    time.sleep(0.8)
    folder = cluster._processes.state_dir.parent
    logs = "".join(path.read_text() for path in folder.rglob("*.log"))
    assert logs.count("printed late\n") == 2, sorted(folder.rglob("*"))
    assert "printed late" not in str(dict(cluster._processes.connect().metadata))


def test_an_endless_printf_is_cut(cluster):
    source = (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "for k in range(40_000): libc.printf(b'ten chars\\n')"
    )
    for ((_, text),) in parts(cluster, source):
        assert 200_000 < len(text) < 200_100
        assert text.endswith("… output cut after 200000 characters\n")


def test_a_text_that_is_no_utf8_is_shown(cluster):
    (((_, text),), _) = parts(cluster, "import os\nos.write(1, b'a\\xffb');")
    assert text == "a�b"


def test_it_is_seen_while_the_cell_runs(cluster):
    seen = []
    parts(
        cluster,
        "import os, time\nos.write(1, b'early\\n')\ntime.sleep(2)",
        on_progress=lambda so_far: seen.append(so_far()[1].parts),
    )
    assert [("stdout", "early")] in seen


def test_half_a_connection_file_is_waited_for(tmp_path):
    path = tmp_path / "engine.json"
    program = engine.RankEngine(url_file=str(path))
    text = json.dumps({
        "location": "localhost", "interface": "tcp://127.0.0.1", "registration": 5000, "key": "k",
        "signature_scheme": "hmac-sha256", "pack": "json", "unpack": "json",
    })  # fmt: skip
    path.write_text(text[:40])
    timer = threading.Timer(0.3, path.write_text, [text])
    timer.start()
    program.load_connection_file()
    timer.join()
    program.clear_instance()
    assert program.registration_url == "tcp://127.0.0.1:5000"
