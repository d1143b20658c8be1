"""What each kernel that ``make gpu`` times does, how, and why one is faster: for their page."""

from __future__ import annotations

from helpers import records

MATRIX, NUMBERS = "{side:,} × {side:,} numbers", "{numbers:,} numbers"
COPY, TURN, PRODUCT = f"Copy {MATRIX}", f"Transpose {MATRIX}", f"Multiply two matrices of {MATRIX}"
SUM, SCAN = f"Sum {NUMBERS} in blocks of {{block}}", f"Scan {NUMBERS} in blocks of {{block}}"
COUNT = "Histogram of {bytes:,} bytes with {values} different values"
TASKS = {
    "copy_along_rows": (COPY, "neighbouring threads in a row"),
    "copy_along_columns": (COPY, "neighbouring threads in a column"),
    "transpose": (TURN, "tiles of 32 × 32, each row padded by {PAD}"),
    "square_product<16>": (PRODUCT, "tiles of 16 × 16, one output a thread"),
    "square_product<32>": (PRODUCT, "tiles of 32 × 32, one output a thread"),
    "coarse_product<2>": (PRODUCT, "tiles of 16 × 32, 2 outputs a thread"),
    "coarse_product<4>": (PRODUCT, "tiles of 16 × 64, 4 outputs a thread"),
    "register_product<2>": (PRODUCT, "tiles of 32 × 32, 2 × 2 outputs a thread"),
    "register_product<4>": (PRODUCT, "tiles of 64 × 64, 4 × 4 outputs a thread"),
    "interleaved_sum": (SUM, "working threads far apart"),
    "packed_sum": (SUM, "working threads together, their numbers far apart"),
    "halved_sum": (SUM, "working threads and their numbers together"),
    "shuffled_sum": (SUM, "shuffles within a warp"),
    "scan_steps": (SCAN, "Hillis and Steele, PAD = {PAD}"),
    "scan_tree": (SCAN, "Blelloch, PAD = {PAD}"),
    "direct_histogram": (COUNT, "bins in global memory"),
    "own_histogram": (COUNT, "bins of each block in shared memory"),
}
"""Which task each kernel does, and how; a record's parameters are filled in."""
WHY = {
    COPY: "A warp that reads along a column touches a sector of 32 bytes for each number (see "
    "*What the GPU's memory moved*, below).",
    TURN: "A padded tile has no bank conflicts.",
    PRODUCT: "For a multiply-add, a thread with one output reads 2 numbers of shared memory, "
    "1.5 and 1.25 in `coarse_product`, 1 and 0.5 in `register_product`.",
    SUM: "Shuffles need the fewest passes through shared memory, and a single barrier. The GPU "
    "counted as many passes for `packed_sum` as for `interleaved_sum`: we do not know why "
    "`packed_sum` takes longer.",
    SCAN: "Only the tree has bank conflicts, which PAD = 1 removes.",
    COUNT: "`direct_histogram` needs an atomic in global memory for each byte, `own_histogram` "
    "only 256 for each block. If all bytes are equal, all threads of a block add to one bin in "
    "shared memory; we do not know why that takes no longer.",
}
"""Why the fastest kernel of a task is faster than the others, as notebooks 14 and 15 show.

Below the last task of a kind.
"""


def task_of(row: records.Row) -> tuple[str, str]:
    """Return the task of a kernel, and how it does it."""
    task, how = (text.format_map(row.parameters) for text in TASKS[row.name])
    task = task.replace(" with 1 different values", ", all equal")
    return task, how.replace("each row padded by 0", "not padded")
