"""A person at a browser, by HTTP and WebSocket alone: logs in, opens notebooks, runs cells."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
import uuid

import requests
import websocket

HUB = "http://127.0.0.1:8000"
ENDED = (424, 503)  # the server is gone, whether or not the hub has seen it


class CellError(RuntimeError):
    """A cell raised; the message is its traceback."""


class Student:
    """One user of the hub, who has a name and a password."""

    def __init__(self, name: str, password: str) -> None:
        self.name, self.password = name, password
        self.session = requests.Session()
        self.base = f"{HUB}/user/{name}"
        self.socket: websocket.WebSocket | None = None
        self.heard: queue.Queue[dict | None] = queue.Queue()

    def enter(self) -> None:
        """Log in with the password, have the server started, and wait until it answers."""
        deadline = time.monotonic() + 150
        while (page := self._spawn()).status_code in ENDED and time.monotonic() < deadline:
            time.sleep(1)
        if page.status_code != 200 or "/hub/login" in page.url:
            raise PermissionError(f"{self.name}: {page.status_code} at {page.url}")
        while True:
            page = self.session.get(f"{self.base}/lab", timeout=60)
            if page.status_code == 200 and page.url.startswith(f"{self.base}/lab"):
                return
            if page.status_code in ENDED:  # an old one was still ending: ask again
                self._spawn()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: {page.status_code} at {page.url}")
            time.sleep(0.5)

    def _spawn(self) -> requests.Response:
        self.session.get(f"{HUB}/hub/login", timeout=60)
        form = {"username": self.name, "password": self.password}
        form["_xsrf"] = self.session.cookies.get("_xsrf", path="/hub/")
        return self.session.post(f"{HUB}/hub/login?next=%2Fhub%2Fspawn", data=form, timeout=120)

    def ask(self, method: str, path: str, **options) -> requests.Response:
        """Call the own server, as JupyterLab's page does."""
        token = self.session.cookies.get("_xsrf", path=f"/user/{self.name}/")
        headers = {"X-XSRFToken": token or ""}
        address = path if path.startswith("http") else f"{self.base}/{path}"
        return self.session.request(method, address, headers=headers, timeout=120, **options)

    def told(self, method: str, path: str, **options) -> object:
        """Return what the own server answers; requests' HTTPError if it refuses."""
        answer = self.ask(method, path, **options)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def open(self, path: str) -> str:
        """Open a notebook with a kernel of its own; return the kernel's identifier."""
        self.told("GET", f"api/contents/{path}")
        wanted = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}}
        kernel = self.told("POST", "api/sessions", json=wanted)["kernel"]["id"]
        cookies = "; ".join(f"{one.name}={one.value}" for one in self.session.cookies)
        self.socket = websocket.create_connection(
            f"{self.base.replace('http', 'ws', 1)}/api/kernels/{kernel}/channels",
            cookie=cookies,
            origin=HUB,
            timeout=60,
        )
        self.socket.settimeout(None)
        self.heard = queue.Queue()
        threading.Thread(target=listen, args=(self.socket, self.heard), daemon=True).start()
        return kernel

    def run(self, code: str, seconds: float = 120.0) -> str:
        """Run a cell; return what it printed and its value. Raises CellError with its traceback.

        ``queue.Empty``: nothing was heard for so many seconds.
        """
        asked = uuid.uuid4().hex
        header = {"msg_id": asked, "msg_type": "execute_request", "session": asked}
        header |= {"username": self.name, "version": "5.3", "date": ""}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        self.socket.send(json.dumps(message | {"channel": "shell", "buffers": []}))
        said: dict[str | int, str] = {}  # what is there in the end: a display may be updated
        while True:
            heard = self.heard.get(timeout=seconds)
            if heard is None:
                raise ConnectionError(f"{self.name}: the server closed the connection")
            kind, content = heard["header"]["msg_type"], heard["content"]
            if kind == "status" and content["execution_state"] in ("restarting", "dead"):
                raise CellError(f"the kernel has died: {content}")  # has no parent
            if heard["parent_header"].get("msg_id") != asked:
                continue
            if kind == "stream":
                said[len(said)] = content["text"]
            elif kind in ("execute_result", "display_data", "update_display_data"):
                place = content.get("transient", {}).get("display_id", len(said))
                said[place] = content["data"].get("text/plain", "")
            elif kind == "error":
                raise CellError("\n".join([*said.values(), *content["traceback"]]))
            elif kind == "status" and content["execution_state"] == "idle":
                return "".join(said.values())

    def leave(self) -> None:
        """Stop the own server by the hub's page, as *File → Hub Control Panel* does."""
        if self.socket:
            self.socket.close()
        token = self.session.cookies.get("_xsrf", path="/hub/")
        headers = {"X-XSRFToken": token, "Referer": f"{HUB}/hub/home"}
        address = f"{HUB}/hub/api/users/{self.name}/server"
        answer = self.session.delete(address, headers=headers, timeout=120)
        if answer.status_code not in (202, 204):
            raise RuntimeError(f"{self.name}: {answer.status_code} {answer.text}")


def listen(socket: websocket.WebSocket, heard: queue.Queue[dict | None]) -> None:
    """Hear a kernel to the end, then None. Who does not listen answers no ping, and is hung up on.

    Jupyter's server does that after two minutes.
    """
    with contextlib.suppress(websocket.WebSocketException, OSError):
        for text in iter(socket.recv, ""):
            heard.put(json.loads(text))
    heard.put(None)
