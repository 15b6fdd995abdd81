"""Delegation tokens in ZooKeeper: written as Kafka's brokers write them, and followed when others write them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.gateway.metadata.store import Change
from headgate.gateway.security.tokens.delegation_token import DelegationToken, record_of
from headgate.gateway.zookeeper.layout.tokens import (
    TOKEN_CHANGES_PATH,
    TOKENS_PATH,
    change_path,
    encode_token,
    token_path,
)
from headgate.gateway.zookeeper.session import Create, Delete
from headgate.gateway.zookeeper.tests.store_world import StoreWorld
from headgate.protocol.internal.metadata import RemoveDelegationTokenRecord

SETTINGS = "delegation.token.secret.key=k"
TOKEN = DelegationToken("id", "User:a", "User:b", ("User:c",), 1, 1 << 50, 1 << 49)
NOTE = "token_change_0000000000"


@pytest.fixture
def world() -> Iterator[StoreWorld]:
    made = StoreWorld(settings=SETTINGS)
    made.settle()
    yield made
    made.check()


def put(world: StoreWorld, token: DelegationToken) -> Change:
    return world.change(lambda: world.metadata.submit([record_of(token)]))


def by_another(world: StoreWorld, token: DelegationToken | None, token_id: str = "id", *, notify: bool = True) -> None:
    """Another broker writes a token, or deletes one."""
    if token is None:
        world.tool.do(Delete(token_path(token_id)))
    else:
        world.tool.put(token_path(token_id), encode_token(token))
    if notify:
        world.tool.do(Create(change_path(), token_id.encode(), is_sequential=True))


def test_the_directories_are_those_of_kafka(world: StoreWorld) -> None:
    assert {TOKENS_PATH, TOKEN_CHANGES_PATH} <= world.nodes_there.keys()


def test_a_broker_without_a_key_leaves_tokens_alone() -> None:
    world = StoreWorld()
    world.settle()
    assert TOKENS_PATH not in world.nodes_there
    world.check()


def test_a_token_is_a_node_with_a_notification(world: StoreWorld) -> None:
    put(world, TOKEN)
    assert world.nodes_there[token_path("id")].data == encode_token(TOKEN)
    assert world.nodes_there[f"{TOKEN_CHANGES_PATH}/{NOTE}"].data == b"id"
    put(world, TOKEN._replace(expiry_ms=5))
    assert world.nodes_there[token_path("id")].version == 1
    world.change(lambda: world.metadata.submit([RemoveDelegationTokenRecord(token_id="id")]))
    assert token_path("id") not in world.nodes_there
    assert world.image.tokens == {}


def test_tokens_of_another_broker_are_followed(world: StoreWorld) -> None:
    for token in (TOKEN, TOKEN._replace(expiry_ms=7)):
        by_another(world, token)
        world.settle()
        assert world.image.tokens == {"id": token}
    by_another(world, None)
    world.settle()
    assert world.image.tokens == {}


def test_a_write_upon_an_older_version_is_made_upon_the_newer(world: StoreWorld) -> None:
    put(world, TOKEN)
    by_another(world, TOKEN._replace(expiry_ms=7), notify=False)
    renewed = TOKEN._replace(expiry_ms=8)
    assert put(world, renewed).error is None
    assert world.image.tokens == {"id": renewed}
    by_another(world, None, notify=False)
    change = world.change(lambda: world.metadata.submit([RemoveDelegationTokenRecord(token_id="id")]))
    assert change.error is None
    assert world.image.tokens == {}


def test_an_unreadable_token_keeps_the_known_one(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    put(world, TOKEN)
    world.tool.put(token_path("id"), b"{")
    world.tool.do(Create(change_path(), b"id", is_sequential=True))
    world.settle()
    assert world.image.tokens == {"id": TOKEN}
    assert token_path("id") in caplog.text
    by_another(world, TOKEN)
    world.settle()
