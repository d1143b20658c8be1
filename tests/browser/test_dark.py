"""A dark theme has dark figures: no glaring box, all text and lines read, photographs untouched."""

import base64

import numpy as np
import pytest
from matplotlib.colors import to_hex

from helpers.paths import ROOT
from helpers.plots import dark, style
from tests.browser.driver import take, wait_for
from tests.browser.looks import GLARING, contrast, glare, looked_at

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
SCRIPT = ROOT / "tools/jupyterlab/labextensions/course-figures/static/dark.js"
GREYS = ["#111111", "#222222", "#555555", "#595959", "#767676", "#888888", style.GREY]
PALE = ["#ddd", "#eeeeee", "#f1f1f1", "#f4f4f4"]
FILLS = [*style.PALETTE, *GREYS, "#00664b", "#00795a", "#8c6d31", "#7b6fd0"]
SET_UP = """import numpy as np, matplotlib.pyplot as plt
from types import SimpleNamespace
from IPython.display import HTML
from helpers.collectives.schedule import model
from helpers.plots import attention, style
from helpers.plots.animation import animate
style.use()"""
CELLS = {
    "lines": "for k in range(4):\n    plt.plot([1, 2], [3, 4 + k], label=f'{k}')\nplt.legend()",
    "ink": "plt.imshow(np.eye(9), cmap='gray_r')\nplt.grid(False)",
    "table": "found = SimpleNamespace(words=[[0.2, 0.8]], sentences=[1.0])\n"
    "HTML(attention.document_html([['two', 'words']], found, 'a document'))",
    "player": "animate(model('ring', 4))",
    "folded": "from matplotlib.figure import Figure\nfrom helpers.cluster.kernel import folding\n"
    "figure = Figure(figsize=(6, 3))\naxes = figure.subplots(1, 2)\n"
    "axes[0].imshow(np.full((4, 6, 3), 200, np.uint8))\n"
    "axes[1].plot([1, 2])\nfor ax in axes:\n    ax.axis('off')\n"
    "data, said = get_ipython().display_formatter.format(figure, include={'image/png'})\n"
    "from base64 import b64encode\nraw = data['image/png']\n"
    "data = {'image/png': raw if isinstance(raw, str) else b64encode(raw).decode()}\n"
    "assert said['image/png']['kept'], said\n"
    "page = folding.as_html([([0], [('display', {'data': data, 'metadata': said})])])\n"
    "HTML(page.replace('<details>', '<details open>'))",
    "photograph": "plt.imshow(np.full((40, 60, 3), 200, np.uint8))\nplt.grid(False)",
    "svg": "%config InlineBackend.figure_formats = ['svg']\nstyle.use()\n"
    "fig, axes = plt.subplots(1, 2, figsize=(6, 3))\n"
    "axes[0].imshow(np.full((4, 6, 3), 200, np.uint8))\naxes[1].plot([1, 2])\n"
    "for ax in axes:\n    ax.axis('off')",
}


@pytest.fixture
def both(browser):
    """How a page looks in the light and in the dark theme, by its parts."""
    page = browser.new_page(viewport={"width": 1000, "height": 900}, color_scheme="dark")

    def show(body: str, selector: str) -> dict[str, np.ndarray]:
        seen = {}
        for theme in ("light", "auto"):
            page.set_content(f"<body data-theme={theme} style='margin: 0'>{body}</body>")
            page.add_script_tag(content=SCRIPT.read_text(encoding="utf-8"))
            page.wait_for_timeout(100)
            seen[theme] = looked_at(page.locator(selector).first)
        return seen

    yield show
    page.close()


