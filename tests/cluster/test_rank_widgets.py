"""Widgets that a rank displays, as words."""

import ipywidgets
import pytest

from helpers.cluster.rank.rank_widgets import STILL, as_text

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
