"""What a scripted picture was given, read from its HTML as a browser does."""

import json

from bs4 import BeautifulSoup


def values(html: str):
    """Return the data of the only picture in ``html``."""
    (picture,) = BeautifulSoup(html, "html.parser").select("[data-picture]")
    return json.loads(picture["data-values"])
