"""The versions of one PageRank iteration, each as an object that multiplies by the link matrix.

Every version computes y = G · (Out ∘ x): G[i, j] is the weight of the edge j → i and Out[j] is
1 / (weight leaving j). They differ in how G is stored and in when Out is multiplied in, so in the
bytes that an iteration must move, ``bytes_moved``. Versions 0 to 3 are those of "Doing Deep
Learning in Parallel with PyTorch"; version 4 is what one would do today.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import torch
from torch import Tensor

from helpers.machine import free_memory
from helpers.pagerank.graphs import Links


class Version:
    """One way to multiply by the link matrix: ``product(x) -> y``, shapes (N,).

    ``bytes_moved`` is what one product must read and write at the least, each array once, caches
    ignored: indices, values, messages, vectors. ValueError if it does not run on such a device, or
    torch sees none.
    """

    number: str
    title: str
    devices: tuple[str, ...] = ("cpu", "cuda")
    bytes_moved: int

    def __init__(self, graph: Links, dtype: str = "float32", device: str = "cpu"):
        self.device, self.dtype = torch.device(device), getattr(torch, np.dtype(dtype).name)
        if self.device.type not in self.devices:
            where = " or ".join(self.devices)
            raise ValueError(f"version {self.number} ({self.title}) runs on {where}; got {device}")
        if self.device.type != "cpu" and not torch.cuda.is_available():
            raise ValueError(f"device {device!r} was asked for, but torch sees no GPU here")
        self.nodes = graph.nodes
        self.real = np.dtype(dtype).itemsize  # bytes
        self.out = self._tensor(graph.inverse_out)
        self.prepare(graph)

    def _tensor(self, array):
        array = array if array.dtype.kind == "i" else array.astype(str(self.dtype)[6:])
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def _edges(self, graph: Links):
        """Source and target of every edge, int64 tensors (E,), and the weights or None."""
        coo = graph.incoming.tocoo()
        weights = None if graph.unweighted else self._tensor(coo.data)
        source, target = (self._tensor(a.astype(np.int64)) for a in (coo.coords[1], coo.coords[0]))
        return source, target, weights

    @property
    def row(self) -> str:
        """The version's row in a table: its number, with "d" in double precision."""
        return self.number + "d" * (self.real == 8)

    @property
    def label(self) -> str:
        """Its row and how it stores the links: a name for a point in a picture."""
        return f"{self.row} {self.title.partition(',')[0]}"

    def prepare(self, graph: Links) -> None:
        """Store the graph's matrix as this version has it, and count ``bytes_moved``."""
        raise NotImplementedError

    def product(self, x: Tensor) -> Tensor:
        """Return y = G · (Out ∘ x), both (N,), on the version's device and of its dtype."""
        raise NotImplementedError


class MessagePassingDGL(Version):
    """Version 0: DGL sends each node's share along its out-edges and sums what arrives."""

    number, title = "0", "DGL, messages"
    devices = ("cpu",)  # PyPI's wheels are built without CUDA

    def prepare(self, graph):
        dgl = import_dgl()
        source, target, weights = self._edges(graph)
        self.graph = dgl.graph((source.int(), target.int()), num_nodes=self.nodes).to(self.device)
        self.weighted = weights is not None
        if self.weighted:
            self.graph.edata["weight"] = weights
        # The library keeps CSR with int32 here: target offsets, sources, gathered values.
        self.bytes_moved = graph.edges * (4 + self.real) + self.nodes * (4 + 4 * self.real)

    def product(self, x):
        from dgl import function as fn

        with self.graph.local_scope():
            self.graph.ndata["share"] = x * self.out
            send = fn.u_mul_e("share", "weight", "m") if self.weighted else fn.copy_u("share", "m")
            self.graph.update_all(send, fn.sum("m", "rank"))
            return self.graph.ndata["rank"]


class MessagePassing(Version):
    """Version 0 without DGL: gather the shares along the edges, scatter-add them at the targets."""

    number, title = "0s", "messages, in plain PyTorch"

    def prepare(self, graph):
        self.source, self.target, self.weights = self._edges(graph)
        # Gather: an index and a value read, a message written. Scatter: an index and a message
        # read, a sum read and written.
        self.bytes_moved = graph.edges * (16 + 5 * self.real) + 3 * self.nodes * self.real

    def product(self, x):
        messages = (x * self.out)[self.source]
        if self.weights is not None:
            messages = messages * self.weights
        return x.new_zeros(self.nodes).index_add_(0, self.target, messages)


class SparseInLoop(Version):
    """Version 1: a sparse COO matrix; Out multiplied in at each iteration."""

    number, title = "1", "sparse COO, Out in the loop"

    def prepare(self, graph):
        source, target, weights = self._edges(graph)
        weights = weights if weights is not None else self.out.new_ones(source.numel())
        self.matrix = torch.sparse_coo_tensor(
            torch.stack([target, source]), weights, (self.nodes, self.nodes), check_invariants=False
        ).coalesce()
        self.bytes_moved = graph.edges * (16 + self.real) + 4 * self.nodes * self.real

    def product(self, x):
        return torch.mv(self.matrix, x * self.out)


