"""Which lanes of each warp work in each pass through the code: divergence, counted.

Threads run one by one on a processor; here they are put together to warps of 32 afterwards. Each
thread's way through the code is known piece by piece, a piece being code with no jump in it and
none into it. A warp takes all its lanes through a piece in one pass. Where they part, the groups go
one after another, and they go on together from the piece that all their ways come to (the
*immediate post-dominator* of the piece where they parted; a lane that has returned comes nowhere
and is not waited for). So do the warps of textbooks; since Volta a GPU is free to do worse.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from helpers.cuda.errors import LaunchError

PASS = np.dtype(
    [
        ("block", "u4"),  # linear: x + X (y + Y z)
        ("warp", "u4"),  # of the block
        ("line", "u4"),  # of the source
        ("lanes", "u4"),  # that work: bit 0 for lane 0
    ]
)
LANES = 32
END = -1  # what follows a thread's last piece
Way = Sequence[Hashable]  # the pieces that a thread goes through


@dataclass(frozen=True)
class WarpRecord:
    """The passes of all warps of a launch.

    ``passes`` has one entry for each pass of a warp through a piece of code (dtype :data:`PASS`),
    warp after warp, as it went; ``source`` is CUDA C.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    passes: np.ndarray
    source: str

    def select(self, *lines: int) -> np.ndarray:
        """Return the passes through some lines of the source; without any, all."""
        return self.passes[np.isin(self.passes["line"], lines)] if lines else self.passes

    def count(self, *lines: int) -> int:
        """Return how many passes the warps made through some lines; without any, all."""
        return len(self.select(*lines))

    def idle(self, *lines: int) -> int:
        """Return how many lanes, of 32 a pass, stood idle in some lines; without any, all."""
        return LANES * self.count(*lines) - working(self.select(*lines))

    def line(self, text: str) -> int:
        """Return the number of the only line of the kernel's source that holds a text."""
        found = [n for n, row in enumerate(self.source.splitlines(), 1) if text in row]
        if len(found) != 1:
            raise ValueError(f"{len(found)} lines hold {text!r}; one must")
        return found[0]

    def table(self) -> str:
        """Return a table with one row for each line of the source that warps passed through."""
        rows, text = [f"{'line':>4} {'passes':>8} {'idle lanes':>12}"], self.source.splitlines()
        for line in np.unique(self.passes["line"]).tolist():
            count, idle = self.count(line), self.idle(line)
            share = f"{idle / (LANES * count):5.0%}"
            rows.append(f"{line:4d} {count:8d} {idle:6d} {share}  {text[line - 1]}")
        return "\n".join(rows)

    def __str__(self) -> str:
        return f"{self.kernel}: grid {self.grid}, block {self.block}\n{self.table()}"


def working(passes: np.ndarray) -> int:
    """Return how many lanes work, summed over passes."""
    return int(np.unpackbits(np.ascontiguousarray(passes["lanes"]).view(np.uint8)).sum())


def assemble(
    kernel: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    words: np.ndarray,
    lines: Callable[[Sequence[int]], list[int | None]],
    source: str,
) -> WarpRecord:
    """Put the threads of a launch together to warps.

    ``words`` has of each thread its block, its number there, how many pieces follow, then these.
    """
    # Most threads of a launch go the same way, and most warps have the same ways: each is looked at
    # once, and known by a number.
    numbers: dict[bytes, int] = {}
    number_of, at = {}, 0
    while at < len(words):
        here, thread, count = words[at : at + 3].tolist()
        way = words[at + 3 : at + 3 + count].tobytes()
        number_of[here, thread] = numbers.setdefault(way, len(numbers))
        at += 3 + count
    ways = [np.frombuffer(way, words.dtype) for way in numbers]
    pieces = np.unique(np.concatenate([*ways, np.zeros(0, np.uint32)])).tolist()
    # A piece begins with a call, behind which stands the code itself: of the way out, where all
    # returns meet, it belongs to the last brace. What the runner adds has no line.
    text, begins = source.splitlines(), lines(pieces)
    if pieces and not any(begins):
        raise LaunchError(
            f"kernel {kernel}: no line of its code is known; install binutils (addr2line)"
        )
    behind = lines([piece + 1 for piece in pieces])
    line_of = {
        piece: line
        for piece, line, next_ in zip(pieces, begins, behind, strict=True)
        if line and not (next_ and text[next_ - 1].strip() == "}")
    }
    ours = np.array(list(line_of), np.uint32)
    kept = [way[np.isin(way, ours)].tolist() for way in ways]
    meeting = meetings(kept)
    size, passes, known = block[0] * block[1] * block[2], [np.zeros(0, PASS)], {}
    for here in sorted({here for here, _ in number_of}):
        for first in range(0, size, LANES):
            warp = tuple(number_of[here, t] for t in range(first, min(first + LANES, size)))
            if warp not in known:
                steps = together([kept[number] for number in warp], meeting)
                known[warp] = np.array([(0, 0, line_of[piece], on) for piece, on in steps], PASS)
            made = known[warp].copy()
            made["block"], made["warp"] = here, first // LANES
            passes.append(made)
    return WarpRecord(kernel, grid, block, np.concatenate(passes), source)


def meetings(ways: Sequence[Way]) -> dict:
    """Return of each piece the one, or END, at which lanes that part behind it meet again."""
    import networkx as nx

    flow = nx.DiGraph()  # from each piece to what follows it
    for way in {tuple(way) for way in ways}:
        nx.add_path(flow, [*way, END])
    ends = list(flow.predecessors(END))
    reached = {piece: nx.descendants(flow, piece) for piece in ends}
    for piece in ends:  # a return where the others go on to another end: nobody is waited for
        if any(end in reached[piece] and piece not in reached[end] for end in ends):
            flow.remove_edge(piece, END)
    return nx.immediate_dominators(flow.reverse(), END)


def together(ways: Sequence[Way], meeting: Mapping) -> list[tuple]:
    """Take up to 32 lanes through their code as a warp does: pieces, and the lanes of each.

    >>> odd, even = ["test", "odd", "store"], ["test", "even", "store"]
    >>> passes = together([even, odd] * 2, meetings([odd, even]))
    >>> [(piece, f"{lanes:04b}") for piece, lanes in passes]
    [('test', '1111'), ('even', '0101'), ('odd', '1010'), ('store', '1111')]
    """
    at, passes = [0] * len(ways), []

    def go(lanes: list[int], stop: Hashable) -> None:
        last = END
        while True:
            groups: dict = {}
            for lane in lanes:
                piece = ways[lane][at[lane]] if at[lane] < len(ways[lane]) else END
                if piece not in (END, stop):
                    groups.setdefault(piece, []).append(lane)
            if not groups:
                return
            if len(groups) > 1:
                for group in groups.values():
                    go(group, meeting.get(last, END))
                continue
            ((last, group),) = groups.items()
            passes.append((last, sum(1 << lane for lane in group)))
            for lane in group:
                at[lane] += 1

    go(list(range(len(ways))), END)
    return passes
