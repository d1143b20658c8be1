"""What a launch costs if the lanes of a warp go through the code together, counted by masks.

A kernel is written a second time, over arrays of all threads of a block: every access is told
which threads are active. Nothing here knows the recorder. The docstring of such a model is its
kernel's body, where ``x`` holds numbers from 0 to 31 and ``t`` is the thread.
"""

import inspect

import numpy as np

from helpers.cuda import Module

X = np.random.default_rng(7).integers(0, 32, 4096).astype(np.int32)

SECTOR, BANKS, WARP = 32, 32, 32


class Block:
    """The threads of one block: ``t`` is their numbers, ``all`` the mask of all."""

    def __init__(self, threads, x, number=0):
        self.t, self.all, self.b = np.arange(threads), np.ones(threads, bool), number
        self.values, self.totals = x, {}

    def x(self, index, on, size=4):
        """Read the argument x; return the values (0 where a thread is not active)."""
        self._touch("x", "read", index, on, size)
        index = np.where(on, np.broadcast_to(index, on.shape), 0)
        return np.where(on, self.values[index % len(self.values)], 0)

    def y(self, index, on, size=4):
        self._touch("y", "write", index, on, size)

    def add(self, index, on, array="y"):
        self._touch(array, "atomic", index, on, 4)

    def read(self, index, on, size=4):
        """Read the shared array s."""
        self._touch("s", "read", index, on, size)

    def write(self, index, on, size=4):
        self._touch("s", "write", index, on, size)

    def _touch(self, array, kind, index, on, size):
        begin = np.broadcast_to(index, on.shape) * size
        total = self.totals.setdefault((array, kind), np.zeros(3, int))
        for first in range(0, len(on), WARP):
            lanes = begin[first : first + WARP][on[first : first + WARP]].tolist()
            if not lanes:
                continue
            if array == "s":
                numbers = np.flatnonzero(on[first : first + WARP]).tolist()
                cost = passes(dict(zip(numbers, lanes, strict=True)), size)
            else:
                cost = len({byte // SECTOR for at in lanes for byte in range(at, at + size)})
            total += len(lanes), 1, cost


def passes(lanes, size):
    """Return the passes of a request to shared memory: 128 bytes are served at a time."""
    together, total = WARP if size <= 4 else WARP * 4 // size, 0
    for first in range(0, WARP, together):
        words = {
            (at + byte) // 4
            for lane, at in lanes.items()
            if first <= lane < first + together
            for byte in range(0, size, 4)
        }
        wanted = [word % BANKS for word in words]
        total += max(map(wanted.count, wanted), default=0)
    return total


def recorded(record):
    """Return the recorder's counts in the same form: accesses, requests, sectors or passes."""
    totals = {}
    for access in record.accesses:
        total = totals.setdefault((access.array, access.kind), np.zeros(3, int))
        total += access.count, access.requests, access.sectors + access.wavefronts
    return {key: total.tolist() for key, total in totals.items()}


class Kernels(dict):
    """Models by name, each with its block, its grid and what stands before its kernel."""

    def add(self, block=64, grid=1, before=""):
        def keep(model):
            self[model.__name__] = model, block, grid, before
            return model

        return keep

    def module(self, device="cpu"):
        """Compile all of them."""
        text = []
        for name, (model, _, _, before) in self.items():
            text.append(
                f"{before}\n__global__ void {name}(const int *x, int *y) {{ const int t = "
                "threadIdx.x + blockDim.x * threadIdx.y, b = blockIdx.x;\n"
                f"{inspect.cleandoc(model.__doc__)}\n}}"
            )
        return Module("\n".join(text), device=device, verify=False)

    def by_hand(self, name):
        """Return what the model counts, in the form of `recorded`."""
        model, block, grid, _ = self[name]
        want = {}
        for number in range(grid):
            here = Block(int(np.prod(block)), X, number)
            model(here)
            for key, total in here.totals.items():
                want[key] = want.get(key, 0) + total
        return {key: total.tolist() for key, total in want.items()}

    def counts(self, module, name):
        """Return what the recorder counts and what the model does."""
        _, block, grid, _ = self[name]
        record = module[name][grid, block].record(X, np.zeros(4096, np.int32))
        return recorded(record), self.by_hand(name)