class DenseInLoop(Version):
    """Version 2: a dense matrix; Out multiplied in at each iteration."""

    number, title = "2", "dense, Out in the loop"

    def prepare(self, graph):
        self.matrix = self.dense(graph)
        self.bytes_moved = (self.nodes**2 + 4 * self.nodes) * self.real

    def dense(self, graph):
        """G as an (N, N) tensor. Raises ValueError when it would not fit in memory."""
        need = self.nodes**2 * self.real
        on_gpu = self.device.type == "cuda"
        free = torch.cuda.mem_get_info(self.device)[0] if on_gpu else free_memory()
        if need > 0.8 * free:
            raise ValueError(
                f"a dense matrix for {self.nodes} nodes takes {need / 2**30:.1f} GiB; "
                f"{free / 2**30:.1f} GiB are free on {self.device}: use version 4"
            )
        matrix = torch.zeros((self.nodes, self.nodes), dtype=self.dtype, device=self.device)
        source, target, weights = self._edges(graph)
        matrix[target, source] = weights if weights is not None else self.out.new_ones(1)
        return matrix

    def product(self, x):
        return torch.mv(self.matrix, x * self.out)


class DenseFolded(DenseInLoop):
    """Version 3: Out as a diagonal matrix, folded in before the loop by a matrix product.

    The product costs 2N³ operations to do what scaling N columns does with N²: ``fold="scale"``.
    """

    number, title = "3", "dense, diagonal folded in"
    fold = "product"

    def prepare(self, graph):
        matrix = self.dense(graph)
        if self.fold == "product":
            matrix = torch.mm(matrix, torch.diag(self.out))
        else:
            matrix *= self.out
        self.matrix = matrix
        self.bytes_moved = (self.nodes**2 + 2 * self.nodes) * self.real

    def product(self, x):
        return torch.mv(self.matrix, x)


class DenseScaled(DenseFolded):
    """Version 3 done right: the same matrix, its columns scaled in place."""

    number, title = "3s", "dense, columns scaled"
    fold = "scale"


class CSR(Version):
    """Version 4: compressed rows, 32-bit indices, Out folded into the values before the loop."""

    number, title = "4", "CSR, int32, pre-scaled"

    def prepare(self, graph):
        matrix = graph.incoming
        values = matrix.data * graph.inverse_out[matrix.indices]
        parts = [self._tensor(a) for a in (matrix.indptr, matrix.indices, values)]
        with warnings.catch_warnings():  # said once by torch: CSR tensors are "in beta state"
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
            self.matrix = torch.sparse_csr_tensor(
                *parts, (self.nodes, self.nodes), check_invariants=False
            )
        index = matrix.indices.itemsize
        self.bytes_moved = graph.edges * (index + self.real) + self.nodes * (index + 2 * self.real)

    def product(self, x):
        return torch.mv(self.matrix, x)


VERSIONS: dict[str, type[Version]] = {
    "dgl": MessagePassingDGL,
    "scatter": MessagePassing,
    "sparse": SparseInLoop,
    "dense": DenseInLoop,
    "dense_folded": DenseFolded,
    "dense_scaled": DenseScaled,
    "csr": CSR,
}


def rows(device: str = "cpu") -> list[tuple[str, str]]:
    """Return name and dtype of each row of a table of all versions that run on a device.

    Every version comes in single precision, then version 4 in double.
    """
    kind = device.partition(":")[0]
    every = [*((name, "float32") for name in VERSIONS), ("csr", "float64")]
    return [
        (name, dtype)
        for name, dtype in every
        if kind in VERSIONS[name].devices and (name != "dgl" or has_dgl())
    ]


def has_dgl() -> bool:
    """Whether version 0 runs here."""
    try:
        import_dgl()
    except ImportError:
        return False
    return True


def iterate(version: Version, iterations: int = 200, damping: float = 0.85):
    """Run the source's loop: start from 1/N, ``iterations`` times x ← (1−d)/N + d · G(Out ∘ x).

    Parameters
    ----------
    version
        Of a graph in which every node has an out-edge: otherwise rank leaks away (notebook 06 shows
        how much).

    Returns
    -------
    (N,) torch.Tensor
        x, on the version's device.
    """
    n = version.nodes
    x = torch.full((n,), 1.0 / n, dtype=version.dtype, device=version.device)
    for _ in range(iterations):
        x = version.product(x).mul_(damping).add_((1 - damping) / n)
    return x


def import_dgl():
    """Import DGL, or raise ImportError with what to do about it.

    Without ``DGLBACKEND`` it would write to stderr, and a choice into the home.
    """
    os.environ.setdefault("DGLBACKEND", "pytorch")
    try:
        import dgl
    except Exception as error:  # a DGL built for another torch fails with OSError and others
        raise ImportError(
            "version 0 needs DGL, whose last wheel for current PyTorch is 1.1.3, for Python 3.11; "
            f"version 0s computes the same without it ({type(error).__name__}: {error})"
        ) from error
    return dgl
