"""The page of what a real GPU measured and counted: the newest records of ``make gpu``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from helpers import records
from helpers.claims.written import day
from helpers.cuda.occupancy import by_resident_warps
from helpers.paths import GPU_RECORDS
from tools.site.gpu_tasks import TASKS, WHY, task_of
from tools.site.ratios import picture, times

LARGEST = 16384  # rows and columns of the image
ENDS = (3, 11)  # filters of the picture
CUDNN = "torch conv2d (cuDNN, fp32)"
LIBRARIES = {CUDNN: "cuDNN", "CuPy ndimage.correlate": "CuPy"}
ABSENT = "–"
OTHERS = """Kernels of notebooks [14](notebooks/14_cuda_bytes_and_shapes.ipynb) and [15](notebooks/15_cuda_threads_that_meet.ipynb) ran beside PyTorch's function for the same task, in single precision. Every result agreed with PyTorch's. Sums and scans stay within a block, PyTorch's too. *Times as fast* divides PyTorch's time by the kernel's. With PAD = 1, arrays in shared memory skip a word after every 32, so that fewer threads want the same bank."""  # noqa: E501
ByGPU = dict[str, tuple[records.Row, ...]]
ByKernel = dict[str, records.Row]  # one kernel, by GPU


def page() -> str:
    """Return the page; a part for each suite that a record has."""
    found = records.load(GPU_RECORDS)
    parts = {"cuda": _ladder, "kernels": _kernels, "counters": _counters, "pagerank": _pagerank}
    told: list[str] = []
    ran: dict[str, str] = {}
    newest: dict[str, ByGPU] = {}
    for suite, part in parts.items():
        by_gpu: ByGPU = {}
        for record in found:  # the newest of each GPU
            if suite in record.suites:
                by_gpu.setdefault(record.gpu, record.suites[suite])
                ran.setdefault(record.gpu, day(record.date))
        newest[suite] = by_gpu
        told += [part(by_gpu)] if by_gpu else []
    if not told:
        return ""
    gpus = " and on an ".join(f"{gpu} ({date})" for gpu, date in ran.items())
    begin = (
        f"The notebooks run CUDA C on your processor. Here the same kernels ran on an {gpus}. "
        "`make gpu` measured and wrote the records in `data/gpu/`; with a GPU of your own, it "
        "writes yours."
    )
    return "\n\n".join(["# On a real GPU", begin, _overview(newest), *told]) + "\n"


def _overview(newest: Mapping[str, ByGPU]) -> str:
    """Return the picture of all kernels beside PyTorch, a row for each task."""
    rows: dict[str, dict[str, list[float]]] = {}
    for gpu, found in newest["cuda"].items():
        for row in found:
            k, size = row.parameters.get("filter"), row.parameters["size"]
            if row.peer == CUDNN and size == LARGEST and k in ENDS and row.ratio:
                label = f"Convolution, {k} × {k}"
                rows.setdefault(label, {}).setdefault(_short(gpu), []).append(1 / row.ratio)
    for gpu, found in newest["kernels"].items():
        for row in found:
            if row.ratio and row.name in TASKS:
                task = re.sub(r" (of )?[\d,]+ (× [\d,]+ )?(numbers|bytes)", "", task_of(row)[0])
                rows.setdefault(task, {}).setdefault(_short(gpu), []).append(1 / row.ratio)
    if not rows:
        return ""
    ahead: dict[str, set[bool]] = {}
    for label, lanes in rows.items():
        task = re.split(", | with | in ", label)[0].lower()
        ahead.setdefault(task, set()).update(one > 1 for lane in lanes.values() for one in lane)
    shares = (("all", {True}), ("some", {True, False}), ("none", {False}))
    parts = [
        f"**{share}** for {', '.join(those)}"
        for share, of in shares
        if (those := [task for task, known in ahead.items() if known == of])
    ]
    caption = (
        "How many times as fast as PyTorch the course's kernels are: a blue dot for each "
        "kernel, an orange diamond for one that is slower than PyTorch."
    )
    shown = picture(caption, ("PyTorch is faster", "our kernel is faster"), rows)
    return (
        f"Kernels of ours that are faster than PyTorch's function: {'; '.join(parts)}.\n\n{shown}"
    )


def _table(head: Sequence[str], body: Iterable[Iterable[object]]) -> str:
    rows = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def _short(gpu: str) -> str:
    return gpu.removeprefix("NVIDIA ").split()[0]


