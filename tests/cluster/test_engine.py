"""The rank's program: a connection file that is still being written is read when it is whole."""

import json
import threading

import pytest

from helpers.cluster.rank import engine

WHOLE = {
    "location": "localhost", "interface": "tcp://127.0.0.1", "registration": 5000, "key": "k",
    "signature_scheme": "hmac-sha256", "pack": "json", "unpack": "json",
}  # fmt: skip


@pytest.fixture
def rank(tmp_path):
    program = engine.RankEngine(url_file=str(tmp_path / "engine.json"))
    yield program, tmp_path / "engine.json"
    program.clear_instance()


def test_half_a_connection_file_is_waited_for(rank):
    program, path = rank
    text = json.dumps(WHOLE)
    path.write_text(text[:40])
    timer = threading.Timer(0.3, path.write_text, [text])
    timer.start()
    program.load_connection_file()
    timer.join()
    assert program.registration_url == "tcp://127.0.0.1:5000"


def test_a_broken_connection_file_is_an_error_in_the_end(rank, monkeypatch):
    program, path = rank
    path.write_text("{")
    monkeypatch.setattr(engine, "WRITING_SECONDS", 0.1)
    with pytest.raises(ValueError, match="Expecting property name"):
        program.load_connection_file()
