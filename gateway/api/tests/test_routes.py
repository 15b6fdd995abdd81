"""Replies: in one piece, in several, and with the bytes of others."""

from __future__ import annotations

import struct

import pytest

from headgate.gateway.api.handler_registration import load
from headgate.gateway.api.routes import HEAD, LARGE_BYTES, PIECE_BYTES, Reply, Route, body_of, with_body
from headgate.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.steps import finish, lazy_map


def route() -> Route:
    return Route(load()[MetadataRequest.api_key], 9)


def response(count: int) -> MetadataResponse:
    return MetadataResponse(
        topics=lazy_map(range(count), lambda number: MetadataResponseTopic(name=f"topic-{number}" * 20))
    )


def encoded(route: Route, count: int, correlation_id: int) -> Reply:
    reply = route.encode_in_steps(response(count), correlation_id)
    return reply if isinstance(reply, list) else finish(reply)


def joined(reply: Reply) -> bytes:
    return b"".join(piece for piece in reply if isinstance(piece, bytes | bytearray | memoryview))


@pytest.mark.parametrize("count, pieces", [(0, 1), (10, 1), (5_000, 4)])
def test_a_large_reply_goes_out_in_pieces(count: int, pieces: int) -> None:
    whole = route().encode(response(count), 7)
    reply = encoded(route(), count, 7)
    assert joined(reply) == joined(whole)
    assert len(reply) == pieces
    assert all(len(piece) < 2 * PIECE_BYTES for piece in reply)
    size, correlation_id = struct.unpack_from(">ii", joined(reply))
    assert (size, correlation_id) == (len(joined(reply)) - 4, 7)


@pytest.mark.parametrize("count", [10, 5_000])
def test_a_reply_is_given_to_somebody_else(count: int) -> None:
    reply = encoded(route(), count, 7)
    body = body_of(reply)
    assert body == joined(reply)[HEAD.size :]
    again = with_body(body, 8)
    assert joined(again) == joined(encoded(route(), count, 8))
    assert len(again) == (1 if len(body) <= LARGE_BYTES else 2)
    assert body_of(again) == body


def test_a_view_is_no_reply_to_be_given_away() -> None:
    assert body_of([memoryview(b"12345678"), memoryview(b"")]) is None


def test_a_produce_is_never_large() -> None:
    assert Route(load()[ProduceRequest.api_key], 7).large_bytes > 1 << 30
    assert route().large_bytes == LARGE_BYTES
