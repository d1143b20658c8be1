"""The kernels of the notebooks on CUDA C on a GPU, each beside PyTorch's own for the same task."""

from __future__ import annotations

import numpy as np

from bench.launch import gpu_time
from helpers.cuda import Module
from helpers.cuda.occupancy import RESERVED, occupancy
from helpers.records import Row

SUITE = "kernels"
GPU = True
SIDE = 8192  # of the matrix that is copied and turned
PRODUCT = 4096  # rows and columns of the factors
NUMBERS = 1 << 27  # to add up and to scan, 512 MB: beyond any L2
LETTERS = 1 << 28


def rows() -> list[Row]:
    """Time each kernel; its result must be PyTorch's."""
    return [*_matrices(), *_products(), *_resident(), *_blocks(), *_histograms()]


def _row(name, run, given, peer, call, parameters, same) -> Row:
    """Return one kernel's time in µs beside its peer's, after a look at its result."""
    import torch

    given[0][-1].view(torch.int32).zero_()  # not the result of the kernel before
    run(*given[0])
    if not same():
        raise AssertionError(f"{name}, {parameters}: not what {peer} gives")
    ours, theirs = gpu_time(run, given), gpu_time(call, given)
    return Row(name, ours, "µs", peer, theirs, parameters)


def _matrices() -> list[Row]:
    import torch

    n, made = SIDE, []
    given = [tuple(torch.rand((n, n), device="cuda") for _ in range(2)) for _ in range(2)]
    x, y = given[0]
    access = {pad: Module("access.cu", {"PAD": pad}, "gpu") for pad in (0, 1)}
    for name in ("copy_along_rows", "copy_along_columns"):
        launch = access[1][name][(n // 32, n // 8), (32, 8)]
        made.append(_row(name, lambda a, b, k=launch: k(a, b, n, n), given, "torch copy_",
                         lambda a, b: b.copy_(a), {"side": n},
                         lambda: torch.equal(x, y)))  # fmt: skip
    for pad, module in access.items():
        launch = module["transpose"][(n // 32, n // 32), (32, 8)]
        made.append(_row("transpose", lambda a, b, k=launch: k(a, b, n, n), given,
                         "torch copy_ of .T", lambda a, b: b.copy_(a.T), {"side": n, "PAD": pad},
                         lambda: torch.equal(x.T, y)))  # fmt: skip
    return made


def _products() -> list[Row]:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    n, made = PRODUCT, []
    a, b, c = given = tuple(torch.rand((n, n), device="cuda") for _ in range(3))
    want = (a @ b).clone()
    module = Module("product.cu", device="gpu")
    for name, block, wide, high in (("square_product<16>", 16, 16, 16),
                                    ("square_product<32>", 32, 32, 32),
                                    ("coarse_product<2>", 16, 32, 16),
                                    ("coarse_product<4>", 16, 64, 16),
                                    ("register_product<2>", 16, 32, 32),
                                    ("register_product<4>", 16, 64, 64)):  # fmt: skip
        launch = module[name][(n // wide, n // high), (block, block)]
        made.append(_row(name, lambda a, b, c, k=launch: k(a, b, c, n, n, n), [given],
                         "torch matmul, fp32", lambda a, b, c: torch.matmul(a, b, out=c),
                         {"side": n}, lambda: torch.allclose(c, want, rtol=1e-4)))  # fmt: skip
    return made


def _resident() -> list[Row]:
    """Time products with few warps resident: shared memory that nobody uses leaves no room."""
    import torch

    n, made = PRODUCT, []
    given = [tuple(torch.rand((n, n), device="cuda") for _ in range(3))]
    limits = torch.cuda.get_device_properties(0)
    room = limits.shared_memory_per_multiprocessor
    module = Module("product.cu", device="gpu")
    for name, side in (("square_product<16>", 16), ("register_product<2>", 32),
                       ("register_product<4>", 64)):  # fmt: skip
        needs = module[name].resources
        own = needs.shared + RESERVED
        fits = occupancy(256, needs.registers, needs.shared, needs.arch).blocks
        times = {}
        for blocks in (1, 2, 4, 8):
            if blocks <= fits:
                unused = min(room // blocks, limits.shared_memory_per_block_optin) - own
                launch = module[name][(n // side, n // side), (16, 16), unused]
                times[blocks] = gpu_time(lambda a, b, c, k=launch: k(a, b, c, n, n, n), given)
        most = max(times)
        peer = f"{8 * most} resident warps"
        made += [Row(f"{name}, {8 * blocks} resident warps", time, "µs", peer, times[most],
                     {"side": n}) for blocks, time in times.items()]  # fmt: skip
    return made


def _blocks() -> list[Row]:
    import torch

    made, blocks = [], NUMBERS // 256
    x, y = given = tuple(torch.rand(NUMBERS, device="cuda") for _ in range(2))
    want = x.view(-1, 256).sum(1)
    total = torch.empty(blocks, device="cuda")
    module = Module("sums.cu", device="gpu")
    for name in module:
        launch = module[name][blocks, 256]
        made.append(_row(name, lambda x, t, k=launch: k(x, t), [(x, total)], "torch sum",
                         lambda x, t: torch.sum(x.view(-1, 256), 1, out=t),
                         {"numbers": NUMBERS, "block": 256},
                         lambda: torch.allclose(total, want, rtol=1e-4)))  # fmt: skip
    through = x.view(-1, 256).cumsum(1)
    for pad in (0, 1):
        module = Module("scan.cu", {"PAD": pad}, "gpu")
        for name, threads in (("scan_steps", 256), ("scan_tree", 128)):
            shift = 0 if name == "scan_steps" else 1
            launch = module[name][blocks, threads]
            made.append(_row(name, lambda x, y, k=launch: k(x, y), [given], "torch cumsum",
                             lambda x, y: torch.cumsum(x.view(-1, 256), 1, out=y.view(-1, 256)),
                             {"numbers": NUMBERS, "block": 256, "PAD": pad},
                             lambda s=shift: torch.allclose(y.view(-1, 256)[:, s:],
                                                            through[:, : 256 - s],
                                                            rtol=1e-4)))  # fmt: skip
    return made


def _histograms() -> list[Row]:
    import torch

    made, grid = [], 8 * torch.cuda.get_device_properties(0).multi_processor_count
    module = Module("histogram.cu", device="gpu")
    bins = torch.zeros(256, dtype=torch.uint32, device="cuda")
    for values in (256, 1):
        letters = torch.randint(0, values, (LETTERS,), device="cuda", dtype=torch.uint8)
        want = np.bincount(letters.cpu().numpy(), minlength=256)

        def same(want=want):
            return np.array_equal(bins.cpu().numpy(), want)

        for name in module:
            launch = module[name][grid, 256]
            made.append(_row(name, lambda x, to, k=launch: k(x, to, LETTERS), [(letters, bins)],
                             "torch bincount", lambda x, to: torch.bincount(x, minlength=256),
                             {"bytes": LETTERS, "values": values}, same))  # fmt: skip
    return made
