"""Records of a kernel that answer a click or play: which thread loads what, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots import style
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML

    from helpers.cuda.record import AccessRecord

COLOURS = {"palette": (*style.PALETTE[:5], style.EIGHT[7])}  # SKY, pale, is like BLUE
MOST_CELLS = 1600  # of one array: beyond, a cell is too small to click


def thread_picture(record: AccessRecord, read: str, written: str) -> HTML:
    """Return a picture in which a click on an element tells which threads touched it.

    ``read`` and ``written`` name two arrays, 1-D or 2-D, of at most 1600 elements each. ValueError
    for an array that is not there or too large, one that no thread wrote, and for a record that was
    cut off.
    """
    return embed("accesses", _threads(record, read, written) | COLOURS)


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
    record: AccessRecord, image: str, tile: str, tile_shape: Sequence[int], block: int
) -> HTML:
    """Return an animation of how a block fills its tile, pass after pass.

    Each step shows which thread loads which pixel; after the barrier one step shows what a thread
    reads. ``tile_shape`` are the tile's rows and columns. ValueError when the block's accesses are
    not in the record, or the image is too large to be shown.
    """
    return embed("accesses", _passes(record, image, tile, tile_shape, block) | COLOURS)


def lane_picture(records: Mapping[str, AccessRecord], array: str, tile: str) -> HTML:
    """Return a picture of a warp's request: its sectors in global memory, its banks in shared.

    Memory stands in rows of 32 words, so that a column is a bank and 8 words of a row are a sector.
    ``records`` has under a name a launch in which each lane of the first warp reads one word of
    ``array`` (global, of 4-byte words) and the same of ``tile`` (shared).
    """
    requests = []
    for name, record in records.items():
        words = []
        for one in (array, tile):
            events = record.picked(array=one, kind="read", block=0)
            events = np.sort(events[events["thread"] < 32], order="thread")
            words.append((events["offset"] // 4).tolist())
        if len(words[0]) != 32 or words[0] != words[1]:
            raise ValueError(
                f"{name}: expected each lane to read one word, the same of both arrays"
            )
        moved = sum(one.sectors for one in record.select(array=array, kind="read"))
        passes = sum(one.wavefronts for one in record.select(array=tile, kind="read"))
        first = ", ".join(map(str, words[0][:3]))
        requests.append({
            "words": words[0],
            "sectors": sorted({word // 8 for word in words[0]}),
            "label": f"Lanes read words {first}, … Global memory: {moved} sectors = {32 * moved} "
            f"bytes moved. Shared memory: {passes} wavefront{'s' * (passes > 1)}.",
        })  # fmt: skip
    return embed("lanes", {"requests": requests} | COLOURS)


def scan_picture(records: Mapping[str, AccessRecord], x: np.ndarray) -> HTML:
    """Return a player of scans of one block: which thread adds what to what, step after step.

    ``records`` has under a scan's name a launch of it on ``x`` (kernels of ``scan.cu``, without
    padding, which add in the shared array ``part``).
    """
    runs = [{"name": name} | _steps(record, x) for name, record in records.items()]
    return embed("scan", {"runs": runs} | COLOURS)


def _steps(record: AccessRecord, x: np.ndarray) -> dict:
    """Play what was recorded of a scan again, on its numbers: a row for each step."""
    n, values = len(x), [float(value) for value in x]
    rows, moves, names, labels = [list(values)], [[]], ["x"], ["The numbers. Press ▶|."]
    way, begun = "step", 0  # barriers passed before this way
    events = record.picked(array="part")
    kinds = np.array([access.kind for access in record.accesses])
    for interval in np.unique(events["interval"])[1:]:  # the first one fills the array
        here = events[events["interval"] == interval]
        before, made, zeroed = list(values), [], False
        for thread in np.unique(here["thread"]).tolist():
            mine = here[here["thread"] == thread]
            places, reads = mine["offset"] // 4 % n, kinds[mine["access"]] == "read"
            read, written = sorted(set(places[reads].tolist())), places[~reads].tolist()
            if len(set(written)) == 2:  # down the tree: the left takes the right, the right the sum
                left, right = written
                values[left], values[right] = before[right], before[left] + before[right]
                made += [{"thread": thread, "from": [right], "to": left},
                         {"thread": thread, "from": [left, right], "to": right}]  # fmt: skip
            elif written:
                values[written[0]] = sum(before[place] for place in read)
                if read != written:
                    made.append({"thread": thread, "from": read, "to": written[0]})
            zeroed |= len(written) > len(set(written))
        if not made:
            continue
        count = len({move["thread"] for move in made})
        names.append(f"{way} {interval - begun}")
        who = "1 thread adds" if count == 1 else f"{count} threads add"
        labels.append(f"After barrier {interval}, {who}.")
        rows.append(list(values))
        moves.append(made)
        if zeroed:
            values[n - 1] = 0.0
            names = [name.replace("step", "up") for name in names] + ["last = 0"]
            way, begun = "down", int(interval)
            labels.append("The last number is the sum of all. It becomes 0 before the way down.")
            rows.append(list(values))
            moves.append([{"thread": 0, "from": [], "to": n - 1}])
    return {"rows": [[f"{v:g}" for v in row] for row in rows], "moves": moves, "names": names,
            "labels": labels}  # fmt: skip


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
