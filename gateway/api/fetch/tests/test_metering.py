"""Fetches of clients with a quota of bytes or of time: what is withheld, and what counts."""

from __future__ import annotations

import pytest

from headgate.gateway.api.tests.throttled_client import (
    CONSUMER,
    ThrottledClient,
    fetch_now,
    fetched,
    limit,
    produced,
    rows_of,
    use_up,
    with_records,
)
from headgate.gateway.security.quotas.quota_manager import QuotaManager
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.messages.fetch import FetchRequest
from headgate.protocol.messages.metadata import MetadataRequest


@pytest.fixture
def quotas() -> QuotaManager:
    return QuotaManager()


@pytest.fixture
def wire(node: HandlerBroker, quotas: QuotaManager) -> ThrottledClient:
    return ThrottledClient(node, quotas)


def test_a_throttled_fetch_is_empty_and_does_not_count(wire: ThrottledClient) -> None:
    with_records(wire)
    limit(wire, CONSUMER, 100.0)
    first = fetch_now(wire, fetched(0, -1))
    assert (first.throttle_time_ms, len(rows_of(first))) == (0, 1)
    assert 0 < len(rows_of(first)[0].records or b"") <= 1_000
    second = fetch_now(wire, fetched(0, -1))
    assert second.throttle_time_ms > 0
    assert not second.responses
    other = ThrottledClient(wire.node, wire.dispatcher.quotas)
    assert fetch_now(other, fetched(0, -1)).throttle_time_ms == second.throttle_time_ms
    wire.node.time.advance(11_000)
    wire.connection.proceed()
    third = fetch_now(wire, fetched(0, -1))
    assert (third.throttle_time_ms, len(rows_of(third))) == (0, 1)


def test_a_throttled_session_sends_its_rows_later(wire: ThrottledClient) -> None:
    with_records(wire)
    opened = fetch_now(wire, fetched(0, 0, offset=12))
    assert opened.session_id
    wire.node.ask(produced(3, 1), 9)
    use_up(wire, 200)
    withheld = fetch_now(wire, fetched(opened.session_id, 1))
    assert (withheld.throttle_time_ms, withheld.session_id, withheld.responses) == (200, opened.session_id, [])
    wire.node.time.advance(11_000)
    wire.connection.proceed()
    (row,) = rows_of(fetch_now(wire, fetched(opened.session_id, 2)))
    assert row.high_watermark == 15
    assert row.records


def test_a_throttled_full_fetch_opens_no_session(wire: ThrottledClient) -> None:
    with_records(wire)
    use_up(wire, 200)
    withheld = fetch_now(wire, fetched(0, 0))
    assert (withheld.throttle_time_ms, withheld.session_id) == (200, 0)
    assert len(wire.node.services.fetch_sessions) == 0


def test_a_parked_fetch_counts_when_it_is_answered(wire: ThrottledClient) -> None:
    with_records(wire)
    limit(wire, CONSUMER, 20.0)
    wire.send((fetched(0, -1, offset=12, max_wait_ms=60_000), 11), (MetadataRequest(None), 9))
    assert wire.connection.parked
    wire.node.ask(produced(3, 1), 9)
    wire.node.time.advance(1)
    (response,) = wire.answers((FetchRequest, 11))
    assert response.throttle_time_ms > 0
    assert not response.responses
    assert not wire.connection.has_more


def test_a_follower_is_exempt(wire: ThrottledClient) -> None:
    with_records(wire)
    limit(wire, CONSUMER, 1.0)
    request = fetched(0, -1)
    request.replica_id = 5
    assert fetch_now(wire, request).throttle_time_ms == 0
    wire.client.note_broker()
    assert fetch_now(wire, fetched(0, -1)).throttle_time_ms == 0
