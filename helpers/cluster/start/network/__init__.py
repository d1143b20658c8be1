"""Several hosts in one machine: ranks in networks of their own, on links of a chosen speed.

A host is a set of the kernel's namespaces: a network, shared memory, a name, and a view of the
files in which ``/sys`` shows that network alone. MPI finds what it would find on a cluster: memory
inside a host, TCP between hosts. All namespaces hang on processes and vanish with them.

- ``description`` is what a reader asks for;
- ``keeper`` makes the hosts and keeps them, a forked process of the cluster's, and makes a rank a
  process of its host; ``commands`` is what it has ``ip`` and ``tc`` do, ``namespaces`` the system
  calls.
"""

from helpers.cluster.start.network.description import Network

__all__ = ["Network"]
