"""Notifications of changes: each is read once, and every broker deletes old ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.gateway.security.tokens.delegation_token import DelegationToken
from headgate.gateway.zookeeper.layout.tokens import TOKEN_CHANGES_PATH, change_path, encode_token, token_path
from headgate.gateway.zookeeper.metadata.notifications import NOTIFICATION_MS
from headgate.gateway.zookeeper.session import Create
from headgate.gateway.zookeeper.tests.store_world import StoreWorld

TOKEN = DelegationToken("id", "User:a", "User:a", (), 1, 1 << 50, 1 << 49)


@pytest.fixture
def world() -> Iterator[StoreWorld]:
    made = StoreWorld(settings="delegation.token.secret.key=k")
    made.settle()
    yield made
    made.check()


def notify(world: StoreWorld, data: bytes = b"id") -> None:
    world.tool.do(Create(change_path(), data, is_sequential=True))


def left(world: StoreWorld) -> list[str]:
    return sorted(path for path in world.nodes_there if path.startswith(f"{TOKEN_CHANGES_PATH}/"))


def test_a_change_without_a_notification_is_not_seen(world: StoreWorld) -> None:
    world.tool.put(token_path("id"), encode_token(TOKEN))
    world.settle()
    assert world.image.tokens == {}
    notify(world)
    world.settle()
    assert world.image.tokens == {"id": TOKEN}


def test_an_unreadable_notification_is_skipped(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    notify(world, b"\xff")
    world.tool.put(token_path("id"), encode_token(TOKEN))
    notify(world)
    world.settle()
    assert world.image.tokens == {"id": TOKEN}
    assert f"{change_path()}0000000000" in caplog.text


def test_old_notifications_are_deleted(world: StoreWorld) -> None:
    notify(world)
    world.settle()
    assert len(left(world)) == 1
    world.settle(NOTIFICATION_MS + 1)
    notify(world)
    world.settle()
    assert left(world) == [f"{change_path()}0000000001"]
