"""helpers/at_work.py in real kernels: a cell that shows nothing says that it is at work."""

import os
import subprocess
import sys
import threading
import time
from itertools import pairwise

import pytest
from IPython.core.application import ENV_CONFIG_DIRS
from jupyter_client.jsonutil import extract_dates
from traitlets.config import Config

from helpers import at_work
from helpers.paths import ROOT
from tests.cluster.kernel import kernel_and_client
from tools import kernels
from tools.silence import LIMIT

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(300)]
QUICK = "from helpers import at_work; at_work.SILENT, at_work.EVERY = 0.6, 0.2; import time"
LONG = 2.0  # seconds


class Kernel:
    """A kernel, and the texts of a display's states in each of its cells."""

    def __init__(self, folder):
        self.manager, self.client = kernel_and_client(cwd=str(folder))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def run(self, code, reply=None):
        """Execute a cell; return each state of its displays, and its other outputs' types."""
        states, others, self.displays, self.times = [], [], set(), []

        def hook(message):
            kind, content = message["msg_type"], message["content"]
            if kind in ("display_data", "update_display_data"):
                states.append(content["data"]["text/plain"])
                assert bool(content["data"]["text/html"]) == bool(states[-1])
                self.displays.add(content["transient"].get("display_id"))
                date = extract_dates(message["header"]["date"])  # text, where ipyparallel is there
                self.times.append(date.timestamp())
            elif kind in ("stream", "error", "execute_result"):
                value = content.get("data", {}).get("text/plain")
                others.append(content.get("text") or content.get("evalue") or value)

        def typed(message):
            self.asked = time.time()
            time.sleep(LONG)
            self.answered = time.time()
            self.client.input(reply)

        self.client.execute_interactive(
            code, allow_stdin=reply is not None, output_hook=hook, stdin_hook=typed, timeout=120
        )
        return states, others


@pytest.fixture(scope="module")
def living(tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("kernel")) as made:
        yield made


@pytest.fixture
def kernel(living):
    """One kernel for all, in which the extension begins anew."""
    anew = f"%reload_ext helpers.at_work\n{QUICK}\nat_work.HINT = {at_work.HINT}"
    assert living.run(anew) == ([], [])
    return living


def test_a_cell_that_shows_something_has_none_and_what_it_captures_is_its_own(kernel):
    states, others = kernel.run("for k in range(10):\n    print(k, flush=True); time.sleep(0.2)")
    assert (states, "".join(others).split()[0]) == ([], "0")
    states, _ = kernel.run(f"%%capture kept\ntime.sleep({LONG})\nprint('inside')")
    assert states[0].startswith("This cell is at work")
    assert kernel.run("kept.show()") == ([], ["inside\n"])


def test_the_line_counts_the_seconds(kernel):
    states, _ = kernel.run(f"time.sleep({LONG})")
    assert states.pop() == ""
    seconds = [int(text.removeprefix("This cell is at work, ").split()[0]) for text in states]
    assert len(seconds) >= 3
    assert seconds == sorted(seconds)
    assert (seconds[0], seconds[-1]) == (1, 2)


def test_a_reader_sees_it_in_time(tmp_path):
    """With the seconds that a reader's kernel has, and not those of the other tests here."""
    assert at_work.SILENT + at_work.EVERY < LIMIT
    with Kernel(tmp_path) as kernel:
        states, _ = kernel.run(f"import time; time.sleep({LIMIT})")
    assert states[0] in [f"This cell is at work, {seconds} s." for seconds in (3, 4, 5)]


def test_after_long_it_says_how_to_end_the_cell(kernel):
    kernel.run("at_work.HINT = 0.0")
    states, _ = kernel.run(f"time.sleep({LONG})")
    assert states[0].endswith(" s. The button ■ interrupts it.")


def test_a_line_goes_when_the_cell_asks_and_comes_again(kernel):
    states, _ = kernel.run(f"time.sleep({LONG}); input(); time.sleep({LONG})", reply="7")
    at = list(zip(kernel.times, states, strict=True))
    assert any(text for when, text in at if when < kernel.asked)
    assert [text for when, text in at if kernel.asked + 0.5 < when < kernel.answered] in ([], [""])
    assert [text for when, text in at if when < kernel.answered][-1] == ""
    assert any(text for when, text in at if when > kernel.answered)
    assert states[-1] == ""


STRANGE = (
    "class T:\n    def write(self, text): pass\nimport sys; kept, sys.stdout = sys.stdout, T()"
)


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (f"end = time.monotonic() + {LONG}\nwhile time.monotonic() < end: pass", []),
        (f"import asyncio; await asyncio.sleep({LONG})", []),
        (f"get_ipython().run_cell('2 + 3'); time.sleep({LONG})", ["5"]),  # no end of this one
        (f"time.sleep({LONG}); 1 / 0", ["division by zero"]),
        (f"{STRANGE}\ntime.sleep({LONG})\nsys.stdout = kept", []),
    ],
    ids=["busy", "awaits", "a cell within", "fails", "a strange stdout"],
)
def test_a_cell_has_a_line_until_its_own_end(kernel, code, shown):
    states, others = kernel.run(code)
    assert states[0].startswith("This cell is at work")
    assert (states[-1], others) == ("", shown)


