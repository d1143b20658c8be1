"""What each cell shows while it runs: a reader who sees nothing for long thinks that it hangs."""

import nbformat
import pytest

from tools.run import execute
from tools.silence import silent_cells

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(900)]
SLEEP = "from time import sleep\nsleep({})"
CELLS = {
    "silent": SLEEP.format(1.5),
    "at the end": SLEEP.format(1.5) + "\nprint('done')",
    "at the start": "print('begins')\n" + SLEEP.format(1.5),
    "all the time": "from time import sleep\nfor k in range(5):\n    print(k); sleep(0.3)",
    "updated": (
        "from time import sleep\nfrom IPython.display import display\n"
        "shown = display('0', display_id=True)\n"
        "for k in range(5):\n    shown.update(str(k)); sleep(0.3)"
    ),
    "formatted": (
        "class Slow:\n    def __repr__(self):\n"
        "        for k in range(5):\n            shown.update(str(k)); sleep(0.3)\n"
        "        return 'slow'\nSlow()"
    ),
    "short": "1",
}


@pytest.fixture(scope="module", params=["dates", "their text"])
def watched(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("silence") / "n.ipynb"
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS.values()]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "their text":  # as where ipyparallel was imported: it parses its own
            patch.setattr("jupyter_client.session.extract_dates", lambda header: header)
        return execute(path, "reader").notebook


def test_a_cell_that_says_nothing_for_long_is_found(watched):
    found = silent_cells(watched, 1.2)
    assert [list(CELLS)[cell.number - 1] for cell in found] == [
        *("silent", "at the end", "at the start")
    ]
    assert all(1.2 < cell.longest < 5 for cell in found)
    assert found[0].line == "from time import sleep"


def test_what_is_measured_is_no_fault_of_the_file(watched):
    nbformat.validate(watched)
    assert silent_cells(watched) == []


def test_a_kernel_starts_without_a_warning(tmp_path, capfd):
    path = tmp_path / "n.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]), path)
    assert execute(path, "reader").problems == ()
    assert "encryption" not in capfd.readouterr().err
