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
ByGPU = dict[str, tuple[records.Row, ...]]
SETTINGS = {"PAD": "PAD = {}", "values": "distinct values: {}"}


def page() -> str:
    """Return the page; a part for each suite that a record has."""
    found = records.load(GPU_RECORDS)
    parts = {"cuda": _ladder, "kernels": _kernels, "counters": _counters, "pagerank": _pagerank}
    told, ran = [], {}
    for suite, part in parts.items():
        by_gpu: ByGPU = {}
        for record in found:  # the newest of each GPU
            if suite in record.suites:
                by_gpu.setdefault(record.gpu, record.suites[suite])
                ran.setdefault(record.gpu, record.date[:10])
        told += [part(by_gpu)] if by_gpu else []
    if not told:
        return ""
    gpus = " and on an ".join(f"{gpu} (on {date})" for gpu, date in ran.items())
    begin = (
        f"The notebooks run CUDA C on your processor. Here the same kernels ran on an {gpus}. "
        "`make gpu` measured and wrote the records in `data/gpu/`; with a GPU of your own, it "
        "writes yours."
    )
    return "\n\n".join(["# On a real GPU", begin, *told]) + "\n"


def _table(head: Sequence[str], body: Iterable[Iterable[object]]) -> str:
    rows = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def _short(gpu: str) -> str:
    return gpu.removeprefix("NVIDIA ").split()[0]


def _ladder(by_gpu: ByGPU) -> str:
    tables = "\n\n".join(_ladder_of(gpu, rows) for gpu, rows in by_gpu.items())
    return f"""## The convolution

Milliseconds for an image of {LARGEST} × {LARGEST} numbers in single precision.

{tables}

cuDNN is made for images of many channels, and this one has one."""


def _ladder_of(gpu: str, rows: Iterable[records.Row]) -> str:
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
    table = _table([f"filter, {_short(gpu)}", *names], body)
    return f"{table}\n\nTo copy the image takes {times['device copy', 0] / 1e3:.2f} ms."


def _kernels(by_gpu: ByGPU) -> str:
    lines: dict[tuple[str, str], dict[str, list[str]]] = {}
    for gpu, rows in by_gpu.items():
        for row in rows:
            given = row.parameters
            case = [text.format(given[k]) for k, text in SETTINGS.items() if k in given]
            name = ", ".join([TASKS.get(row.name, row.name), *case])
            times = [f"{time / 1e3:.2f}" if time else "" for time in (row.value, row.peer_value)]
            lines.setdefault((name, f"`{row.name}`"), {})[gpu] = times
    nothing = ["", ""]
    body = [
        [*line, *(time for gpu in by_gpu for time in there.get(gpu, nothing))]
        for line, there in lines.items()
    ]
    columns = [text for gpu in map(_short, by_gpu) for text in (f"{gpu}, ms", "PyTorch, ms")]
    return f"""## The other kernels

Milliseconds beside PyTorch's own function for the same task. Each result was compared with PyTorch's first.

{_table(["task", "kernel", *columns], body)}"""  # noqa: E501


def _counters(by_gpu: ByGPU) -> str:
    gpu, rows = next(iter(by_gpu.items()))
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

A GPU has counters in its hardware, and NVIDIA's profiler reads them. The notebooks' recorder counts the same things on your processor: requests of warps, sectors of 32 bytes, passes through shared memory. For {launches} launches of the course's kernels, {equal} of {len(counts)} counts were equal on the {_short(gpu)}, to the last request. The others are these. NVIDIA's optimiser makes them: compiled without it, the products and `scan_tree` made the recorder's counts.

{_table(["launch", "count", "GPU", "recorder"], body)}

The memory behind the caches moves nearly the same for all of them. Beside it stands what reading and writing each of the {moved[0].parameters["side"]} × {moved[0].parameters["side"]} numbers once takes; it can be less: what a kernel wrote last may still be in a cache.

{_table(["launch", "MB", "÷ least"], memory)}"""  # noqa: E501


def _pagerank(by_gpu: ByGPU) -> str:
    gpu, rows = next(iter(by_gpu.items()))
    body = []
    for row in rows:
        told = row.parameters
        if row.name.startswith("iteration") and told["dtype"] == "float32":
            body.append([f"{told['version']} ({told['method']})", f"{told['nodes']:,}",
                         f"{told['edges']:,}", f"{1e3 * row.value:.0f}",
                         f"{1e3 * row.peer_value:.1f}"])  # fmt: skip
    head = ["version", "pages", "links", "µs", "µs for its bytes"]
    return f"""## PageRank

Microseconds of one iteration in single precision on the {_short(gpu)}, beside the time that it needs to read the bytes of the iteration once.

{_table(head, body)}

With {body[0][2]} links, only the dense versions take about as long as their bytes; none takes less than {min(float(line[3]) for line in body):.0f} µs."""  # noqa: E501