def test_a_widget_that_keeps_outputs_gets_none(kernel):
    kernel.run("import ipywidgets; out = ipywidgets.Output()")
    # no browser is here, which would tell the widget that it has what the cell shows
    states, _ = kernel.run(f"out.msg_id = 'this'; time.sleep({LONG}); out.msg_id = ''")
    assert states == []
    states, _ = kernel.run(f"time.sleep({LONG})")
    assert states[-1] == ""


def test_a_line_that_is_there_goes_on_while_a_widget_clears_its_own(kernel):
    """As `interact` does before each call of its function."""
    kernel.run("import ipywidgets; out = ipywidgets.Output()")
    kernel.run("from IPython.display import clear_output")
    inside = f"out.msg_id = 'this'; clear_output(wait=True); time.sleep({LONG}); out.msg_id = ''"
    states, _ = kernel.run(f"time.sleep({LONG}); {inside}")
    assert len(kernel.displays) == 1
    assert len(states) >= 2 * LONG
    assert states[-1] == ""
    assert max(after - when for when, after in pairwise(kernel.times)) < LONG


def test_what_a_cell_clears_is_gone(kernel):
    clear = "from IPython.display import clear_output; clear_output()"
    states, _ = kernel.run(f"time.sleep({LONG}); {clear}; time.sleep({LONG})")
    assert states[-1] == ""
    assert len(kernel.displays) == 2, "a line that was cleared away cannot change any more"


def test_what_a_cell_will_clear_stays_until_then(kernel):
    clear = "from IPython.display import clear_output; clear_output(wait=True)"
    states, others = kernel.run(f"print(1, flush=True); {clear}; time.sleep({LONG}); print(2)")
    assert (states, others) == ([], ["1\n", "2\n"])
    states, _ = kernel.run(f"time.sleep({LONG}); clear_output(wait=True)")
    assert states[-1] == ""


def test_a_widgets_message_meanwhile_does_not_mislead_it(kernel):
    """JupyterLab sends them on a subshell, whose requests are other parents of what is shown."""
    control = kernel.client.control_channel
    message = kernel.client.session.msg("create_subshell_request", {})
    control.send(message)
    subshell = control.get_msg(timeout=30)["content"]["subshell_id"]
    note = kernel.client.session.msg("comm_msg", {"comm_id": "none", "data": {}})
    note["header"]["subshell_id"] = subshell
    threading.Timer(0.3, kernel.client.shell_channel.send, [note]).start()
    states, _ = kernel.run(f"time.sleep({LONG})")
    assert states[0].startswith("This cell is at work")
    assert states[-1] == ""


def test_an_interrupted_cell_leaves_no_line(kernel):
    threading.Timer(LONG, kernel.manager.interrupt_kernel).start()
    states, others = kernel.run("time.sleep(60)")
    assert states[0].startswith("This cell is at work")
    assert states[-1] == ""
    assert len(others) == 1


def test_loaded_twice_it_watches_once_and_unloaded_not_at_all(kernel):
    watching = "print(getattr(get_ipython().kernel.iopub_thread.send_multipart, '__func__'))"
    for magic in ("load", "reload", "unload", "unload", "reload"):
        kernel.run(f"%{magic}_ext helpers.at_work")
        sends = "AtWork" if magic != "unload" else "IOPubThread"
        assert f"{sends}.send_multipart" in kernel.run(watching)[1][0]
    kernel.run(QUICK)
    states, _ = kernel.run(f"time.sleep({LONG})")
    assert states.count("") == 1
    kernel.run("%unload_ext helpers.at_work")
    assert kernel.run(f"time.sleep({LONG})") == ([], [])


def test_what_a_forked_child_prints_counts_too(kernel):
    child = "for k in range(10): print(k, flush=True); time.sleep(0.2)"
    fork = f"import os\nif not (child := os.fork()):\n    {child}\n    os._exit(0)\n"
    states, others = kernel.run(f"{fork}_ = os.waitpid(child, 0)")
    assert states == []
    assert "".join(others).split() == [str(k) for k in range(10)]


def test_a_kernel_starts_beside_a_file_that_hides_the_package(tmp_path):
    (tmp_path / "helpers.py").touch()
    with Kernel(tmp_path) as kernel:
        _, others = kernel.run("import helpers.cluster")
        assert "hides the course's package" in others[0]
        assert kernel.run("print(1)") == ([], ["1\n"])


def test_ipython_in_a_terminal_is_left_alone():
    code = "from IPython import start_ipython; start_ipython(['-c', '%load_ext helpers.at_work'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


def test_the_settings_are_where_ipython_looks_and_leave_the_readers_alone(tmp_path, monkeypatch):
    assert os.path.dirname(kernels.place()) in ENV_CONFIG_DIRS
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    kernels.install()
    written = tmp_path / "etc/ipython/ipython_kernel_config.py"
    assert written.read_text() == kernels.line()
    own = "c = get_config()\nc.IPKernelApp.extensions.append('mine')\n"
    written.write_text(own)
    kernels.install()
    kernels.install()
    assert written.read_text() == own + kernels.line()
    config = Config()
    exec(written.read_text(), {"get_config": lambda: config})
    assert config.IPKernelApp.extensions.get_value([]) == ["mine", at_work.__name__]
    gone = kernels.line().replace(str(ROOT), "/nowhere")
    exec(gone, {"get_config": lambda: pytest.fail("it was asked for")})
