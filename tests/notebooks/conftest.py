"""Executed notebooks, each once for all tests, and their times at the end of the run."""

import pytest

from tools import run


@pytest.fixture(scope="session")
def executed(request):
    """``executed(name, kind)``: the notebook of a set, executed once for the whole run."""
    done = {}
    request.config.executions = done

    def get(name: str, kind: str) -> run.Execution:
        if (name, kind) not in done:
            done[name, kind] = run.execute(run.location(name, kind), kind)
        return done[name, kind]

    return get


def pytest_terminal_summary(terminalreporter, config):
    done = getattr(config, "executions", {})
    if done:
        terminalreporter.section("time per notebook")
        terminalreporter.write_line(run.table(list(done.values())))
