"""Pictures of a recorded kernel that answer a click, or play: who computes what, who loads what.

Each is one HTML element with its data, style and script inside: it needs no network and, once made,
no kernel. In a browser test find its parts by ``data-testid``: ``accesses`` (the whole),
``accesses-cell-ARRAY-INDEX``, ``accesses-text``, ``accesses-play``, ``accesses-step``,
``-back``, ``-first``, ``-last``, ``-scrubber`` and ``accesses-frame`` (text "step 2 of 6").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots.style import PALETTE
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML

    from helpers.cuda.record import AccessRecord

MOST_CELLS = 1600  # of one array: beyond, a cell is too small to click


def thread_picture(record: AccessRecord, read: str, written: str) -> HTML:
    """Return a picture in which a click on an element tells which threads touched it.

    Parameters
    ----------
    record : helpers.cuda.AccessRecord
        The accesses of one launch.
    read, written : str
        The names of the two arrays to show, 1-D or 2-D, of at most 1600 elements each.

    Returns
    -------
    IPython.display.HTML
        One element with its data, style and script inside.

    Raises
    ------
    ValueError
        For an array that is not there or too large, one that no thread wrote, and for a record that
        was cut off.
    """
    return _html(_threads(record, read, written))


def _threads(record: AccessRecord, read: str, written: str) -> dict:
    if not record.complete:
        raise ValueError("the record was cut off at its limit: record fewer blocks, or raise limit")
    shapes = [_shape(record, name) for name in (read, written)]
    reads, writes = {}, {}
    for target, name, kind in ((reads, read, "read"), (writes, written, "write")):
        events = record.picked(array=name, kind=kind, space="global")
        keys = events["block"].astype(int) * 1024 + events["thread"]
        for key, element in zip(keys.tolist(), record.elements(events).tolist(), strict=True):
            target.setdefault(key, []).append(element)
    if not writes:
        raise ValueError(f"no write to {written!r} is in the record")
    keys = sorted(set(reads) | set(writes))
    blocks = np.stack(np.unravel_index([k // 1024 for k in keys], record.grid[::-1])[::-1], 1)
    threads = np.stack(np.unravel_index([k % 1024 for k in keys], record.block[::-1])[::-1], 1)
    return {
        "mode": "threads",
        "blockDim": list(record.block),
        "gridDim": list(record.grid),
        "arrays": [{"name": n, "shape": s} for n, s in zip((read, written), shapes, strict=True)],
        "threads": [
            [b.tolist(), t.tolist(), sorted(set(reads.get(k, []))), writes.get(k, []),
             len(reads.get(k, []))]
            for k, b, t in zip(keys, blocks, threads, strict=True)
        ],
    }  # fmt: skip


def tile_animation(
    record: AccessRecord, image: str, tile: str, tile_shape: Sequence[int], block: int = 0
) -> HTML:
    """Return an animation of how a block fills its tile, pass after pass.

    Each step shows which thread loads which pixel; after the barrier one step shows what a thread
    reads.

    Parameters
    ----------
    record : helpers.cuda.AccessRecord
        The accesses of one launch.
    image : str
        The array in global memory.
    tile : str
        The array in shared memory.
    tile_shape : sequence of int
        The tile's rows and columns.
    block : int
        The block's number, x first.

    Returns
    -------
    IPython.display.HTML
        One element with its data, style and script inside.

    Raises
    ------
    ValueError
        When the block's accesses are not in the record, or the image is too large to be shown.
    """
    return _html(_passes(record, image, tile, tile_shape, block))


def _passes(
    record: AccessRecord, image: str, tile: str, tile_shape: Sequence[int], block: int
) -> dict:
    shape = _shape(record, image)
    mine = record.events[record.events["block"] == block]
    elements = record.elements(mine)
    last_pixel: dict[int, int] = {}
    passes: dict[int, list] = {}
    used: dict[int, list[int]] = {}
    for event, element in zip(mine, elements, strict=True):
        access, thread = record.accesses[event["access"]], int(event["thread"])
        if access.array == image and access.kind == "read":
            last_pixel[thread] = int(element)
        elif access.array == tile and access.kind == "write":
            # -1: the thread wrote a value that it had not read, a zero beyond the border
            row = [thread, last_pixel.pop(thread, -1), int(element)]
            passes.setdefault(int(event["occurrence"]), []).append(row)
        elif access.array == tile and access.kind == "read":
            used.setdefault(thread, []).append(int(element))
    if not passes:
        raise ValueError(f"no write to {tile!r} by block {block} is in the record")
    position = np.unravel_index(block, record.grid[::-1])[::-1]
    return {
        "mode": "tile",
        "block": [int(p) for p in position],
        "blockDim": list(record.block),
        "arrays": [
            {"name": image, "shape": shape},
            {"name": tile, "shape": [int(n) for n in tile_shape]},
        ],
        "passes": [passes[number] for number in sorted(passes)],
        "used": [[thread, sorted(set(cells))] for thread, cells in sorted(used.items())],
    }


def _shape(record: AccessRecord, name: str) -> list[int]:
    if name not in record.shapes:
        raise ValueError(f"{name!r} is no array of this launch; it has {', '.join(record.shapes)}")
    shape = list(record.shapes[name])
    shape = [1, *shape] if len(shape) == 1 else shape
    if len(shape) != 2 or shape[0] * shape[1] > MOST_CELLS:
        raise ValueError(
            f"{name} has shape {record.shapes[name]}; the picture shows one or two dimensions, at "
            f"most {MOST_CELLS} elements"
        )
    return [int(n) for n in shape]


def _html(data: dict) -> HTML:
    from IPython.display import HTML

    return HTML(embed("accesses.js", "accesses.css", {**data, "palette": PALETTE[:6]}))
