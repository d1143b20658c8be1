"""A guard that is asked to end takes what it guards with it, whenever that comes."""

import fcntl
import signal
import subprocess
import sys
import textwrap

import pytest

EARLY = """
    import os, signal, subprocess, sys
    from helpers.machine import guard

    class Asked(subprocess.Popen):
        def __init__(self, *arguments):
            {before}
            super().__init__(*arguments)
            print(self.pid, flush=True)
            {after}

    subprocess.Popen = Asked
    sys.exit(guard.main(*sys.argv[1:]))
"""
ASK = "os.kill(os.getpid(), signal.SIGTERM)"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_guard_that_is_asked_while_it_starts_its_command_leaves_no_process(tmp_path, moment):
    """On a busy machine a start that fails at once asks so early; the controller stayed."""
    source = EARLY.format(**({"before": "", "after": ""} | {moment: ASK}))
    # who reads the sleeper's output sees its end when the last process that has it is gone
    command = [sys.executable, "-c", textwrap.dedent(source)]
    with open(tmp_path / "lock", "w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)  # its owner lives
        done = subprocess.run(
            [*command, lock.name, str(tmp_path), "sleep", "30"],
            stdout=subprocess.PIPE,
            timeout=20,
        )
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stdout.strip().isdigit()
