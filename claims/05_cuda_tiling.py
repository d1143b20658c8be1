"""What notebook 05 concludes: bytes of each rung, sectors, banks, races (counted, not timed)."""

from __future__ import annotations

import functools

from helpers.claims import Claim, Share, with_defaults

SEEDS = range(3)
SIDE = 96  # pixels of the images


@functools.cache
def _counts(seed: int, rung: str, k: int, side: int = SIDE, tile: tuple[int, int] = (8, 32)):
    """Of one rung: global bytes asked for, and turns and least turns of its reads of the tile."""
    import numpy as np

    from helpers.cuda.ladder import Convolution

    rng = np.random.default_rng(seed)
    image, weights = rng.random((side, side), np.float32), rng.random((k, k), np.float32)
    made = Convolution(weights, tile=tile, device="cpu")
    try:
        record = made.record(image, rung, blocks=[])
    finally:
        made.module.close()
    reads = record.select(array="tile", kind="read")
    turns = sum(one.wavefronts for one in reads), sum(one.ideal for one in reads)
    return record.requested_bytes(space="global"), *turns


def asked(seed: int, ours: str, rival: str, k: int, side: int = SIDE) -> tuple[float, float]:
    """Bytes of global memory that two rungs ask for."""
    return _counts(seed, ours, k, side)[0], _counts(seed, rival, k, side)[0]


def asked_by_tiles(seed: int, tile: tuple[int, int], k: int = 5, side: int = SIDE):
    """Bytes that the tiled rung asks for with that tile, and with one of 8 × 32."""
    return _counts(seed, "tiled", k, side, tile)[0], _counts(seed, "tiled", k, side)[0]


def turns_of_banks(seed: int, tile: tuple[int, int], k: int = 5, side: int = SIDE):
    """Turns that the tile's reads take in shared memory, and the least that would do."""
    return _counts(seed, "tiled", k, side, tile)[1:]


