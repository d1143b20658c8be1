"""What a rank loads in its first moments: imported once, by the process that forks ranks."""

from __future__ import annotations

import importlib
import sys

import cloudpickle  # noqa: F401
import ipykernel.ipkernel
import numpy.random  # noqa: F401
from mpi4py import MPI  # noqa: F401

import helpers.cluster.rank.rankside
import helpers.cluster.rank.remote
import helpers.tracing.clock  # noqa: F401
from helpers.cluster.rank.engine import RankEngine  # noqa: F401

for name in (
    "encodings.idna",
    "IPython.core.completerlib",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "tornado.gen",
    "tornado.locks",
    "tornado.platform.asyncio",
):
    importlib.import_module(name)

# A rank has no debugger, whose half a second of imports ipykernel would do without.
debugpy = sys.modules.get("debugpy")
sys.modules["debugpy"] = None  # type: ignore[assignment]
import ipykernel.debugger  # noqa: E402, F401

del sys.modules["debugpy"]
if debugpy is not None:
    sys.modules["debugpy"] = debugpy
