"""Running CUDA C on this machine's processor: compiler, worker process, and its runtime in C++."""
