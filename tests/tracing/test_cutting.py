from helpers.tracing import Event, Message, Trace
from helpers.tracing.cutting import part, point_to_point


def event(rank, call, kind, begin, end, **more):
    return Event(rank, call, kind, 0, None, None, 8, begin, end, **more)


TRACE = Trace(
    ranks=(0, 1),
    events=(
        event(0, "Bcast", "collective", 0.0, 1.0),
        event(0, "Isend", "send", 2.0, 2.1, done=3.0),
        event(1, "Recv", "receive", 2.0, 2.8),
        event(0, "Wait", "wait", 2.5, 3.0, completes=(1,)),
        event(1, "Send", "send", 4.0, 4.1),
        event(0, "allgather", "collective", 5.0, 6.0),
    ),
    messages=(Message(0, 1, 3, 8, 0, 1, 2, 2, 2.0, 2.8),),
    unmatched_sends=(4,),
)


def test_without_collectives_time_begins_at_the_first_message():
    trace = point_to_point(TRACE)
    assert [e.call for e in trace.events] == ["Isend", "Recv", "Wait", "Send"]
    assert (trace.events[0].begin, trace.events[0].done) == (0.0, 1.0)
    assert trace.events[2].completes == (0,)
    (message,) = trace.messages
    assert (message.send, message.receive, message.begin) == (0, 1, 0.0)
    assert trace.unmatched_sends == (3,)


def test_a_message_goes_with_either_side():
    trace = part(TRACE, lambda e: e.call != "Recv")
    assert trace.messages == ()
    assert len(trace.events) == 5