def test_every_colour_is_read_as_well_as_on_white(both):
    white, black = "#ffffff", "#000000"
    text = {fill: to_hex(style.legible(fill)) for fill in FILLS}
    all_of = sorted({to_hex(c) for c in [*FILLS, *PALE, *text.values(), white, black]})
    boxes = "".join(f'<i style="background: {c}"></i>' for c in all_of)
    page = f"<style>i {{ display: block; height: 20px; width: 90px }}</style>{boxes}"
    seen = both(f'<div class="picture" style="padding: 0; width: 90px">{page}</div>', ".picture")
    became = {
        to_hex(was / 255): now / 255
        for was, now in zip(seen["light"][10::20, 45], seen["auto"][10::20, 45], strict=True)
    }
    assert set(became) == set(all_of)
    faults = []
    for fill in all_of:
        for over in {to_hex(style.ink(fill)), "#111111"}:
            found = contrast(became[fill], became[over])
            if contrast(fill, over) >= 4.5 > found:
                faults.append(f"{over} on {fill}: {found:.2f}")
        if (needed := contrast(fill, white)) >= 3 or fill in map(to_hex, style.PALETTE[:6]):
            needed, found = 4.5 if needed >= 4.5 else 3, contrast(became[fill], became[white])
            if found < needed:
                faults.append(f"{fill} on white: {found:.2f} of {needed}")
    assert faults == []
    assert glare(became[white][None, None] * 255) < 0.01


@pytest.mark.parametrize(("kind", "of"), [("png", "png"), ("svg", "svg+xml")])
def test_a_photograph_in_a_figure_stays_as_it_is(both, kind, of):
    import matplotlib.pyplot as plt
    from IPython.core.pylabtools import print_figure

    figure, axes = plt.subplots(1, 2, figsize=(8, 3))
    axes[0].imshow(np.full((4, 6, 3), 200, np.uint8))
    axes[1].imshow(np.zeros((4, 6)), cmap="gray_r")
    for ax in axes:
        ax.axis("off")
    drawn = print_figure(figure, fmt=kind)
    (part,) = dark.kept(figure, drawn)
    plt.close(figure)
    code = base64.b64encode(drawn if kind == "png" else drawn.encode()).decode()
    image = f"<img class='course-figure' data-kept='[{part}]' src='data:image/{of};base64,{code}'>"
    seen = both(f"<p><b>before</b></p>{image}", "img")
    height, width = seen["light"].shape[:2]
    left, top, right, low = (np.array(part) * [width, height, width, height]).round().astype(int)
    inside = np.s_[top + 2 : low - 2, left + 2 : right - 2]
    assert (seen["light"][inside] == 200).all()
    assert (seen["auto"][inside] == 200).all()
    outside = np.ones((height, width), bool)
    outside[top - 2 : low + 2, left - 2 : right + 2] = False
    outside[-1] = outside[:, -1] = False  # an SVG ends within a point of the page
    assert seen["light"][outside].min() > 250, "paper, and the map in ink on it"
    assert seen["auto"][outside].max() < 30


@pytest.mark.part(of="browser")
def test_nothing_glares_in_jupyterlab(opened):
    shown = opened("dark", [SET_UP, *CELLS.values()])
    shown.run_all()
    wait_for([shown], seconds=120)
    assert shown.failed() == []
    light, now = {}, {}
    for theme, seen in (("Light", light), ("Dark", now)):
        shown.dress(theme)
        for index, name in enumerate(CELLS, 1):
            box = shown.show(index).locator(".jp-OutputArea-output").last
            box.locator("img, .picture, table").first.wait_for()
            shown.page.wait_for_timeout(300)  # until a player has drawn
            seen[name] = looked_at(box)
            take(shown.page, f"dark-{name}-{theme}")
    assert all(glare(light[name]) > 0.4 for name in CELLS), "the same were bright on white"
    assert {name for name in CELLS if glare(now[name]) > GLARING} == {"photograph"}
    for name in ("photograph", "folded", "svg"):
        same = (light[name] == 200) & (now[name] == 200)
        assert same.sum() > 0.9 * (light[name] == 200).sum() > 0, f"the {name} is no negative"