def _ladder(by_gpu: ByGPU) -> str:
    parts = [_ladder_of(gpu, rows) for gpu, rows in by_gpu.items()]
    shown = "\n\n".join(table for table, *_ in parts)
    faster = [factor for _, factors, *_ in parts for factor in factors]
    over = [factor for _, _, factors, _ in parts for factor in factors]
    copies = [copy for *_, copy in parts]
    return f"""## The convolution

The tables show milliseconds for an image of {LARGEST:,} × {LARGEST:,} numbers in single precision. You write the first three kernels in [notebook 05](notebooks/05_cuda_tiling.ipynb). `rows` uses no shared memory: each thread walks down four columns of the image. cuDNN and CuPy are libraries; cuDNN is made for images of many channels, and this one has one.

{shown}

With each filter our fastest kernel is {_span(faster)} times as fast as cuDNN. With the smallest it takes {_span(over)} times as long as a copy of the image ({_on(by_gpu, copies)}): no kernel can be much faster than a copy, for each reads and writes the image, too."""  # noqa: E501


def _on(gpus: Iterable[str], said: Sequence[str]) -> str:
    """Return what is said of each GPU, or what is said of all."""
    if len({*said}) == 1:
        return said[0]
    pairs = zip(said, map(_short, gpus), strict=True)
    return " and ".join(f"{one} on the {gpu}" for one, gpu in pairs)


def _span(factors: Iterable[float]) -> str:
    """Return the least and the greatest factor, or one if they are alike."""
    found = sorted(factors)
    return " to ".join(dict.fromkeys(map(times, (found[0], found[-1]))))


def _ladder_of(gpu: str, rows: Iterable[records.Row]) -> tuple[str, list[float], list[float], str]:
    """Return the table, our speeds beside cuDNN, our time beside a copy's, and the copy's."""
    times_of: dict[tuple[str, int], float] = {}
    for row in rows:
        if row.unit == "µs" and row.parameters["size"] == LARGEST:
            k = row.parameters.get("filter", 0)
            times_of[row.name, k] = row.value
            if row.peer in LIBRARIES and row.peer_value:
                times_of[LIBRARIES[row.peer], k] = row.peer_value
    names = dict.fromkeys(name for name, k in times_of if k)
    ours = [name for name in names if name not in LIBRARIES.values()]
    names = [*ours, *(name for name in LIBRARIES.values() if name in names)]
    filters = sorted({k for _, k in times_of if k})
    body = [[f"{k} × {k}", *(f"{times_of[name, k] / 1e3:.2f}" for name in names)] for k in filters]
    heads = [f"`{name.removeprefix('convolve_')}`" if name in ours else name for name in names]
    table = _table([f"{_short(gpu)}: filter", *heads], body)
    best = {k: min(ours, key=lambda name, k=k: times_of[name, k]) for k in filters}
    faster = [times_of["cuDNN", k] / times_of[best[k], k] for k in filters]
    copy = times_of["device copy", 0]
    over = times_of[best[filters[0]], filters[0]] / copy
    return table, faster, [over], f"{copy / 1e3:.2f} ms"


def _kernels(by_gpu: ByGPU) -> str:
    tasks: dict[str, dict[tuple[str, str], dict[str, records.Row]]] = {}
    for gpu, rows in by_gpu.items():
        for row in rows:
            if row.name not in TASKS:
                continue
            task, how = task_of(row)
            tasks.setdefault(task, {}).setdefault((f"`{row.name}`", how), {})[gpu] = row
    heads = [text for gpu in map(_short, by_gpu) for text in (f"{gpu}, ms", "times as fast")]
    parts = []
    kinds = [TASKS[name.strip("`")][0] for ((name, _), *_) in tasks.values()]
    for index, (task, kernels) in enumerate(tasks.items()):
        body = []
        for kernel, there in kernels.items():
            body.append([*kernel])
            for gpu in by_gpu:
                row = there.get(gpu)
                body[-1] += _beside_its_peer(row) if row else [ABSENT, ABSENT]
        peers = {
            gpu: f"{min(row.peer_value for row in found) / 1e3:.2f} ms"
            for gpu in by_gpu
            if (found := [there[gpu] for there in kernels.values() if gpu in there])
        }
        call = next(row.peer for there in kernels.values() for row in there.values())
        call = call.removeprefix("torch ").partition(",")[0].replace(" of ", "` of `")
        parts += [f"### {task}", f"PyTorch's `{call}` takes {_on(peers, [*peers.values()])}."]
        why = WHY[kinds[index]] if kinds[index] not in kinds[index + 1 :] else ""
        conclusion = f"{_conclusion(kernels, by_gpu)} {why}".rstrip()
        parts += [_table(["kernel", "how", *heads], body), conclusion]
    parts += _few_warps(by_gpu)
    return "\n\n".join(["## The other kernels", OTHERS, *parts])


def _few_warps(by_gpu: ByGPU) -> list[str]:
    """Return the times of products with fewer resident warps; nothing if no record has them."""
    tables, side = [], 0
    for gpu, rows in by_gpu.items():
        found = by_resident_warps(rows)
        warps = sorted({number for there in found.values() for number in there})
        body = []
        for name, there in found.items():
            body.append([f"`{name}`"])
            body[-1] += [f"{there[n].value / 1e3:.2f}" if n in there else "no room" for n in warps]
            side = there[warps[0]].parameters["side"]
        tables += [_table([f"{_short(gpu)}: resident warps", *warps], body)] if body else []
    text = (
        f"Products of {side:,} × {side:,} numbers, with shared memory that nobody uses: it leaves "
        "room for fewer warps on a multiprocessor. The table shows milliseconds; the last number "
        "of a row is with as many warps as fit. Of these kernels, the one whose threads make the "
        "most outputs needs the fewest warps to come near that time."
    )
    return ["### Fewer resident warps", text, *tables] if tables else []


