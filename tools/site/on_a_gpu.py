"""The page of what a real GPU measured and counted: the newest records of ``make gpu``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from helpers import records
from helpers.paths import GPU_RECORDS

LARGEST = 16384  # rows and columns of the image
CUDNN = "torch conv2d (cuDNN, fp32)"
LIBRARIES = {CUDNN: "cuDNN", "CuPy ndimage.correlate": "CuPy"}
TASKS = {
    "copy_along_rows": "copy a matrix, neighbouring threads in a row",
    "copy_along_columns": "copy a matrix, neighbouring threads in a column",
    "transpose": "transpose a matrix by tiles",
    "square_product<16>": "matrix product, tiles of 16 × 16",
    "square_product<32>": "matrix product, tiles of 32 × 32",
    "coarse_product<2>": "matrix product, 2 outputs a thread",
    "coarse_product<4>": "matrix product, 4 outputs a thread",
    "interleaved_sum": "sums of 256, working threads far apart",
    "packed_sum": "sums of 256, working threads together, numbers far apart",
    "halved_sum": "sums of 256, threads and numbers together",
    "scan_steps": "scans of 256, Hillis and Steele",
    "scan_tree": "scans of 256, Blelloch",
    "direct_histogram": "histogram, bins in global memory",
    "own_histogram": "histogram, bins of each block in shared memory",
}
SETTINGS = {"PAD": "PAD = {}", "values": "distinct values: {}"}


def page() -> str:
    """Return the page; a part for each suite that a record has."""
    found = records.load(GPU_RECORDS)
    parts = {"cuda": _ladder, "kernels": _kernels, "counters": _counters, "pagerank": _pagerank}
    told = []
    for suite, part in parts.items():
        rows = records.newest(GPU_RECORDS, suite, lambda _, rows: rows)
        told += [part(rows)] if rows else []
    if not told:
        return ""
    title = "# On a real GPU"
    begin = (
        "The notebooks run CUDA C on your processor. Here the same kernels ran on an "
        f"{found[0].gpu}, on {found[0].date[:10]}. `make gpu` measured and wrote the records in "
        "`data/gpu/`; with a GPU of your own, it writes yours."
    )
    return "\n\n".join([title, begin, *told]) + "\n"


def _table(head: Sequence[str], body: Iterable[Iterable[object]]) -> str:
    rows = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def _ladder(rows: Iterable[records.Row]) -> str:
    times: dict[tuple[str, int], float] = {}
    for row in rows:
        if row.unit == "µs" and row.parameters["size"] == LARGEST:
            k = row.parameters.get("filter", 0)
            times[row.name.removeprefix("convolve_"), k] = row.value
            if row.peer in LIBRARIES and row.peer_value:
                times[LIBRARIES[row.peer], k] = row.peer_value
    names = list(dict.fromkeys(name for name, k in times if k))
    filters = sorted({k for _, k in times if k})
    body = [[f"{k} × {k}", *(f"{times[name, k] / 1e3:.2f}" for name in names)] for k in filters]
    return f"""## The convolution

Milliseconds for an image of {LARGEST} × {LARGEST} numbers in single precision. To copy the image takes {times["device copy", 0] / 1e3:.2f} ms.

{_table(["filter", *names], body)}

cuDNN is made for images of many channels, and this one has one."""  # noqa: E501


def _kernels(rows: Iterable[records.Row]) -> str:
    body = []
    for row in rows:
        case = [
            text.format(row.parameters[k]) for k, text in SETTINGS.items() if k in row.parameters
        ]
        name = ", ".join([TASKS.get(row.name, row.name), *case])
        body.append([name, f"`{row.name}`", f"{row.value / 1e3:.2f}", row.peer,
                     f"{row.peer_value / 1e3:.2f}", f"{row.ratio:.2f}"])  # fmt: skip
    head = ["task", "kernel", "ms", "PyTorch's", "ms", "ours ÷ PyTorch's"]
    return f"""## The other kernels

Milliseconds beside PyTorch's own function for the same task. Each result was compared with PyTorch's first.

{_table(head, body)}"""  # noqa: E501


def _counters(rows: Iterable[records.Row]) -> str:
    counts = [row for row in rows if row.peer == "recorder"]
    other = [row for row in counts if row.value != row.peer_value]
    body = [
        [f"`{row.parameters['launch']}`", row.name, f"{row.value:,.0f}", f"{row.peer_value:,.0f}"]
        for row in other
    ]
    moved = [row for row in rows if row.peer == "least"]
    memory = [
        [f"`{row.parameters['launch']}`", f"{row.value / 1e6:.0f}", f"{row.ratio:.2f}"]
        for row in moved
    ]
    equal, launches = len(counts) - len(other), len({row.parameters["launch"] for row in counts})
    return f"""## What the GPU counted

A GPU has counters in its hardware, and NVIDIA's profiler reads them. The notebooks' recorder counts the same things on your processor: requests of warps, sectors of 32 bytes, passes through shared memory. For {launches} launches of the course's kernels, {equal} of {len(counts)} counts were equal, to the last request. The others are these. We did not look into why; NVIDIA's compiler may join accesses or leave them out.

{_table(["launch", "count", "GPU", "recorder"], body)}

The memory behind the caches moves nearly the same for all of them. Beside it stands what reading and writing each of the {moved[0].parameters["side"]} × {moved[0].parameters["side"]} numbers once takes; it can be less: what a kernel wrote last may still be in a cache.

{_table(["launch", "MB", "÷ least"], memory)}"""  # noqa: E501


def _pagerank(rows: Iterable[records.Row]) -> str:
    body = []
    for row in rows:
        told = row.parameters
        if row.name.startswith("iteration") and told["dtype"] == "float32":
            body.append([f"{told['version']} ({told['method']})", f"{told['nodes']:,}",
                         f"{told['edges']:,}", f"{1e3 * row.value:.0f}",
                         f"{1e3 * row.peer_value:.1f}"])  # fmt: skip
    head = ["version", "pages", "links", "µs", "µs for its bytes"]
    return f"""## PageRank

Microseconds of one iteration in single precision, beside the time that this GPU needs to read the bytes of the iteration once.

{_table(head, body)}

With {body[0][2]} links, only the dense versions take about as long as their bytes; none takes less than {min(float(line[3]) for line in body):.0f} µs."""  # noqa: E501
