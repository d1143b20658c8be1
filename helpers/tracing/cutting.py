"""A part of a trace as a trace: what a picture is about, without what came before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from helpers.tracing.trace import Event, Trace

POINT_TO_POINT = ("send", "receive", "exchange", "wait", "probe")


def part(trace: Trace, kept: Callable[[Event], bool]) -> Trace:
    """Return the wanted events, timed from the first of them, and the messages among them."""
    places = [place for place, event in enumerate(trace.events) if kept(event)]
    now = {place: number for number, place in enumerate(places)}
    zero = min((trace.events[place].begin for place in places), default=0.0)
    events = tuple(
        replace(
            event,
            begin=event.begin - zero,
            end=event.end - zero,
            done=None if event.done is None else event.done - zero,
            completes=tuple(now[other] for other in event.completes if other in now),
        )
        for event in (trace.events[place] for place in places)
    )
    messages = tuple(
        replace(
            message,
            send=now[message.send],
            receive=now[message.receive],
            completed_in=now[message.completed_in],
            begin=message.begin - zero,
            end=message.end - zero,
        )
        for message in trace.messages
        if {message.send, message.receive, message.completed_in} <= set(now)
    )
    return replace(
        trace,
        events=events,
        messages=messages,
        unmatched_sends=tuple(now[place] for place in trace.unmatched_sends if place in now),
        unmatched_receives=tuple(now[place] for place in trace.unmatched_receives if place in now),
    )


def point_to_point(trace: Trace) -> Trace:
    """Return a trace without its collectives, timed from the first event that is none."""
    return part(trace, lambda event: event.kind in POINT_TO_POINT)
