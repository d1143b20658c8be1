"""What varies in a variant of the course: the other names, and for some exercises the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any, NamedTuple


def _table(text: str) -> dict[str, list[str]]:
    return {
        (words := row.split())[0]: words[1:] for row in text.replace("\n", ";").split(";") if row
    }


# A name that an exercise gives its reader, and what else it may be called. The first two that an
# exercise has are renamed, so those that say least about it come first.
NAMES = _table("""\
value held token;alone single unshared;items jobs chunks;small little minor;speed_up gain factor
tasks jobs orders;board field plane;model network learner;count samples total;fixed offset constant
layers arrays pieces;workers senders members;compute arithmetic working;h_before h_prev h_past
gates valves opened;steps span rounds;inputs fed incoming;states memory carried
sources origins packages;theirs rivals others;lengths counts sizes;score logits raw
scores logits raw;vectors embedded points;answers ask judge;N number P;E links M
tolerance limit threshold;source tail begin;columns cols ncols;flops ops;written stored results
peak ceiling fastest;cache space capacity;algorithm scheme method;alpha latency delay
hosts seats machines;across between outside;xs leaves wanted;order sequence listing
segments parts cuts;g slope grad;values numbers entries;needed required wanted;anchor origin begun
W mix A;m M k;costs prices loads;room space slots;levels grades rungs;error residue leftover
plain uncoded full;times delays waits;stage level degree;gradient slope grad;l1 lse1 log1
parameters psi numbers;machine hardware system;threads lanes block;request asked message
text document page;batches portions loads;run training job;replica twin member;work buffer array
seconds duration spent;ridge knee corner;stride hop jump;outputs results wanted;x v u;b plus shift
""")
# Of CUDA kernels scalars and indices: a check asks for arrays by their names.
CUDA_NAMES = _table("n count length;height rows high;width columns wide;h rows high;w columns wide")
CUDA_NAMES |= _table("t me lane;step reach hop")


class Numbers(NamedTuple):
    """What an exercise may draw, and which of the drawn ``keywords`` its check is given.

    Each pair of ``replace`` is a text in the exercise's own cells and the text in its place;
    ``later`` are pairs for any cell. ``{n}`` stands for a drawn number, ``{n:word}`` for its word.
    """

    draws: list[dict[str, Any]]
    keywords: list[str]
    replace: Sequence[tuple[str, str]] = ()
    later: Sequence[tuple[str, str]] = ()


def _orders(true: str) -> list[dict[str, Any]]:
    """Return the orders of five statements that change the set of true letters."""
    orders = ("".join(order) for order in permutations("ABCDE"))
    return [{"order": o} for o in orders if {"ABCDE"[o.index(c)] for c in true} != set(true)]


GPUS = [  # threads, blocks, bytes of shared memory of a multiprocessor
    {"gpu": "an A10", "arch": "sm_86", "most": 1536, "blocks": 16, "shared": 102_400},
    {"gpu": "an L4", "arch": "sm_89", "most": 1536, "blocks": 24, "shared": 102_400},
    {"gpu": "an H100", "arch": "sm_90", "most": 2048, "blocks": 32, "shared": 233_472},
]

NUMBERS: dict[str, Numbers] = {
    "00 squares": Numbers(
        [{"power": n} for n in (3, 4, 5)],
        ["power"],
        [
            ("the square of the rank's number", "the rank's number to the power of {power}"),
            ("rank**2", "rank**{power}"),
        ],
    ),
    "01 statements": Numbers(_orders("ACE"), ["order"]),
    "01 shift": Numbers(
        [{"by": 2}, {"by": 3}],
        ["by"],
        [
            ("send `value` to the right neighbour", "send `value` {by:word} places to the right"),
            ("that the left neighbour sent", "that the rank {by:word} places to the left sent"),
            ("of the left neighbour on", "of the rank {by:word} places to the left on"),
            ("(rank + 1)", "(rank + {by})"),
            ("(rank - 1)", "(rank - {by})"),
        ],
    ),
    "01 grid-sums": Numbers(
        [{"columns": 3}],
        ["columns"],
        [
            ("two columns", "{columns:word} columns"),
            (
                "ranks 0 and 1 in the first row, 2 and 3 in the second",
                "ranks 0, 1 and 2 in the first row, 3, 4 and 5 in the second",
            ),
            ("any even number of ranks", "any multiple of {columns:word} ranks"),
            ("rank // 2", "rank // {columns}"),
            ("rank % 2", "rank % {columns}"),
        ],
    ),
    "01 life": Numbers(
        [{"reach": 2, "others": 24, "out": 5}, {"reach": 3, "others": 48, "out": 3}],
        ["reach"],
        [
            (
                "Conway's *Game of Life*:",
                "A relative of Conway's *Game of Life*, in which a cell has {others} neighbours, "
                "up to {reach:word} rows and columns away:",
            ),
            ("three of its eight neighbours", "three of its neighbours"),
            ("the first and the last one", "the first {reach:word} and the last {reach:word}"),
            (
                "a bar of three cells turns; five rows go in, three come out",
                "see what becomes of a bar of three cells; nine rows go in, {out:word} come out",
            ),
            ("(-1, 0, 1)", "range(-{reach}, {reach} + 1)"),
            ("[1:-1]", "[{reach}:-{reach}]"),
            ("(5, 5)", "(9, 9)"),
            ("bar[2, 1:4]", "bar[4, 3:6]"),
            (
                "one row from the rank above and one from the rank below",
                "{reach:word} rows from the rank above and {reach:word} from the rank below",
            ),
            ("send one row to each", "send {reach:word} rows to each"),
            ("may have a single row", "may have only {reach:word} rows"),
            ("sends its first row up: which row does", "sends its first rows up: which rows does"),
            ("mine[:1]", "mine[:{reach}]"),
            ("mine[-1:]", "mine[-{reach}:]"),
        ],
        [
            (
                "A *glider* moves one cell down and one to the right in four generations. The "
                "dashed lines are the borders between ranks; in generations 8 and 24 the glider is "
                "on two ranks.",
                "In Conway's game these five cells are a *glider*. What becomes of them by your "
                "rule? The dashed lines are the borders between ranks.",
            )
        ],
    ),
    "03 half-life": Numbers(
        [
            {"share": 0.25, "said": "a quarter", "tex": "14"},
            {"share": 0.1, "said": "a tenth", "tex": "1{10}"},
            {"share": 0.2, "said": "a fifth", "tex": "15"},
        ],
        ["share"],
        [
            ("makes this share one half after", "makes this share {said} after"),
            (r"\tfrac12", r"\tfrac{tex}"),
            ("keep = 0.5 **", "keep = {share} **"),
        ],
    ),
    "04 padding": Numbers(_orders("BCE"), ["order"]),
    "04 rates": Numbers(_orders("BDE"), ["order"]),
    "07 strides": Numbers(
        [{"layout": "columns"}],
        ["layout"],
        [
            (
                "By how many elements",
                "Let all three matrices lie in memory column after column. By how many elements",
            ),
            ("1 (to the neighbour)", "1 (to the neighbour in memory)"),
            ('`"n"` (to the next row)', '`"n"` (to the next column)'),
            (
                '{"i": ("n", 0, "n"), "j": (0, 1, 1), "k": (1, "n", 0)}',
                '{{"i": (1, 0, 1), "j": (0, "n", "n"), "k": ("n", 1, 0)}}',
            ),
            ('free = "j"', 'free = "i"'),
        ],
    ),
    "07 choose-tile": Numbers(
        [{"tiles": n} for n in (4, 5, 6)],
        ["tiles"],
        [
            (r"for which three $t", r"for which {tiles:word} $t"),
            (r"$3 t^2", r"${tiles} t^2"),
            ("(3 * size)", "({tiles} * size)"),
        ],
    ),
    "08 chunk-to-send": Numbers(
        [{"first": 1}, {"first": 2}, {"first": 3}],
        ["first"],
        [
            (
                "Rank $r$ now has the complete chunk $r$, and sends it",
                r"Suppose that rank $r$ has the complete chunk $(r+{first}) \bmod N$, and sends it",
            ),
            ("return (rank - step) % N", "return (rank + {first} - step) % N"),
        ],
    ),
    "09 four-numbers": Numbers(
        [{"w": w, "x": x, "b": b} for w in (2, 4, 5) for x in (2, 3) for b in (-7, -5, 1)],
        ["w", "x", "b"],
        [
            ("$w=3$, $x=2$, $b=-5$", "$w={w}$, $x={x}$, $b={b}$"),
            (
                "value, with_w, with_b, with_x = 2, 2 * 1 * 2 * 2, 2 * 1 * 2, 2 * 1 * 2 * 3 + 1",
                "s = {w} * {x} + ({b})\n"
                "value, with_w, with_b, with_x = (\n"
                "    s**2 * {x}, 2 * s * {x} * {x}, 2 * s * {x}, 2 * s * {x} * {w} + s**2\n"
                ")",
            ),
        ],
        [
            ("(3.0, 2.0, -5.0)", "({w}.0, {x}.0, {b}.0)"),
            (
                "np.array(3.0), np.array(2.0), np.array(-5.0)",
                "np.array({w}.0), np.array({x}.0), np.array({b}.0)",
            ),
        ],
    ),
    "09 momentum": Numbers(
        [{"keep": 0.8}, {"keep": 0.7}, {"keep": 0.85}],
        ["keep"],
        [(r"0.9\,v", r"{keep}\,v"), ("0.9 * v", "{keep} * v")],
    ),
    "12 expected-wait": Numbers(
        [{"scale": 1_000, "unit": "milli"}, {"scale": 1_000_000, "unit": "micro"}],
        ["scale"],
        [
            ("Return this mean in seconds,", "Return this mean in {unit}seconds,"),
            ("and $m$ = `mean`.", "and $m$ = `mean`, both in seconds."),
            ("Return the mean seconds until", "Return the mean {unit}seconds until"),
            ("return least + mean * sum(", "return {scale} * least + {scale} * mean * sum("),
        ],
    ),
    "13 bytes-of-a-stage": Numbers(
        [{"kept": n, "optimizer": 4 * n} for n in (2, 4, 5)],
        ["optimizer"],
        [
            (
                "The optimizer keeps three numbers in float32: a copy of the parameter and two "
                "moments. The copy is cut with the moments.",
                "The optimizer keeps {kept:word} numbers in float32, all cut alike: a copy of the "
                "parameter, and its moments.",
            ),
            (
                "12 / ranks if stage >= 1 else 12",
                "{optimizer} / ranks if stage >= 1 else {optimizer}",
            ),
        ],
    ),
    "14 coalesce": Numbers(
        [{"high": 8}, {"high": 16}],
        ["high"],
        [
            (r"32 × 32 threads", r"32 × {high} threads"),
            (r"\lceil \text{height}/32 \rceil", r"\lceil \text{{height}}/{high} \rceil"),
            ("blockIdx.y * 32", "blockIdx.y * {high}"),
        ],
        [
            (
                "-(-height // 32)\n    brighten[grid, (32, 32)]",
                "-(-height // {high})\n    brighten[grid, (32, {high})]",
            )
        ],
    ),
    "14 resident": Numbers(
        GPUS,
        ["arch"],
        [
            ("of an A100 has room", "of {gpu} has room"),
            ("2048 threads, 32 blocks", "{most} threads, {blocks} blocks"),
            ("167 936", "{shared:,}"),
            ("167_936", "{shared}"),
            ("2048 // threads, 32,", "{most} // threads, {blocks},"),
        ],
        [('needs.shared, "sm_80")', 'needs.shared, "{arch}")')],
    ),
    "A1 document-frequency": Numbers(
        [{"least": 2}, {"least": 3}],
        ["least"],
        [
            (
                "A word's *document frequency* is the number of documents that contain it, however "
                "often it occurs in each.",
                "Count for each word the documents that contain it at least {least:word} times; a "
                "word without such a document does not appear in the result.",
            ),
            (
                "Each document should report each of its words once.",
                "Each document should report such a word once.",
            ),
            (
                "    for word in set(text.split()):\n        yield word, 1",
                "    words = text.split()\n"
                "    for word in set(words):\n"
                "        if words.count(word) >= {least}:\n"
                "            yield word, 1",
            ),
        ],
    ),
}
