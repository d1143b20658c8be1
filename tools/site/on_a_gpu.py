"""The page of what a real GPU measured and counted: the newest records of ``make gpu``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from helpers import records
from helpers.claims.recorded import day
from helpers.paths import GPU_RECORDS

LARGEST = 16384  # rows and columns of the image
CUDNN = "torch conv2d (cuDNN, fp32)"
LIBRARIES = {CUDNN: "cuDNN", "CuPy ndimage.correlate": "CuPy"}
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
ABSENT = "–"
ByGPU = dict[str, tuple[records.Row, ...]]


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
                ran.setdefault(record.gpu, day(record.date))
        told += [part(by_gpu)] if by_gpu else []
    if not told:
        return ""
    dates = dict.fromkeys(ran.values())
    gpus = " and on an ".join(
        gpu if len(dates) == 1 else f"{gpu} (on {date})" for gpu, date in ran.items()
    )
    gpus += f" on {next(iter(dates))}" if len(dates) == 1 else ""
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

The tables show milliseconds for an image of {LARGEST:,} × {LARGEST:,} numbers in single precision. You write the first three kernels in [notebook 05](notebooks/05_cuda_tiling.ipynb). `rows` uses no shared memory: each thread walks down four columns of the image. cuDNN and CuPy are libraries; cuDNN is made for images of many channels, and this one has one.

{tables}"""  # noqa: E501


def _ladder_of(gpu: str, rows: Iterable[records.Row]) -> str:
    times: dict[tuple[str, int], float] = {}
    for row in rows:
        if row.unit == "µs" and row.parameters["size"] == LARGEST:
            k = row.parameters.get("filter", 0)
            times[row.name, k] = row.value
            if row.peer in LIBRARIES and row.peer_value:
                times[LIBRARIES[row.peer], k] = row.peer_value
    names = dict.fromkeys(name for name, k in times if k)
    ours = [name for name in names if name not in LIBRARIES.values()]
    names = [*ours, *(name for name in LIBRARIES.values() if name in names)]
    filters = sorted({k for _, k in times if k})
    body = [[f"{k} × {k}", *(f"{times[name, k] / 1e3:.2f}" for name in names)] for k in filters]
    heads = [f"`{name.removeprefix('convolve_')}`" if name in ours else name for name in names]
    table = _table([f"{_short(gpu)}: filter", *heads], body)
    return (
        f"{table}\n\nThe {_short(gpu)} copies the image in {times['device copy', 0] / 1e3:.2f} ms: "
        "no kernel can be much faster, for each reads and writes the image, too."
    )


def _kernels(by_gpu: ByGPU) -> str:
    tasks: dict[str, dict[tuple[str, str], dict[str, records.Row]]] = {}
    for gpu, rows in by_gpu.items():
        for row in rows:
            task, how = (text.format_map(row.parameters) for text in TASKS[row.name])
            task = task.replace("with 1 different values", "that are all equal")
            how = how.replace("each row padded by 0", "not padded")
            tasks.setdefault(task, {}).setdefault((f"`{row.name}`", how), {})[gpu] = row
    heads = [text for gpu in map(_short, by_gpu) for text in (f"{gpu}, ms", "÷ PyTorch")]
    parts = []
    for task, kernels in tasks.items():
        body = []
        for kernel, there in kernels.items():
            body.append([*kernel])
            for gpu in by_gpu:
                row = there.get(gpu)
                body[-1] += _beside_its_peer(row) if row else [ABSENT, ABSENT]
        peers = [
            f"{min(row.peer_value for row in found) / 1e3:.2f} ms on the {_short(gpu)}"
            for gpu in by_gpu
            if (found := [there[gpu] for there in kernels.values() if gpu in there])
        ]
        call = next(row.peer for there in kernels.values() for row in there.values())
        call = call.removeprefix("torch ").partition(",")[0].replace(" of ", "` of `")
        parts += [f"### {task}", f"PyTorch's `{call}` takes {' and '.join(peers)}."]
        parts += [_table(["kernel", "how", *heads], body)]
    return "\n\n".join(["## The other kernels", OTHERS, *parts])


OTHERS = """Kernels of notebooks [14](notebooks/14_cuda_bytes_and_shapes.ipynb) and [15](notebooks/15_cuda_threads_that_meet.ipynb) ran beside PyTorch's function for the same task, in single precision. Every result agreed with PyTorch's. Sums and scans are of each block by itself, PyTorch's too. The columns *÷ PyTorch* divide the kernel's time by PyTorch's. With PAD = 1, arrays in shared memory skip a word after every 32, so that fewer threads want the same bank. Both copies move equally many bytes of memory (below), and the packed sum makes few passes: notebooks 14 and 15 say why the copy along columns and the packed sum are slow all the same."""  # noqa: E501


def _beside_its_peer(row: records.Row) -> list[str]:
    assert row.ratio is not None
    return [f"{row.value / 1e3:.2f}", _two_digits(row.ratio)]


def _two_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:#.2g}"


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
    least, side = moved[0].peer_value, moved[0].parameters["side"]
    more = any(row.value > row.peer_value for row in other if row.peer_value is not None)
    larger = " Where it counted more, we do not know why." if more else ""
    equal, launches = len(counts) - len(other), len({row.parameters["launch"] for row in counts})
    return f"""## What the GPU counted

A GPU has counters in its hardware, and NVIDIA's profiler reads them. The notebooks' recorder counts the same things on your processor: requests of warps, sectors of 32 bytes, passes through shared memory ([notebook 14](notebooks/14_cuda_bytes_and_shapes.ipynb) explains them). For {launches} launches of the course's kernels, {equal} of {len(counts)} counts were exactly equal on the {_short(gpu)}. These were not:

{_table(["launch", "count", "GPU", "recorder"], body)}

The recorder counts the accesses that the source asks for. The GPU counts those of its optimised code, which may join accesses or leave them out.{larger}

### What its memory moved

To read and write {side:,} × {side:,} numbers once, {least / 1e6:.0f} MB must move. For all these kernels the {_short(gpu)}'s memory moves nearly this. A count may lie below it: what a kernel wrote last may still be in a cache.

{_table(["launch", "moved, MB", "÷ least"], memory)}"""  # noqa: E501


def _pagerank(by_gpu: ByGPU) -> str:
    gpu, rows = next(iter(by_gpu.items()))
    found = [
        r for r in rows if r.name.startswith("iteration") and r.parameters["dtype"] == "float32"
    ]
    graphs = sorted({row.parameters["edges"] for row in found})
    lines: dict[str, dict[int, records.Row]] = {}
    for row in found:
        method = row.parameters["method"].replace("scatter", "messages")
        version = f"{row.parameters['version']} ({method})"
        lines.setdefault(version, {})[row.parameters["edges"]] = row
    body = []
    for version, there in lines.items():
        body.append([version])
        for edges in graphs:
            row = there[edges]
            body[-1] += [f"{1e3 * row.value:.0f}", _two_digits(1e3 * row.peer_value)]
    head = [text for edges in graphs for text in (f"{edges:,} links, µs", "its bytes alone, µs")]
    return f"""## PageRank

The table compares one iteration over {found[0].parameters["nodes"]:,} pages, in single precision on the {_short(gpu)}, with the time to read its bytes once. [Notebook 06](notebooks/06_pagerank_cpu_vs_gpu.ipynb) explains the versions.

{_table(["version", *head], body)}

With {graphs[0]:,} links, only the dense versions take about as long as reading their bytes."""  # noqa: E501
