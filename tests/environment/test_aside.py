"""An environment that is built aside works under its final name, and touches the one in use not."""

import subprocess
import threading
import venv
import zipfile
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tools import aside, probe


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_scripts_work_after_the_renaming_and_the_old_ones_until_then(tmp_path):
    folder = tmp_path / "a course, é"
    new, old = folder / ".venv.new", folder / ".venv"
    venv.create(new, with_pip=True, symlinks=True)
    aside.settle(new, old)
    new.rename(old)
    first = said(old / "bin/pip", "--version")
    assert f"from {old}/lib" in first
    activated = said("sh", "-c", '. "$1"/bin/activate && command -v pip', "sh", old)
    assert activated == f"{old}/bin/pip\n"

    aside.copy(old, new)
    assert (new / "bin/pip").samefile(old / "bin/pip"), "a hard link: nothing is written twice"
    options = ("--disable-pip-version-check", "--no-index", "--force-reinstall")
    module = "import sys\ndef main(): print('hello from', sys.prefix)\n"
    wheel = make_wheel(
        tmp_path, "greet", module=module, scripts="[console_scripts]\ngreet=greet:main"
    )
    said(new / "bin/python", "-m", "pip", "install", *options, wheel)
    assert not (old / "bin/greet").exists()
    aside.settle(new, old)
    assert said(old / "bin/pip", "--version") == first
    old.rename(folder / ".venv.old")
    new.rename(old)
    assert said(old / "bin/greet") == f"hello from {old}\n"


def make_wheel(folder, name, **more):
    """Write a wheel that pip installs; ``more`` are a module's text and its entry points."""
    path, about = folder / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    files = {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
        f"{name}.py": more.get("module", ""),
        f"{about}/entry_points.txt": more.get("scripts", ""),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


class Index(BaseHTTPRequestHandler):
    """An index: under /good it has PyTorch, under /old another version, else nothing."""

    def do_GET(self):
        version = {"/good/torch/": "2.13.0%2Bcpu", "/old/torch/": "2.1.0"}.get(self.path)
        self.send_response(200 if version else 404)
        self.end_headers()
        self.wfile.write(f"<a href=x>torch-{version}-cp311.whl</a>".encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def index():
    server = HTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_index_is_asked_for_pytorch(index):
    refusal = partial(probe.refusal, settings={})
    assert refusal(f"{index}/good") == refusal(f"{index}/good/") == ""
    assert refusal(f"{index}/old") == "has no PyTorch 2.13.0"
    assert refusal(f"{index}/bad") == "has no PyTorch (it answers 404 Not Found)"
    assert refusal("http://127.0.0.1:1") == "does not answer ([Errno 111] Connection refused)"
    assert refusal("bad").startswith("does not answer (unknown url type")


def test_one_that_hangs_is_not_waited_for(index):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert probe.refusal(address, {}, limit=0.2) == "does not answer (timed out)"


def test_pips_proxy_is_taken(index):
    found = probe.refusal("http://nowhere.invalid/good", {"proxy": index})
    assert found == "has no PyTorch (it answers 404 Not Found)", "by way of the proxy"
