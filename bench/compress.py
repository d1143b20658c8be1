"""Compression: packing against memory, bytes and seconds of an exchange on each link.

    python -m bench compress

An exchange is all between the backward pass and the optimizer's step: coding, messages, decoding.
Its peer on a link is what coding (measured in memory, on ranks that take turns on the cores) and
the bytes that a rank sends at the link's rate take together. PyTorch's hooks (half precision;
PowerSGD; 8 bits for each value, by an allgather) run on our backend, and their seconds contain a
backward pass of one sample.
"""

from __future__ import annotations

import numpy as np

from helpers.cluster import Cluster, Network
from helpers.data_parallel import link_runs
from helpers.records import Row
from helpers.timing import measure

SUITE = "compress"
RANKS = 4
LINKS = {"10 Mbit/s": 10e6, "100 Mbit/s": 100e6, "1 Gbit/s": 1e9}
HOOKS = {"float16, adding ring": "torch, fp16", "PowerSGD, r = 2": "torch, PowerSGD",
         "QSGD, s = 15": "torch, quantisation"}  # fmt: skip
ROWS = 1024  # of 256 parameters: 1 MB of gradients


def rows() -> list[Row]:
    """Pack, then exchange."""
    return [*_packing(), *_exchanges()]


def _packing() -> list[Row]:
    """Bytes moved in a second by packing and unpacking, beside NumPy's copy."""
    from helpers.data_parallel.compression import packing

    v = np.random.default_rng(0).standard_normal(1 << 23).astype(np.float32)
    y, state, found = np.empty_like(v), packing.generator(0), []
    for levels in packing.BITS:
        code = packing.pack(v, levels, state)
        moved = v.nbytes + code.nbytes
        calls = {
            "packing": (moved, lambda s=levels, c=code: packing.pack(v, s, state, c)),
            "unpacking": (moved + v.nbytes, lambda s=levels, c=code: packing.add(c, s, y)),
        }
        for name, (nbytes, call) in calls.items():
            copy = 2 * v.nbytes / min(_seconds(lambda: np.copyto(y, v)) for _ in range(2))
            found.append(Row(name, nbytes / _seconds(call) / 1e9, "GB/s", "NumPy's copy",
                             copy / 1e9, {"s": levels, "values": len(v)}))  # fmt: skip
    return found


def _seconds(call) -> float:
    return min(measure(call, repeats=5).samples)


def _exchanges() -> list[Row]:
    found, coding = [], {}
    for link, rate in {"memory": None, **LINKS}.items():
        with Cluster(RANKS, network=rate and Network(RANKS, rate=rate)) as cluster:
            for name in link_runs.NAMES:
                if name in ("sign", "top 0.01"):
                    continue
                seconds = cluster.run(link_runs.exchange, name, ROWS, timeout=120)[0]
                coding.setdefault(name, seconds)
                sent = cluster.run(link_runs.sent, name, [(ROWS, 256)], timeout=60)[0]
                parameters = {"scheme": name, "link": link, "rate": rate, "bytes": sent,
                              "parameters": 256 * ROWS, "ranks": RANKS}  # fmt: skip
                peer = {}
                if rate:
                    wire = Network(RANKS, rate=rate).payload
                    peer = {
                        "peer": "coding + bytes ÷ rate",
                        "peer_value": coding[name] + sent / wire,
                    }
                found.append(Row("exchange", seconds, "s", parameters=parameters, **peer))
            for ours, theirs in HOOKS.items():
                pair = [cluster.run(link_runs.exchange, name, ROWS, timeout=120)[0]
                        for name in (ours, theirs)]  # fmt: skip
                parameters = {"scheme": ours, "link": link, "rate": rate, "parameters": 256 * ROWS,
                              "ranks": RANKS}  # fmt: skip
                found.append(Row("exchange, and by torch's hook", pair[0], "s", theirs, pair[1],
                                 parameters))  # fmt: skip
    return found
