"""One warm process beside the kernel, which forks the ranks of this machine and stands by them.

It has imported what ranks need, so a rank is a fork, ready in hundredths of a second. It serves the
ranks' first requests (who am I, how many are we, are all here?), by the protocol PMI-1, as mpiexec
would; it sees which one ended first, and how; it kills and reaps them; and it ends with the kernel,
however that ends.

- ``handle`` is the kernel's side: start it, ask it, hear from it, share it;
- ``server`` is its loop, without a thread, since only the thread that forks lives on in the child;
- ``family`` is a set of processes forked together, and ``pmi`` what they ask;
- ``birth`` is the first thing that happens in a child, and ``programs`` what it then runs;
- ``preload`` imports modules, and refuses those that cannot be shared by a fork; ``warm`` is what
  every rank needs.
"""
