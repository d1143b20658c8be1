"""What a finished site lacks: descriptions of pictures, links that lead somewhere, small pages.

And what it must not show: Markdown that was not rendered, and words meant for programs.
"""

from __future__ import annotations

import copy
import re
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Tag

from helpers.paths import ROOT
from tools.site.pictures import NO_ALT

MAX_BYTES = 2_000_000  # of a page
UNRENDERED = re.compile(r"^\||\$\$|\*\*|<details>")  # Markdown, in a sentence or a table
UNSOLVED = re.compile(r"not attempted|(?:predicted|said) nothing")
RAW = re.compile(r" object at 0x|<(?:function|bound method|built-in) ")  # a repr for programs
MISSING = re.compile(r"\b(?:nan|None)\b")
SUSPECT = re.compile(r"[|<]|\$\$|\*\*|\b(?:nan|None)\b")  # worth a closer look
NAMELESS = re.compile(
    r"(?i)busy machine|too busy|do not believe|^(?:\W*\w\b)*\W*$|^\w*$"
)  # caption
PADDED = re.compile(r"\w +[,;] |\w  +: ")  # a word filled up to a width, then its comma
LONG = re.compile(r"\d(?:[.,]?\d){15,}")  # digits that nobody reads
FETCHED = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\s\"')]+)").findall


def faults(site: Path) -> list[str]:
    """Return a sentence for each page that is too large, fetches from elsewhere or leads astray."""
    files = {path.relative_to(site).as_posix(): path for path in site.rglob("*.html")}
    soups = {name: BeautifulSoup(path.read_bytes(), "html.parser") for name, path in files.items()}
    anchors = {name: {tag["id"] for tag in soup(id=True)} for name, soup in soups.items()}
    found = []
    for name, soup in soups.items():
        size = files[name].stat().st_size
        if size >= MAX_BYTES:
            found.append(f"{name} has {size / 1e6:.2f} MB, expected less than {MAX_BYTES / 1e6:g}")
        found += [f"{name} shows {text[:80]!r}: {why}" for text, why in _unfit(soup)]
        for picture in soup("img"):
            if picture.get("alt", NO_ALT) in ("", NO_ALT):
                found.append(f"{name}: {picture.get('src', '')[:80]} has no description (alt)")
        for picture in soup("svg"):
            if not _named(picture):
                found.append(f"{name}: {str(picture)[:80]} has no name (aria-label)")
        named = soup(["link", "image", "use"], href=True)
        for tag in [*named, *soup(src=True), *soup("source", srcset=True)]:
            address = tag.get("src") or tag.get("srcset") or tag.get("href")
            if re.match(r"(https?:)?//", address) and tag.get("rel") != ["canonical"]:
                found.append(f"{name}: <{tag.name}> fetches {address[:80]}")
            elif not address.startswith(("data:", "#")) and not _there(site, name, address):
                found.append(f"{name}: <{tag.name}> asks for {address[:80]}, which is not there")
        for link in soup("a", href=True):
            parts = urlsplit(link["href"])
            if parts.scheme or parts.netloc:
                continue
            if parts.path and not _there(site, name, parts.path):
                found.append(f"{name} links to {link['href']}, which is not there")
                continue
            target = resolve(site, name, parts.path) if parts.path else name
            either = {parts.fragment, unquote(parts.fragment)}
            if parts.fragment and target in anchors and not either & {*anchors[target], "top"}:
                found.append(f"{name} links to {link['href']}, and there is no such heading")
        for style in [*soup("style"), *soup(style=True)]:
            text = style.get("style") or style.get_text()
            found += [f"{name}: a style fetches {address[:80]}" for address in FETCHED(text)]
    for file in site.rglob("*.css"):
        text = file.read_text(encoding="utf-8", errors="replace")
        found += [f"{file.relative_to(site)} fetches {address[:80]}" for address in FETCHED(text)]
    return found


def _unfit(soup: Tag) -> list[tuple[str, str]]:
    """Return what a page shows and a reader cannot use, each with the reason."""
    found = []
    words = ["p", "li", "td", "th", "figcaption", "summary"]
    for tag in (tag for article in soup("article") for tag in article(words)):
        if not SUSPECT.search(tag.get_text()) or tag.find_parent(class_="py"):
            continue  # a docstring may speak of `**options`
        text = _prose(tag)
        if UNRENDERED.search(text):
            found.append((text, "Markdown that is not rendered"))
        if tag.find_parent(class_="cell_output") and MISSING.search(text):
            found.append((text, "nan or None in a sentence or a table"))
    for caption in soup("figcaption"):
        words = re.sub(r"^Figure [\w.]+", "", text := caption.get_text())
        if NAMELESS.search(words.strip(" .")):
            found.append((text, "a caption that does not say what the picture shows"))
    for output in soup(class_="cell_output"):
        for line in output.get_text("\n").splitlines():
            for pattern, why in (
                (UNSOLVED, "an exercise or a prediction without its answer"),
                (RAW, "Python's own name of an object"),
                (LONG, "a number of 16 digits or more"),
                (PADDED, "blanks before a comma or a colon"),
            ):
                if pattern.search(line):
                    found.append((line.strip(), why))
    paths = (f"{ROOT}/", f"{tempfile.gettempdir()}/notebook-")  # where notebooks are executed
    text = soup.get_text()
    return found + [(path, "a path of the builder's machine") for path in paths if path in text]


def _prose(tag: Tag) -> str:
    """Return the text of a paragraph without code and without lists and tables inside it."""
    tag = copy.copy(tag)
    for part in tag.select("code, pre, math, ul, ol, table, p"):
        part.decompose()
    return tag.get_text().strip()


def resolve(site: Path, page: str, path: str) -> str:
    """Return where a relative link of a page leads, from the site's folder."""
    target = (site / page).parent / unquote(path)
    return target.resolve().relative_to(site.resolve()).as_posix()


def _named(picture: Tag) -> bool:
    """Whether an SVG has a name, or needs none: a part of another, hidden, an icon of a control."""
    if picture.get("aria-label", "").strip() or picture.find("title", recursive=False):
        return True
    if "display: none" in picture.get("style", "") or picture.get("aria-hidden") == "true":
        return True
    around = picture.find_parent(["svg", "a", "button", "label"])
    return bool(around or picture.find_parent(attrs={"role": "img", "aria-label": True}))


def _there(site: Path, page: str, address: str) -> bool:
    return ((site / page).parent / unquote(urlsplit(address).path)).exists()
