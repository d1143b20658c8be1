"""Single pages from a finished site, each with all that it needs in one file (``make html``).

For a class without a network, for a stick, for an attachment: a notebook's page carries its styles,
its scripts and its pictures. What is not among the pages is not linked to.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Tag

from tools.site import instant
from tools.site.faults import resolve

SCRIPTS = (
    "furo.js",
    "course.js",
    "states.js",
    "dark.js",
    "players.js",
)  # the others serve the search


def write(site: Path, notebooks: Iterable[str], output: Path) -> list[Path]:
    """Write a page for each notebook, the glossary, the players, and the first page.

    Pages of other notebooks that `output` has stay, and are linked to.
    """
    output.mkdir(parents=True, exist_ok=True)
    names = {f"notebooks/{name}.html": f"{name}.html" for name in (*notebooks, "glossary")}
    names |= {f"{page}.html": f"{page.rpartition('/')[2]}.html" for page in instant.PAGES}
    names["index.html"] = "index.html"
    there = {f"notebooks/{path.name}": path.name for path in output.glob("[0-9A][0-9]_*.html")}
    for page, name in names.items():
        (output / name).write_text(single(site, page, there | names), encoding="utf-8")
    return [output / name for name in names.values()]


def single(site: Path, page: str, names: Mapping[str, str]) -> str:
    """Return a page of a site as one that stands alone, beside pages with these new names."""
    soup = BeautifulSoup((site / page).read_bytes(), "html.parser")
    for needless in soup.select("form, link:not([rel=stylesheet])"):
        needless.decompose()
    for tag in soup.select("link[href]"):
        style = soup.new_tag("style")
        style.string = _file(site, page, tag["href"]).read_text("utf-8")
        tag.replace_with(style)
    for tag in soup.select("script[src]"):
        file = _file(site, page, tag.extract()["src"])
        if file.name in SCRIPTS:
            script = soup.new_tag("script")
            script.string = file.read_text("utf-8").replace("</script", "<\\/script")
            soup.body.append(script)
    for tag in soup.select("img[src], source[srcset]"):
        attribute = "src" if tag.name == "img" else "srcset"
        if not tag[attribute].startswith("data:"):
            tag[attribute] = _embedded(_file(site, page, tag[attribute]))
    for link in soup.select("a[href]"):
        if link.decomposed:  # with the entry of the menu that it stood in
            continue
        parts = urlsplit(link["href"])
        if parts.scheme or parts.netloc or not parts.path:
            continue
        name = names.get(resolve(site, page, parts.path))
        if name is None:
            _without(link)
        else:
            link["href"] = name + (f"#{parts.fragment}" if parts.fragment else "")
    for part in soup.select(".sidebar-tree ul"):
        if not part.find("li"):
            if caption := part.find_previous_sibling("p", class_="caption"):
                caption.decompose()
            part.decompose()
    return str(soup)


def _without(link: Tag) -> None:
    """Take away a link to what is not there; in a text its words stay."""
    if entry := link.find_parent("li") if link.find_parent(class_="sidebar-tree") else None:
        entry.decompose()
    elif link.find_parent(class_="related-pages"):
        link.decompose()
    else:
        link.unwrap()


def _file(site: Path, page: str, address: str) -> Path:
    return (site / page).parent / unquote(urlsplit(address).path)


def _embedded(file: Path) -> str:
    kind = mimetypes.guess_type(file.name, strict=False)[0]
    return f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"
