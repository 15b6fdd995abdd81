"""The trace of a request: each stage has its own time, and the sum is the whole."""

import math

import pytest

from headgate.gateway.request_log import request_line
from headgate.gateway.request_log.request_trace import RequestTrace
from headgate.gateway.request_log.request_waits import RequestWait
from headgate.gateway.request_log.tests.tracing import Tracing, frame


def stages(request: RequestTrace) -> dict[str, float]:
    fields = request_line.fields_of(request, "slow")
    return {stage: fields[f"{stage}_ms"] for stage in request_line.STAGES if fields[f"{stage}_ms"]}


def test_each_stage_has_its_time() -> None:
    tracing = Tracing(one_of="1000")
    trace, client = tracing.trace, tracing.client
    trace.note_progress(tracing.clock.monotonic_ms(), 10, has_requests=False)
    tracing.advance(1)
    trace.starve()
    tracing.after(2, trace.granted)
    tracing.after(4, client.receive)
    tracing.advance(8)
    request = trace.begin(0, 9, frame(1, 1000))
    trace.note_memory_wait(32)
    tracing.advance(16)
    request.parked()
    tracing.advance(32 + 64)
    request.answered(50)
    trace.end_handling(request, [b"reply"])
    tracing.after(128, request.written)
    tracing.after(256, trace.sent)
    assert stages(request) == {
        "receive": 7.0,
        "queue": 8.0,
        "memory": 34.0,
        "handle": 16.0,
        "park": 62.0,
        "write": 128.0,
        "send": 256.0,
    }
    assert request.total_ms == 7 + 8 + 16 + 32 + 64 + 128 + 256


def test_a_request_without_waits_has_none() -> None:
    tracing = Tracing(one_of="1000")
    tracing.client.receive()
    request = tracing.trace.begin(18, 0, frame(1, 20))
    request.handled(10)
    tracing.trace.end_handling(request, [b"reply"])
    tracing.trace.sent()
    assert (stages(request), request.total_ms) == ({}, 0)


def test_pending_requests_have_waited_for_earlier_ones() -> None:
    tracing = Tracing(one_of="1000")
    trace = tracing.trace
    tracing.client.receive()
    first = trace.begin(18, 0, frame(1, 20))
    trace.note_pending(2, tracing.clock.monotonic_ms())
    tracing.advance(10)
    tracing.client.receive()
    first.handled(1)
    trace.end_handling(first, [b"reply"])
    for expected in (10.0, 10.0):
        trace.next_pending()
        pending = trace.begin(18, 0, frame(2, 20))
        pending.handled(1)
        trace.end_handling(pending, [b"reply"])
        assert stages(pending)["queue"] == expected
    trace.sent()


@pytest.mark.parametrize("asked_ms, slow_ms", [(0.0, 700.0), (500.0, 200.0), (math.inf, 0.0)])
def test_a_wait_that_the_client_asks_for_is_not_slow(asked_ms: float, slow_ms: float) -> None:
    tracing = Tracing(one_of="1000")
    tracing.client.receive()
    request = tracing.trace.begin(1, 4, frame(1, 20))
    request.note_request(["t"], RequestWait("records", asked_ms))
    request.parked()
    tracing.advance(700)
    request.answered(1)
    tracing.trace.end_handling(request, [b"reply"])
    tracing.trace.sent()
    assert request.total_ms - request.asked_ms == slow_ms


def test_a_wait_is_described_when_it_is_slow() -> None:
    tracing = Tracing(slow_ms="500")
    missing = ["replicas 1,2 of t-0", "replica 2 of t-0"]
    tracing.client.receive()
    request = tracing.trace.begin(0, 9, frame(1, 20))
    request.note_request(["t"], RequestWait("acks", refresh=missing.pop))
    request.parked()
    tracing.advance(499)
    assert request.wait.text == "acks"
    tracing.advance(1)
    assert request.wait.text == "replica 2 of t-0"
    request.answered(1)
    tracing.trace.end_handling(request, [b"reply"])
    tracing.trace.sent()
    tracing.advance(5_000)
    assert len(missing) == 1, "once"


def test_a_throttled_request_says_for_how_long() -> None:
    tracing = Tracing(one_of="1000")
    tracing.client.receive()
    tracing.trace.throttled(1)  # of no request
    request = tracing.trace.begin(1, 4, frame(1, 20))
    tracing.trace.throttled(40)
    request.handled(1)
    assert request.throttle_ms == 40
    tracing.trace.end_handling(request, [b"reply"])
    tracing.trace.throttled(50)
    assert request.throttle_ms == 50


def test_the_end_of_a_connection_ends_all_its_requests() -> None:
    tracing = Tracing(one_of="1000")
    tracing.client.receive()
    first = tracing.trace.begin(18, 0, frame(1, 20))
    first.handled(1)
    tracing.trace.end_handling(first, [b"reply"])
    second = tracing.trace.begin(1, 4, frame(2, 20))
    tracing.advance(5)
    tracing.trace.close()
    assert [(one.has_disconnected, one.total_ms) for one in (first, second)] == [(True, 5.0), (True, 5.0)]
    assert tracing.trace.current is None
