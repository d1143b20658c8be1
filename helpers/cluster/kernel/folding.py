"""Many ranks' output in little room: equal output once, long output of many ranks folded away."""

from __future__ import annotations

import html
import json
import re
import sys
from base64 import b64encode
from collections.abc import Iterable
from typing import TYPE_CHECKING

from helpers.cluster.kernel.starting import in_kernel
from helpers.cluster.rank.state import Part, settled

if TYPE_CHECKING:
    from helpers.cluster.kernel.gathering import Reply

Group = tuple[list[int], list[Part]]  # the ranks, and what each of them gave

MANY_GROUPS = 8  # so many different outputs are shown one below the other, however long
MANY_LINES = 40  # and so many lines, of however many ranks
HEAD_CHARACTERS = 90  # of the first line, beside the button that unfolds the rest
PRE = "margin: 0 0 0.5em 1.5em; white-space: pre-wrap"


def show(replies: dict[int, Reply]) -> None:
    """Print and display what each rank gave, in rank order, each line with its rank.

    What several gave alike is shown once; where many gave much, a line for each unfolds into the
    rest.
    """
    from IPython.display import publish_display_data

    found = groups(replies)
    if in_kernel() and too_long(found):
        data = {"text/plain": as_text(found), "text/html": as_html(found)}
        publish_display_data(data)
        return
    for ranks, parts in found:
        for kind, part in parts:
            if isinstance(part, str):
                print(label(ranks, part), file=getattr(sys, kind))
            elif set(part["data"]) <= {"text/plain"}:
                print(label(ranks, _text(part)))
            else:  # its label stands above
                print(f"[{spans(ranks)}]")
                publish_display_data(part["data"], part.get("metadata") or {})


def spans(ranks: Iterable[int]) -> str:
    """Name ranks in the least room.

    >>> spans([0, 2, 3, 4, 7]), spans([5])
    ('0,2-4,7', '5')
    """
    found: list[list[int]] = []
    for rank in ranks:
        if found and rank == found[-1][-1] + 1:
            found[-1].append(rank)
        else:
            found.append([rank])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in found)


def label(ranks: Iterable[int] | int, text: str) -> str:
    r"""Put the ranks before each line; of an overwritten line, such as a bar, take the end.

    >>> label(2, "a\nb\n")
    '[2] a\n[2] b'
    >>> label([0, 1], " 50%\r100%\n")
    '[0-1] 100%'
    """
    name = spans([ranks] if isinstance(ranks, int) else ranks)
    return "\n".join(f"[{name}] {settled(line)}" for line in text.rstrip("\n").split("\n"))


def groups(replies: dict[int, Reply]) -> list[Group]:
    """Group the ranks whose whole output is equal; leave out those that gave nothing."""
    found: list[tuple[list, Group]] = []
    for rank, reply in sorted(replies.items()):
        if not reply.parts:
            continue
        seen = [_seen(part) for part in reply.parts]
        same = next((group for other, group in found if other == seen), None)
        if same is None:
            found.append((seen, ([rank], reply.parts)))
        else:
            same[0].append(rank)
    return [group for _, group in found]


def too_long(found: list[Group]) -> bool:
    """Tell whether there are many different outputs that are long together."""
    every = (_text(part).strip("\n") for _, parts in found for _, part in parts)
    lines = sum(1 + text.count("\n") for text in every)
    return len(found) > MANY_GROUPS and lines > MANY_LINES


def as_text(found: list[Group]) -> str:
    """Return all output as text, each line labelled; a picture is named by its text."""
    return "\n".join(label(ranks, _text(part)) for ranks, parts in found for _, part in parts)


def as_html(found: list[Group]) -> str:
    """Return a line for each group, which unfolds into all that its ranks gave."""
    ranks = sum(len(members) for members, _ in found)
    rows = "".join(_details(members, parts) for members, parts in found)
    return f'<div role="group" aria-label="Output of {ranks} ranks">{rows}</div>'


def _details(ranks: list[int], parts: list[Part]) -> str:
    text = "\n".join(_text(part) for _, part in parts)
    lines = [_colourless(settled(line)) for line in text.split("\n") if line.strip()]
    head = lines[0][:HEAD_CHARACTERS] if lines else ""
    more = f" … ({len(lines)} lines)" if len(lines) > 1 else ""
    body = "".join(_block(part) for _, part in parts)
    return (
        f"<details><summary><code>[{spans(ranks)}] {html.escape(head)}</code>{more}</summary>"
        f"{body}</details>"
    )


def _block(part: str | dict) -> str:
    told = {} if isinstance(part, str) else part
    data, metadata = told.get("data", {}), told.get("metadata") or {}
    for picture in ("image/png", "image/jpeg"):
        if picture in data:
            return _image(picture, data[picture].replace("\n", ""), data, metadata)
    if data.get("image/svg+xml") and metadata.get("image/svg+xml", {}).get("kept"):
        coded = b64encode(data["image/svg+xml"].encode()).decode()  # parts are shown of images only
        return _image("image/svg+xml", coded, data, metadata)
    for kind in ("text/html", "image/svg+xml"):
        if kind in data:
            of = _in_the_dark(metadata.get(kind, {}))
            return f"<div{of}>{data[kind]}</div>"
    lines = _text(part).rstrip("\n").split("\n")
    text = "\n".join(_colourless(settled(line)) for line in lines)
    return f'<pre style="{PRE}">{html.escape(text)}</pre>'


def _image(kind: str, coded: str, data: dict, metadata: dict) -> str:
    said = metadata.get(kind, {})
    words = html.escape(str(said.get("alt") or data.get("text/plain", "")), quote=True)
    return f'<img{_in_the_dark(said)} alt="{words}" src="data:{kind};base64,{coded}">'


def _in_the_dark(said: dict) -> str:
    """Return the attributes by which a page's dark.js knows what to do in a dark theme."""
    kept = said.get("kept")
    if not isinstance(kept, list):
        return ""  # not ours, or unknown where a photograph in it lies: it stays as it is
    return f' data-kept="{json.dumps(kept)}"' if kept else ' class="course-figure"'


def _colourless(line: str) -> str:
    """Leave colours out, which HTML would show as brackets."""
    return re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", line)


def _seen(part: Part) -> tuple:
    """Return what of a part the reader sees: not the number by which a display is updated."""
    kind, content = part
    if isinstance(content, str):
        return kind, "\n".join(map(settled, content.rstrip("\n").split("\n")))
    return content["data"], content.get("metadata") or {}


def _text(content: str | dict) -> str:
    """Return what was printed, or the text of what is displayed."""
    return content if isinstance(content, str) else str(content["data"].get("text/plain", ""))
