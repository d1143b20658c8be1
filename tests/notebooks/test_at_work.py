"""helpers/at_work.py in real kernels: a cell that shows nothing says that it is at work."""

import subprocess
import sys
import threading
import time

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel

from helpers import at_work
from tools import kernels
from tools.run import execute
from tools.silence import LIMIT, silent_cells

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(300)]
QUICK = "from helpers import at_work; at_work.SILENT, at_work.EVERY = 0.6, 0.2; import time"
LONG = 2.0  # seconds
CELLS = {
    "quick": QUICK,
    "silent": f"time.sleep({LONG})",
    "busy": f"end = time.monotonic() + {LONG}\nwhile time.monotonic() < end: pass",
    "captured": f"%%capture kept\ntime.sleep({LONG})\nprint('inside')",
    "what was captured": "kept.show()",
    "talks": "for k in range(10):\n    print(k, flush=True); time.sleep(0.2)",
    "short": "1",
}


class Kernel:
    """A kernel, and the texts of a display's states in each of its cells."""

    def __init__(self, folder):
        self.manager, self.client = start_new_kernel(cwd=str(folder))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def run(self, code, reply=None):
        """Execute a cell; return each state of its displays, and its other outputs' types."""
        states, others = [], []

        def hook(message):
            kind, content = message["msg_type"], message["content"]
            if kind in ("display_data", "update_display_data"):
                states.append(content["data"]["text/plain"])
            elif kind in ("stream", "error", "execute_result"):
                others.append(content.get("text") or content.get("evalue"))

        def typed(message):
            time.sleep(LONG)
            self.client.input(reply)

        self.client.execute_interactive(
            code, allow_stdin=reply is not None, output_hook=hook, stdin_hook=typed, timeout=120
        )
        return states, others


@pytest.fixture
def kernel(tmp_path):
    with Kernel(tmp_path) as made:
        assert made.run(QUICK) == ([], [])
        yield made


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    path = tmp_path_factory.mktemp("at_work") / "n.ipynb"
    written = [nbformat.v4.new_code_cell(text) for text in CELLS.values()]
    nbformat.write(nbformat.v4.new_notebook(cells=written), path)
    done = execute(path, "reader")
    assert done.problems == ()
    return dict(zip(CELLS, done.notebook.cells, strict=True))


@pytest.mark.parametrize("name", ["silent", "busy", "captured"])
def test_a_silent_cell_has_a_line_that_goes_at_its_end(cells, name):
    (line,) = cells[name].outputs
    assert line.output_type == "display_data"
    assert line.data == {"text/plain": "", "text/html": ""}
    first, longest = cells[name].metadata["silence"]
    assert first < LONG, "it came while the cell ran"
    assert longest < LONG


def test_a_cell_that_shows_something_has_none(cells):
    assert "".join(output.text for output in cells["talks"].outputs).split()[0] == "0"
    assert [output.output_type for output in cells["short"].outputs] == ["execute_result"]


def test_what_a_cell_captures_is_its_own(cells):
    (shown,) = cells["what was captured"].outputs
    assert shown.text == "inside\n"


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


def test_a_cell_that_asks_waits_in_silence(kernel):
    states, others = kernel.run("print('you said', input('a number: '))", reply="7")
    assert (states, others) == ([], ["you said 7\n"])


def test_an_interrupted_cell_and_one_that_fails_leave_no_line(kernel):
    threading.Timer(LONG, kernel.manager.interrupt_kernel).start()
    states, others = kernel.run("time.sleep(60)")
    assert states[0].startswith("This cell is at work")
    assert states[-1] == ""
    assert len(others) == 1
    states, others = kernel.run(f"time.sleep({LONG}); 1 / 0")
    assert (states[-1], others) == ("", ["division by zero"])


def test_loaded_twice_it_watches_once_and_unloaded_not_at_all(kernel):
    watching = "print(len(get_ipython().events.callbacks['pre_run_cell']))"
    (before,) = kernel.run(watching)[1]
    for magic, change in (("load", 0), ("reload", 0), ("unload", -1), ("reload", 0)):
        kernel.run(f"%{magic}_ext helpers.at_work")
        assert int(kernel.run(watching)[1][0]) == int(before) + change
    kernel.run(QUICK)
    states, _ = kernel.run(f"time.sleep({LONG})")
    assert states.count("") == 1
    kernel.run("%unload_ext helpers.at_work")
    assert kernel.run(f"time.sleep({LONG})") == ([], [])


def test_a_process_forked_in_a_cell_goes_its_own_way(kernel):
    code = (
        "import os\nif not (child := os.fork()):\n    time.sleep(0.2); os._exit(0)\n"
        f"os.waitpid(child, 0); time.sleep({LONG})"
    )
    states, others = kernel.run(code)
    assert states[-1] == ""
    assert others == []


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


def test_the_settings_are_read_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    kernels.ensure()
    written = tmp_path / "etc/ipython/ipython_kernel_config.py"
    assert f'"{at_work.__name__}"' in written.read_text()
    written.write_text("# as it is")
    kernels.ensure()
    assert written.read_text() == "# as it is"


def test_silent_cells_finds_none(cells):
    assert silent_cells(nbformat.v4.new_notebook(cells=list(cells.values())), LONG) == []
