"""Figures are drawn without a screen and end with their test; pages are opened in a browser."""

import matplotlib as mpl
import pytest
from matplotlib import pyplot

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


@pytest.fixture
def ax():
    return pyplot.subplots()[1]


@pytest.fixture
def show(browser, tmp_path):
    """Returns a page with the HTML that it is given; fails if a script in it does, or fetches."""
    page = browser.new_page(viewport={"width": 1280, "height": 720}, reduced_motion="reduce")
    page.set_default_timeout(20_000)
    trouble = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda r: r.url.startswith(("file:", "data:")) or trouble.append(r.url))

    def shown(html: str):
        (tmp_path / "page.html").write_text(f"<!doctype html><meta charset='utf-8'>{html}")
        page.goto((tmp_path / "page.html").as_uri())
        return page

    yield shown
    page.close()
    assert trouble == []
