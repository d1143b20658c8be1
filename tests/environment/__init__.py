"""Commands that tests of the set-up run."""

import subprocess


def run(*command, **options):
    """Run a command for two minutes at most; return what it said and its exit status."""
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
