"""Plans of delegation tokens in ZooKeeper: one conditional write for each token, then its notification."""

from __future__ import annotations

from headgate.gateway.metadata.image import Image
from headgate.gateway.security.tokens.delegation_token import DelegationToken
from headgate.gateway.zookeeper.layout.tokens import change_path, encode_token, token_path
from headgate.gateway.zookeeper.layout.tree import ClusterTree, ZNode, read_cluster
from headgate.gateway.zookeeper.metadata.token_plans import change_tokens
from headgate.gateway.zookeeper.session import Create, Delete, Operation, SetData

A, B = (DelegationToken(name, "User:a", "User:a", (), 1, 9, 5) for name in ("a", "b"))


def cluster(*tokens: DelegationToken) -> ClusterTree:
    return read_cluster({token_path(token.token_id): ZNode(encode_token(token), 7) for token in tokens}, bytes)


def planned(before: ClusterTree, *tokens: DelegationToken) -> list[Operation]:
    return [*change_tokens(before, Image.empty()._replace(tokens={token.token_id: token for token in tokens}))]


def notified(token: DelegationToken) -> Operation:
    return Create(change_path(), token.token_id.encode(), is_sequential=True)


def test_a_new_token_is_created() -> None:
    assert planned(cluster(A), A, B) == [Create(token_path("b"), encode_token(B)), notified(B)]


def test_a_renewed_token_is_written_on_condition_of_its_version() -> None:
    renewed = A._replace(expiry_ms=8)
    assert planned(cluster(A, B), renewed, B) == [SetData(token_path("a"), encode_token(renewed), 7), notified(A)]


def test_a_token_that_is_gone_is_deleted() -> None:
    assert planned(cluster(A, B), A) == [Delete(token_path("b"), 7), notified(B)]
    assert planned(cluster(A)._replace(token_versions={})) == [], "the node is gone already"


def test_what_is_there_is_not_written() -> None:
    assert planned(cluster(A), A) == []
