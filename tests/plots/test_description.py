"""What a figure says of itself: titles, axes, and the numbers that it was drawn from."""

import nbformat
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from helpers.plots.description import LONGEST, axes, describe, title
from tools.run import execute


def bars_with_errors(ax):
    ax.errorbar([1, 2], [3, 4], yerr=[1, 1], label="mean")
    ax.plot([1, 2], [5, 6], label="model")


def guides(ax):
    ax.plot([1, 2], [3, 4], label="a")
    ax.axhline(5)
    ax.axvline(2, label="cores")
    ax.axhline(3, label="limit")


def marks(ax):
    ax.imshow(np.arange(6).reshape(2, 3))
    ax.scatter([1, 2], [1, 2], label="runs")
    ax.add_patch(Rectangle((0, 0), 1, 1))
    ax.annotate("here", (0, 0), (1, 1), arrowprops={"arrowstyle": "->"})


def photograph(ax):
    ax.imshow(np.zeros((4, 5, 3)))
    ax.set_axis_off()
    ax.set_title("the source")


def not_numbers(ax):
    ax.plot([1, 2, 3], [np.nan, 5, np.inf], label="a")
    ax.plot([1], [np.nan], label="b")
    ax.plot([], [], label="c")


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda ax: None, "An empty figure."),
        (lambda ax: ax.plot([0, 1], [1, 1e7], label="$O(N^2)$"),
         'Line "O(N^2)": from 1 at 0 to 1.00e+07 at 1.'),
        (not_numbers, 'Line "a": 5 at 2. Line "b": no finite value.'),
        (lambda ax: ax.bar(["ring", "tree"], [2.5, 7], label="seconds"),
         'Bars "seconds": ring 2.5, tree 7.'),
        (bars_with_errors, 'Line "model": from 5 at 1 to 6 at 2.'),
        (lambda ax: [ax.plot([1, 2], [3, 4]), ax.axhline(5)], "Line: from 3 at 1 to 4 at 2."),
        (guides, 'Line "a": from 3 at 1 to 4 at 2. Line "cores": upright at 2. '
         'Line "limit": level at 3.'),
        (lambda ax: [ax.broken_barh([(0, 1)], (0, 1)), ax.set_yticks([0, 1], ["rank 0", "rank 1"])],
         "Rows: rank 0, rank 1."),
        (lambda ax: [ax.plot([1, 2], [3, 4]), ax.set_xticks([1, 2], ["LeNet", "GRU"])],
         "Columns: LeNet, GRU. Line: from 3 at 1 to 4 at 2."),
        (marks, "A map of 2 × 3 values, from 0 to 5. Written in it: here."),
        (photograph, "the source. A picture of 4 × 5 points."),
        (lambda ax: ax.figure.colorbar(ax.pcolormesh(np.ones((2, 2))), ax=ax),
         "A map of 2 × 2 values, from 1 to 1."),
    ],
)  # fmt: skip
def test_what_a_figure_says(ax, draw, said):
    draw(ax)
    assert describe(ax.figure) == said


def test_a_title_is_the_figures_and_the_panels():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    left.set_title("Strong: one picture")
    right.set_title("Weak.", loc="left")
    assert title(figure) == "Strong: one picture; Weak"
    figure.suptitle("Speedup")
    assert title(figure) == "Speedup; Strong: one picture; Weak"
    assert describe(figure).startswith("Speedup. Panel 1 of 2: Strong: one picture.")
    for panel in (4, 5):
        figure.add_subplot(1, 5, panel).set_title(f"panel {panel}")
    assert title(figure) == "", "too many for a caption"


def test_a_formula_is_no_caption(ax):
    ax.set(xlabel="lag", ylabel=r"$\Vert x \Vert$")
    assert axes(ax.figure) == "lag"


def test_what_is_long_is_cut_at_a_word(ax):
    for index in range(40):
        ax.plot([0, 1], [0, index], label=f"a line with a long name {'x' * 80} {index}")
    text = describe(ax.figure)
    assert len(text) <= LONGEST
    assert text.endswith(" …")


@pytest.mark.notebook
def test_a_figure_in_a_notebook_carries_it(tmp_path):
    source = [
        "import matplotlib.pyplot as plt\nfrom helpers.plots import style\nstyle.use()",
        "style.use()",
        "plt.plot([1, 2], [3, 4], label='a')\nplt.show()",
        "fig, ax = plt.subplots()\nax.set_title('second')",
        "%config InlineBackend.figure_formats = ['svg']\nstyle.use()",
        "fig, ax = plt.subplots()\nax.set_title('third')",
    ]
    cells = [nbformat.v4.new_code_cell(text) for text in source]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "n.ipynb")
    done = execute(tmp_path / "n.ipynb", "reader").notebook
    found = [
        (kind, output.metadata[kind]["alt"])
        for cell in done.cells
        for output in cell.outputs
        for kind in output.get("data", {})
        if kind.startswith("image/")
    ]
    assert found == [
        ("image/png", 'Line "a": from 3 at 1 to 4 at 2.'),
        ("image/png", "second."),
        ("image/svg+xml", "third."),
    ]
