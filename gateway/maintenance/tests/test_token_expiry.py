"""Expired tokens are deleted by the check, many in pieces, and only by the controller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.maintenance.token_expiry import MAX_DELETED, PAUSE_MS, TokenExpiry
from headgate.gateway.security.tokens.delegation_token import DelegationToken, record_of
from headgate.gateway.tests.builders import NOW_MS, HandlerBroker
from headgate.protocol.errors import ErrorCode, KafkaError

EVERY_MS = 60_000
LATE = DelegationToken("late", "User:a", "User:a", (), NOW_MS, NOW_MS + 10 * EVERY_MS, NOW_MS + 10 * EVERY_MS)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[HandlerBroker]:
    made = HandlerBroker(tmp_path, delegation_token_expiry_check_interval_ms=str(EVERY_MS))
    TokenExpiry(made.services.metadata, made.config, made.time.clock, made.services.scheduler).start()
    yield made
    made.close()


def put(node: HandlerBroker, *tokens: DelegationToken) -> None:
    node.services.metadata.submit([*map(record_of, tokens)])


def test_only_expired_tokens_are_deleted(node: HandlerBroker) -> None:
    put(node, LATE, LATE._replace(token_id="early", expiry_ms=NOW_MS + 1))
    node.time.advance(EVERY_MS - 1)
    assert node.services.metadata.image.tokens.keys() == {"early", "late"}
    node.time.advance(1)
    assert node.services.metadata.image.tokens.keys() == {"late"}
    node.time.advance(10 * EVERY_MS)
    assert node.services.metadata.image.tokens == {}


def test_many_tokens_are_deleted_in_pieces(node: HandlerBroker) -> None:
    put(node, *(LATE._replace(token_id=str(number), expiry_ms=0) for number in range(MAX_DELETED + 1)))
    node.time.advance(EVERY_MS)
    assert len(node.services.metadata.image.tokens) == 1
    node.time.advance(PAUSE_MS)
    assert node.services.metadata.image.tokens == {}


def test_a_broker_that_is_not_the_controller_deletes_none(node: HandlerBroker) -> None:
    put(node, LATE._replace(expiry_ms=0))
    metadata = node.services.metadata
    metadata.image = metadata.image._replace(controller_id=7)
    node.time.advance(EVERY_MS)
    assert metadata.image.tokens.keys() == {"late"}


def test_a_refused_deletion_is_tried_again(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    put(node, LATE._replace(expiry_ms=0))

    def refuse(_records: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    with monkeypatch.context() as patch:
        patch.setattr(node.services.metadata, "submit", refuse)
        node.time.advance(EVERY_MS)
    assert node.services.metadata.image.tokens.keys() == {"late"}
    node.time.advance(EVERY_MS)
    assert node.services.metadata.image.tokens == {}
