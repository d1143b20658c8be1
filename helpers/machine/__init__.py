"""What this machine is and has: asked here, once, by everything that needs to know.

``facts``: processor, cores, memory, GPUs, versions (``cgroup``: the limits of a container or a
service). ``compilers``, ``cache``: where the tools are and where what they make is kept. ``mpi``:
ranks of a command under mpiexec, ended with their owner (``guard``). Standard library only: it
works where there is no more than Python.
"""

from helpers.machine.facts import (
    Facts,
    cpu_model,
    free_memory,
    gpus,
    machine,
    memory_bytes,
    usable_cores,
    versions,
)

__all__ = [
    "Facts",
    "cpu_model",
    "free_memory",
    "gpus",
    "machine",
    "memory_bytes",
    "usable_cores",
    "versions",
]
