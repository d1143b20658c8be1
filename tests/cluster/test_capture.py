"""What a rank prints is kept, and nothing of that can stop the rank; a widget is kept as words."""

from __future__ import annotations

import gc
import io
import sys
import threading

import ipywidgets
import pytest

from helpers.cluster.rank.capture import STILL, Capture, as_text


class Hooks:
    def register_hook(self, hook):
        pass

    def unregister_hook(self, hook):
        pass


class Shell:
    display_pub = displayhook = Hooks()


class KernelsStream(io.StringIO):
    """A stream as a kernel has it: a write holds a lock that a flush waits for."""

    def __init__(self):
        super().__init__()
        self.lock, self.waited = threading.Lock(), 0

    def write(self, text):
        with self.lock:
            gc.collect()  # as it may happen at any time
            return super().write(text)

    def flush(self):
        if not self.lock.acquire(blocking=False):
            self.waited += 1
            return
        self.lock.release()


def kernels_streams(monkeypatch):
    both = KernelsStream(), KernelsStream()
    monkeypatch.setattr(sys, "stdout", both[0])
    monkeypatch.setattr(sys, "stderr", both[1])
    return both


def test_a_stream_collected_during_a_write_does_not_wait_for_it(monkeypatch):
    streams = kernels_streams(monkeypatch)
    for _ in range(2):  # the second time the first time's streams are garbage
        with Capture(Shell()) as parts:
            sys.stdout.circle, sys.stderr.circle = sys.stdout, sys.stderr
            print("printed")
            print("said", file=sys.stderr)
    assert parts == [("stdout", "printed\n"), ("stderr", "said\n")]
    assert [stream.waited for stream in streams] == [0, 0]
    assert [stream.getvalue() for stream in streams] == ["printed\n" * 2, "said\n" * 2]


def test_closing_leaves_the_kernels_stream_open(monkeypatch):
    streams = kernels_streams(monkeypatch)
    with Capture(Shell()) as parts:
        sys.stdout.close()
        print("still here", flush=True)
    assert parts == [("stdout", "still here\n")]
    assert not streams[0].closed


TQDM = ["50%", ipywidgets.FloatProgress(0.5), " 3/6 [00:01&lt;00:01]"]


@pytest.mark.parametrize(
    ("widget", "says"),
    [
        (
            ipywidgets.HBox([ipywidgets.HTML(x) if isinstance(x, str) else x for x in TQDM]),
            "50% 3/6 [00:01<00:01]",
        ),
        (ipywidgets.IntProgress(4, 0, 10, description="load"), "load 4/10"),
        (ipywidgets.HTML("<b>1 &lt; 2</b>"), "1 < 2"),
        (ipywidgets.HTML("<td>1</td><td>2</td><br>3"), "1 2 3"),
        (ipywidgets.Label("a < b and c > d"), "a < b and c > d"),
        (ipywidgets.Password(value="secret"), f"[Password] {STILL}"),
        (ipywidgets.Tab([ipywidgets.Label("a"), ipywidgets.Label("b")]), "a b"),
        (ipywidgets.IntSlider(3, description="ranks:"), f"[ranks: 3] {STILL}"),
        (ipywidgets.VBox([ipywidgets.Label("x"), ipywidgets.Text("y")]), f"x [Text: y] {STILL}"),
        (ipywidgets.Button(description="go"), f"[go] {STILL}"),
        (ipywidgets.Output(), "as it was"),
    ],
)
def test_a_widget_says_what_it_shows_and_a_control_that_it_stands_still(widget, says):
    assert as_text(widget, "as it was") == says


def test_pieces_lines_written_over_and_streams_stay_in_order(monkeypatch):
    kernels_streams(monkeypatch)
    capture = Capture(Shell())
    with capture as parts:
        print("a", "b")
        print("50 %", end="")
        assert capture.look() == [("stdout", "a b\n50 %")]
        print("\r100 %", end="")
        print("\nc", file=sys.stderr)
        print("d", flush=True)
        print("e")
    assert parts == [("stdout", "a b\n100 %"), ("stderr", "\nc\n"), ("stdout", "d\ne\n")]


def test_what_another_thread_adds_while_a_cell_clears_comes_after(monkeypatch):
    kernels_streams(monkeypatch)
    capture = Capture(Shell())
    adding = threading.Thread(target=lambda: capture.add("stdout", "b"))

    class Parts(list):
        def clear(self):
            super().clear()
            adding.start()
            adding.join(0.2)  # it has to wait

    capture.parts = Parts()
    with capture:
        print("a", "a")
        message = {"header": {"msg_type": "clear_output"}, "content": {"wait": False}}
        capture._on_display(message)
        adding.join()
        assert capture.look() == [("stdout", "b")]
