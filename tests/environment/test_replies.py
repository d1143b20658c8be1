"""A reply that comes while nbclient sends a widget's state is seen, and not at the time limit."""

import asyncio
import contextlib
import sys
import time
from queue import Empty

import pytest
import zmq.asyncio
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.session import Session
from traitlets.config import Config

from helpers.paths import ROOT
from tools import course, replies, run


@contextlib.contextmanager
def connected():
    """Yield nbclient's end of a shell channel, its session, and the kernel's end."""
    context = zmq.asyncio.Context()
    session = Session(key=b"key")
    with (
        zmq.Context.shadow(context.underlying).socket(zmq.ROUTER) as kernel,
        context.socket(zmq.DEALER) as socket,
    ):
        socket.connect(f"tcp://127.0.0.1:{kernel.bind_to_random_port('tcp://127.0.0.1')}")
        yield AsyncZMQSocketChannel(socket, session), session, kernel
    context.term()


async def replied(timeout):
    """Reply, and send a widget's state before anybody has looked; return what was received."""
    with connected() as (channel, session, kernel):
        channel.send(session.msg("execute_request"))
        ident, _ = session.feed_identities(kernel.recv_multipart())
        waiting = asyncio.create_task(channel.get_msg(timeout=timeout))
        await asyncio.sleep(0.05)
        session.send(kernel, "execute_reply", ident=ident)
        time.sleep(0.05)  # not asyncio's: the reply has come, and nobody has looked
        channel.send(session.msg("comm_msg"))
        return await asyncio.wait_for(waiting, 20)


@pytest.mark.parametrize("timeout", [60, None])
def test_a_reply_is_seen_though_a_state_was_sent_at_that_moment(timeout):
    replies.install()
    assert asyncio.run(replied(timeout))["msg_type"] == "execute_reply"


@pytest.mark.parametrize("timeout", [0, 0.05, replies.INTERVAL + 0.2])
def test_where_no_reply_comes_the_limit_holds(timeout):
    async def nothing():
        with connected() as (channel, _session, _kernel):
            await channel.get_msg(timeout=timeout)

    start = time.monotonic()
    with pytest.raises(Empty):
        asyncio.run(nothing())
    assert timeout * 0.99 <= time.monotonic() - start


def test_whoever_executes_a_notebook_here_has_it(tmp_path, monkeypatch):
    installed = []
    monkeypatch.setattr(replies, "install", lambda: installed.append(1))
    with pytest.raises(FileNotFoundError):
        run.execute(tmp_path / "none.ipynb", "reader")
    assert installed == [1]


def test_a_course_of_nbgrader_has_it(monkeypatch):
    pytest.importorskip("nbgrader")
    installed, made = [], Config()
    monkeypatch.setattr(replies, "install", lambda: installed.append(1))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    exec(course.CONFIG.format(root=str(ROOT), name="parallel"), {"get_config": lambda: made})
    assert installed == [1]
    assert made.Execute.timeout == 600