def _conclusion(kernels: Mapping[tuple[str, str], ByKernel], by_gpu: Iterable[str]) -> str:
    """Return which kernel of a task is the fastest on each GPU, and by how much."""
    names = [name for name, _ in kernels]
    said: dict[str, dict[str, tuple[float, float]]] = {}
    for gpu in by_gpu:
        rows = [(there[gpu], kernel) for kernel, there in kernels.items() if gpu in there]
        if rows:
            best, (name, how) = min(rows, key=lambda one: one[0].value)
            worst = max(row.value for row, _ in rows)
            which = f"{name} ({how})" if names.count(name) > 1 else name
            said.setdefault(which, {})[gpu] = 1 / (best.ratio or 1), worst / best.value
    found = []
    for which, lines in said.items():
        where = "" if len(said) == 1 else f" on the {' and the '.join(map(_short, lines))}"
        peer, slowest = map(_span, zip(*lines.values(), strict=True))
        found.append(
            f"The fastest of ours{where} is {which}: {peer} times as fast as PyTorch, and "
            f"{slowest} times as fast as the slowest kernel."
        )
    return " ".join(found)


def _beside_its_peer(row: records.Row) -> list[str]:
    assert row.ratio is not None
    return [f"{row.value / 1e3:.2f}", times(1 / row.ratio)]


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
    larger = " Where the GPU counted more, we do not know why." if more else ""
    equal, launches = len(counts) - len(other), len({row.parameters["launch"] for row in counts})
    return f"""## What the GPU counted

A GPU has counters in its hardware, and NVIDIA's profiler reads them. The notebooks' recorder counts the same things on your processor: requests of warps, sectors of 32 bytes, passes through shared memory (*wavefronts*; [notebook 14](notebooks/14_cuda_bytes_and_shapes.ipynb) explains them). For {launches} launches of the course's kernels, {equal} of {len(counts)} counts were exactly equal on the {_short(gpu)}. These were not:

{_table(["launch", "count", "GPU", "recorder"], body)}

The recorder counts the accesses that the source asks for. The GPU counts those of its optimised code, which may join accesses or leave them out.{larger}

### What the GPU's memory moved

To read and write {side:,} × {side:,} numbers once, {least / 1e6:.0f} MB must move. A count may lie below it: what a kernel wrote last may still be in a cache.

{_table(["launch", "moved, MB", "÷ least"], memory)}

No kernel makes the {_short(gpu)}'s memory move more than {max(row.ratio or 0 for row in moved):.2f} times the least. The copy along columns asks for eight times the sectors of the copy along rows, but the caches hold a sector until other threads use the rest of it. So the bytes that the memory moves do not make this copy slow. Sectors are counted where threads reach the first cache; we did not measure which part of the way to memory the copy waits for."""  # noqa: E501


def _two_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else times(value)


def _pagerank(by_gpu: ByGPU) -> str:
    from helpers.pagerank.versions import VERSIONS  # imports torch

    gpu, rows = next(iter(by_gpu.items()))
    found = [
        r for r in rows if r.name.startswith("iteration") and r.parameters["dtype"] == "float32"
    ]
    graphs = sorted({row.parameters["edges"] for row in found})
    lines: dict[str, dict[int, records.Row]] = {}
    for row in found:
        lines.setdefault(row.parameters["method"], {})[row.parameters["edges"]] = row
    body = []
    for method, there in lines.items():
        body.append([f"{VERSIONS[method].number}: {VERSIONS[method].title}"])
        for edges in graphs:
            row = there[edges]
            body[-1] += [f"{1e3 * row.value:.0f}", _two_digits(1e3 * row.peer_value)]
    first = [min(lines, key=lambda name, e=edges: lines[name][e].value) for edges in graphs]
    fastest = " or ".join(dict.fromkeys(VERSIONS[method].number for method in first))
    on = "both graphs" if len(graphs) == 2 else "these graphs"
    head = [text for edges in graphs for text in (f"{edges:,} links, µs", "its bytes alone, µs")]
    return f"""## PageRank

The table compares one iteration over {found[0].parameters["nodes"]:,} pages, in single precision on the {_short(gpu)}, with the time to read its bytes once. [Notebook 06](notebooks/06_pagerank_cpu_vs_gpu.ipynb) explains the versions.

{_table(["version", *head], body)}

Version {fastest} is the fastest of all on {on}. With {graphs[0]:,} links, only the dense versions take about as long as reading their bytes. What the other versions wait for was not measured."""  # noqa: E501
