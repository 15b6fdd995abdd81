"""The line of a request: bounded, escaped, the same in text and in JSON."""

import json

from headgate.gateway.request_log import request_line
from headgate.gateway.request_log.request_waits import MAX_TOPICS, RequestWait
from headgate.gateway.request_log.tests.tracing import Tracing, frame


def test_a_line_has_all_stages_and_the_client() -> None:
    tracing = Tracing(one_of="1000")
    tracing.client.software_name, tracing.client.software_version = "librdkafka", "2.11.0"
    tracing.client.receive()
    request = tracing.trace.begin(0, 9, frame(17, 1234))
    request.note_request(["orders"], RequestWait("acks of replica 2 of orders-0"))
    request.parked()
    tracing.advance(600)
    request.answered(56)
    tracing.trace.throttled(30)
    tracing.trace.end_handling(request, [b"reply"])
    tracing.advance(0.25)
    tracing.trace.sent()
    fields = request_line.fields_of(request, "slow")
    assert json.loads(json.dumps(fields)) == fields
    assert fields["software"] == "librdkafka-2.11.0"
    assert request_line.text_of(fields) == (
        "Produce 9 took 600.25 ms (slow): receive 0, queue 0, memory 0, handle 0,"
        " park 600 for acks of replica 2 of orders-0, write 0, send 0.25, then throttled for 30 ms;"
        " from 192.0.2.9:50000 client.id='app' User:ann by PLAINTEXT, correlation id 17,"
        " 1234 bytes in, 56 out, topics orders"
    )


def test_texts_of_a_client_cannot_forge_or_flood_a_line() -> None:
    tracing = Tracing(one_of="1000")
    tracing.client.client_id = "a\nERROR b" + "x" * 1_000
    tracing.client.receive()
    request = tracing.trace.begin(3, 1, frame(1, 20))
    request.note_request([f"\x1b[2J{number}" for number in range(MAX_TOPICS + 1)], RequestWait("x\r" * 1_000))
    tracing.advance(1)
    tracing.trace.close()
    fields = request_line.fields_of(request, "slow")
    assert (len(fields["topics"]), fields["has_more_topics"]) == (MAX_TOPICS, True)
    text = request_line.text_of(fields)
    assert text.isprintable()
    assert len(text) < 1_000
    assert "; the client has disconnected; from" in text
    assert text.endswith(" and others")
    assert request_line.shown(None) == ""