def moved_sectors(seed: int, shape: tuple[int, int]) -> tuple[float, float]:
    """Bytes moved where neighbouring threads take neighbouring rows, and columns."""
    import numpy as np

    from helpers.cuda import Module

    matrix = np.random.default_rng(seed).random(shape, np.float32)
    grid = max(-(-n // 32) for n in shape), max(-(-n // 8) for n in shape)
    moved = []
    with Module("access.cu", device="cpu") as module:
        for name in ("copy_along_columns", "copy_along_rows"):
            copy = np.zeros_like(matrix)
            record = module[name][grid, (32, 8)].record(matrix, copy, *shape)
            moved.append(32 * sum(one.sectors for one in record.select(space="global")))
    return moved[0], moved[1]


def transposed_turns(seed: int, pad: int, shape: tuple[int, int] = (64, 64)):
    """Turns of reading columns of a 32 × (32 + pad) tile, and the least that would do."""
    import numpy as np

    from helpers.cuda import Module

    matrix = np.random.default_rng(seed).random(shape, np.float32)
    copy, grid = np.zeros(shape[::-1], np.float32), tuple(-(-n // 32) for n in shape[::-1])
    with Module("access.cu", {"PAD": pad}, device="cpu") as module:
        record = module["transpose"][grid, (32, 8)].record(matrix, copy, *shape)
    reads = record.select(array="tile", kind="read")
    return sum(one.wavefronts for one in reads), sum(one.ideal for one in reads)


def scans(seed: int, n: int, what: str, pad: int = 0) -> tuple[float, float]:
    """Accesses of shared memory, or turns of its banks, of a scan in steps and of one by a tree."""
    import numpy as np

    from helpers.cuda import Module

    x = np.random.default_rng(seed).random(n, np.float32)
    found = []
    for name, threads, words in (("scan_steps", n, 0), ("scan_tree", n // 2, pad)):
        with Module("scan.cu", {"N": n, "PAD": words}, device="cpu") as module:
            record = module[name][1, threads].record(x, np.zeros_like(x), blocks=[])
        found.append(sum(getattr(one, what) for one in record.select(space="shared")))
    return found[0], found[1]


PARTING = """
__global__ void parting(const float *x, float *y, int group) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    if (threadIdx.x / group % 2)
        for (int k = 0; k < 8; k++)
            v = 0.5f * v + 1;  // odd
    else
        for (int k = 0; k < 8; k++)
            v = v * v - 0.5f;  // even
    y[i] = v;
}
"""


def parted(seed: int, group: int, blocks: int = 4) -> tuple[float, float]:
    """Passes through two ways that groups of neighbours take in turn, and the least that do."""
    import numpy as np

    from helpers.cuda import Module

    x = np.random.default_rng(seed).random(128 * (blocks + seed), np.float32)
    with Module(PARTING, device="cpu") as module:
        record = module["parting"][blocks + seed, 128].warps(x, np.empty_like(x), group)
    lines = record.line("// odd"), record.line("// even")
    return record.count(*lines), x.size * 8 / 32


def summed(seed: int, n: int, ours: str, rival: str, what: str) -> tuple[float, float]:
    """Passes of a tree's additions, or turns of the banks in all of it, of two trees of sums."""
    import numpy as np

    from helpers.cuda import Module

    x, found = np.random.default_rng(seed).random(n * (seed + 1), np.float32), []
    with Module("sums.cu", {"N": n}, device="cpu") as module:
        for name in (ours, rival):
            launch, total = module[f"{name}_sum"][seed + 1, n], np.zeros(seed + 1, np.float32)
            if what == "passes":
                record = launch.warps(x, total)
                found.append(record.count(record.line(f"// {name}")))
            else:
                accesses = launch.record(x, total, blocks=[]).select(space="shared")
                found.append(sum(one.wavefronts for one in accesses))
    return found[0], found[1]


def binned(seed: int, each: int, blocks: int = 8) -> tuple[float, float]:
    """Atomics on global memory of a histogram of bytes: each counted there, or in blocks first."""
    import numpy as np

    from helpers.cuda import Module

    n, found = each * blocks, []
    x = np.random.default_rng(seed).integers(0, 256, n).astype(np.uint8)
    with Module("histogram.cu", device="cpu") as module:
        for name in ("direct", "own"):
            bins = np.zeros(256, np.uint32)
            record = module[f"{name}_histogram"][blocks, 256].record(x, bins, n, blocks=[])
            found.append(record.count(array="bins", kind="atomic"))
    return found[0], found[1]


def wanted(seed: int, ours: str, name: str, array: str, n: int = 8192) -> tuple[float, float]:
    """Turns at one place of a histogram's atomics: of a photograph or noise, of random bytes."""
    import numpy as np
    from sklearn.datasets import load_sample_image

    from helpers.cuda import Module
    from helpers.cuda.contention import turns

    rng, found = np.random.default_rng(seed), []
    grey = load_sample_image(ours).mean(axis=2).astype(np.uint8).ravel()
    first = rng.integers(0, grey.size - n)
    with Module("histogram.cu", device="cpu") as module:
        for x in (grey[first : first + n], rng.integers(0, 256, n).astype(np.uint8)):
            launch = module[f"{name}_histogram"][4, 256]
            found.append(turns(launch.record(x.copy(), np.zeros(256, np.uint32), n), array=array))
    return found[0], found[1]


@functools.cache
def _product(seed: int, name: str, threads: int, shape: tuple[int, int], size: tuple[int, ...]):
    """Bytes of global memory and turns of the banks of a product whose blocks have that shape."""
    import numpy as np

    from helpers.cuda import Module

    (m, k, n), (high, wide), rng = size, shape, np.random.default_rng(seed)
    a, b, c = rng.random((m, k), "f4"), rng.random((k, n), "f4"), np.zeros((m, n), np.float32)
    with Module("product.cu", device="cpu", verify=False) as module:
        launch = module[name][(-(-n // wide), -(-m // high)), (threads, threads)]
        record = launch.record(a, b, c, m, k, n, blocks=[])
    turns = sum(one.wavefronts for one in record.select(space="shared"))
    return {"bytes": record.requested_bytes(space="global"), "turns": turns}


def multiplied(
    seed: int,
    ours: int | None,
    rival: int | None,
    what: str = "bytes",
    rows: int | None = None,
    unit: int = 1,
    largest: int = 128,
) -> tuple[float, float]:
    """Bytes or turns of two products: by so many outputs a thread, or (None) by a tile of 32 × 32.

    Sides are drawn, multiples of ``unit`` above half of ``largest``; A has ``rows`` where given.
    """
    import numpy as np

    half = largest // 2 // unit
    m, k, n = (unit * np.random.default_rng(seed).integers(half + 1, 2 * half + 1, 3)).tolist()
    found = []
    for outputs in (ours, rival):
        block = ("square_product<32>", 32, (32, 32))
        if outputs is not None:
            block = (f"coarse_product<{outputs}>", 16, (16, 16 * outputs))
        found.append(_product(seed, *block, (rows or m, k, n))[what])
    return found[0], found[1]


SUM = """
__global__ void sum(const float *x, float *total) {
    __shared__ float part[64];
    part[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    BEFORE
    for (int half = 32; half > 0; half /= 2) {
        BARRIER
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        AFTER
    }
    if (threadIdx.x == 0) total[blockIdx.x] = part[0];
}
"""


def race_found(seed: int, barrier: str = "", before: str = "", after: str = "") -> Share:
    """Whether the runner reports a tree of sums with these lines before and in its loop."""
    import numpy as np

    from helpers.cuda import KernelError, Module

    x = np.random.default_rng(seed).random(64 * (seed + 1), np.float32)
    total = np.zeros(seed + 1, np.float32)
    source = SUM.replace("BEFORE", before).replace("BARRIER", barrier).replace("AFTER", after)
    with Module(source, device="cpu", check=True) as module:
        try:
            module["sum"][seed + 1, 64](x, total)
        except KernelError:
            return Share(1, 1)
    return Share(0, 1)


FILTERS = {"3 × 3": {"k": 3}, "7 × 7": {"k": 7}}


_ratio = with_defaults(seeds=SEEDS, unit="bytes", scale="ratio")

CLAIMS = [
    _ratio(
        "05-constant",
        "Constant memory takes nearly half of what the first rung asks of global memory.",
        functools.partial(asked, ours="global", rival="constant"),
        FILTERS,
        "holds",
        0.8,
        "global",
        "constant",
        smallest={"side": 8},
    ),
    _ratio(
        "05-tile",
        "A tile with its halo asks for less than a fifth of that.",
        functools.partial(asked, ours="constant", rival="tiled"),
        {"5 × 5": {"k": 5}, "7 × 7": {"k": 7}},
        "holds",
        4.0,
        "constant",
        "tiled",
        smallest={"side": 8},
    ),
    _ratio(
        "05-rows-global",
        "The last rung asks for more global memory than the tile.",
        functools.partial(asked, ours="rows", rival="tiled"),
        FILTERS,
        "holds",
        0.2,
        "rows",
        "tiled",
        smallest={"side": 8},
    ),
    _ratio(
        "05-small-tiles",
        "Small tiles ask for more, since they load more halo.",
        asked_by_tiles,
        {"4 × 8": {"tile": (4, 8)}, "8 × 8": {"tile": (8, 8)}},
        "holds",
        0.2,
        "small tile",
        "8 × 32",
        smallest={"side": 8},
    ),
    _ratio(
        "05-banks-tile",
        "A tile 16 wide makes the warp's reads take turns.",
        turns_of_banks,
        {"16 × 16": {"tile": (16, 16)}, "8 × 32": {"tile": (8, 32)}},
        "depends on the tile",
        0.1,
        "turns",
        "least",
        axis="the tile",
        unit="turns",
        smallest={"side": 8},
    ),
    _ratio(
        "05-coalescing",
        "Neighbouring threads on neighbouring rows move over six times the bytes.",
        moved_sectors,
        {"64 × 64": {"shape": (64, 64)}, "96 × 160": {"shape": (96, 160)}},
        "holds",
        5.0,
        "along columns",
        "along rows",
        smallest={"shape": (8, 8)},
    ),
    _ratio(
        "05-padding",
        "Columns of the tile make lanes take turns.",
        transposed_turns,
        {"32 × 32": {"pad": 0}, "32 × 33": {"pad": 1}, "32 × 36": {"pad": 4}},
        "depends on the padding",
        0.1,
        "turns",
        "least",
        axis="the padding",
        unit="turns",
        smallest={"shape": (8, 8)},
    ),
    _ratio(
        "05-scan-work",
        "A scan in steps asks shared memory for over twice as many accesses as one by a tree.",
        functools.partial(scans, what="count"),
        {"256 numbers": {"n": 256}, "1024 numbers": {"n": 1024}},
        "holds",
        1.0,
        "in steps",
        "by a tree",
        unit="accesses",
        smallest={"n": 64},
    ),
    _ratio(
        "05-scan-turns",
        "It also occupies the banks for more turns.",
        functools.partial(scans, what="wavefronts"),
        {
            "256 numbers": {"n": 256},
            "1024 numbers": {"n": 1024},
            "256, padded": {"n": 256, "pad": 1},
            "1024, padded": {"n": 1024, "pad": 1},
        },
        "depends on the padding",
        0.1,
        "in steps",
        "by a tree",
        axis="the padding",
        unit="turns",
        smallest={"n": 64},
    ),
    _ratio(
        "05-divergence",
        "Lanes that part at a branch take their warp through both ways.",
        parted,
        {f"groups of {group}": {"group": group} for group in (1, 8, 16, 32, 64)},
        "depends on the group",
        0.1,
        "passes",
        "least",
        axis="the group",
        unit="passes",
        smallest={"blocks": 1},
    ),
    _ratio(
        "05-divergence-sum",
        "The same additions take over three times the passes if the adding threads stand apart.",
        functools.partial(summed, ours="interleaved", rival="packed", what="passes"),
        {"256 numbers": {"n": 256}, "1024 numbers": {"n": 1024}},
        "holds",
        2.0,
        "interleaved",
        "packed",
        unit="passes",
        smallest={"n": 256},
    ),
    _ratio(
        "05-divergence-banks",
        "Packed, they occupy the banks for as many turns as before.",
        functools.partial(summed, ours="interleaved", rival="packed", what="turns"),
        {"256 numbers": {"n": 256}, "1024 numbers": {"n": 1024}},
        "ties",
        0.1,
        "interleaved",
        "packed",
        unit="turns",
        smallest={"n": 64},
    ),
    _ratio(
        "05-divergence-halves",
        "A sum by halves occupies the banks for fewer than half of these turns.",
        functools.partial(summed, ours="packed", rival="halved", what="turns"),
        {"256 numbers": {"n": 256}, "1024 numbers": {"n": 1024}},
        "holds",
        1.0,
        "packed",
        "halved",
        unit="turns",
        smallest={"n": 64},
    ),
    _ratio(
        "05-histogram",
        "Bins of a block's own save global atomics where it counts more bytes than it has bins.",
        binned,
        {f"{each} bytes a block": {"each": each} for each in (256, 1024, 4096)},
        "depends on the bytes of a block",
        0.1,
        "direct",
        "own bins",
        axis="the bytes of a block",
        unit="atomics",
        smallest={"blocks": 1},
    ),
    _ratio(
        "05-histogram-turns",
        "Neighbouring pixels want the same bin more often than random bytes do.",
        wanted,
        {
            "china.jpg, direct": {"ours": "china.jpg", "name": "direct", "array": "bins"},
            "china.jpg, own bins": {"ours": "china.jpg", "name": "own", "array": "own"},
            "flower.jpg, direct": {"ours": "flower.jpg", "name": "direct", "array": "bins"},
        },
        "holds",
        0.5,
        "photograph",
        "random bytes",
        unit="turns",
        seeds=range(5),
        smallest={"n": 512},
    ),
    _ratio(
        "05-coarsening",
        "Threads with several outputs each, of a row, ask for less of global memory.",
        multiplied,
        {f"{n} outputs": {"ours": 1, "rival": n} for n in (2, 4)},
        "holds",
        0.15,
        "one output",
        "several",
        seeds=range(5),
        smallest={"largest": 4},
    ),
    _ratio(
        "05-coarse-or-square",
        "They ask for more than a plain tile of 32 × 32, unless A has few rows.",
        functools.partial(multiplied, ours=4, rival=None),
        {"65 to 128 rows": {}, "16 rows": {"rows": 16}},
        "depends on the rows of A",
        0.05,
        "4 outputs",
        "32 × 32",
        axis="the rows of A",
        seeds=range(5),
        smallest={"largest": 4},
    ),
    _ratio(
        "05-coarse-shared",
        "The plain tile of 32 × 32 occupies the banks for more turns.",
        functools.partial(multiplied, ours=None, what="turns", unit=64),
        {f"{n} output{'s' * (n > 1)}": {"rival": n} for n in (1, 2, 4)},
        "depends on the outputs of a thread",
        0.1,
        "32 × 32",
        "outputs a thread",
        axis="the outputs of a thread",
        unit="turns",
        smallest={"unit": 1, "largest": 4},
    ),
    Claim(
        id="05-race",
        sentence="Without a barrier in its loop a tree of sums is reported as a fault.",
        experiment=race_found,
        seeds=range(8),
        settings={
            "no barrier": {"barrier": ""},
            "__syncwarp": {"barrier": "__syncwarp();"},
            "__syncthreads": {"barrier": "__syncthreads();"},
            "all met before": {"before": "__syncthreads();"},
            "all met before, then __syncwarp": {
                "before": "__syncthreads();",
                "after": "__syncwarp();",
            },
        },
        verdict="depends on the barrier",
        margin=0.0,
        axis="the barrier",
        ours="runs reported",
        rival="half of them",
        rival_share=0.5,
        unit="1",
    ),
]
