"""Delegation tokens in ZooKeeper: the bytes are those of DelegationTokenManagerZk of Kafka 3.9.1."""

from __future__ import annotations

import pytest

from headgate.gateway.security.tokens.delegation_token import DelegationToken
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.tokens import (
    change_path,
    decode_change,
    decode_token,
    encode_token,
    token_id_of,
    token_path,
)

PATH = "/delegation_token/tokens/3LmQ1KAKR_a-Tg8p7-nfxg"
TOKEN = DelegationToken(
    "3LmQ1KAKR_a-Tg8p7-nfxg", "User:alice", "User:alice", ("User:CN=a b,O=é:c/%", "User:"), 1, 1796195875927, 3
)
OF_KAFKA = (
    b'{"issueTimestamp":1,"renewers":["User%3ACN%3Da%20b%2CO%3D%C3%A9%3Ac%2F%25","User%3A"],'
    b'"tokenRequester":"User%3Aalice","tokenId":"3LmQ1KAKR_a-Tg8p7-nfxg","owner":"User%3Aalice",'
    b'"expiryTimestamp":3,"maxTimestamp":1796195875927,"version":3}'
)


def test_a_node_has_the_bytes_of_kafka() -> None:
    assert token_path(TOKEN.token_id) == PATH
    assert encode_token(TOKEN) == OF_KAFKA
    assert decode_token(PATH, OF_KAFKA) == TOKEN


def test_a_node_of_an_old_kafka_has_no_requester() -> None:
    old = OF_KAFKA.replace(b'"tokenRequester":"User%3Aalice",', b"").replace(b'"version":3', b'"version":1')
    assert decode_token(PATH, old) == TOKEN


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"{}",
        OF_KAFKA.replace(b'"version":3', b'"version":4'),
        OF_KAFKA.replace(b'"tokenId":"3', b'"tokenId":"4'),
        OF_KAFKA.replace(b"User%3Aalice", b"%ff"),
        OF_KAFKA.replace(b'"maxTimestamp":1796195875927', b'"maxTimestamp":-1'),
    ],
)
def test_other_nodes_are_refused_with_their_path(data: bytes | None) -> None:
    with pytest.raises(InvalidNode, match=PATH):
        decode_token(PATH, data)


def test_a_token_that_zookeeper_cannot_have_is_refused() -> None:
    with pytest.raises(InvalidNode):
        token_path("a/b")
    with pytest.raises(InvalidNode, match="half a character"):
        encode_token(TOKEN._replace(owner="User:\ud800"))


def test_only_a_node_of_a_token_has_an_id() -> None:
    assert token_id_of(PATH) == TOKEN.token_id
    assert [token_id_of(path) for path in ("/delegation_token/tokens", f"{PATH}/below", "/kafka-acl/Topic/t")] == [
        None
    ] * 3


def test_notifications_are_those_of_kafka() -> None:
    assert change_path() == "/delegation_token/token_changes/token_change_"
    path = f"{change_path()}0000000001"
    assert decode_change(path, b"id") == "id"
    for data in (None, b"", b"a/b", b"\xff"):
        with pytest.raises(InvalidNode, match=path):
            decode_change(path, data)
