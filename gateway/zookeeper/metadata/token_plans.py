"""Plans that write delegation tokens: from the known nodes and the wanted image to operations. Pure.

Any broker may write tokens. Kafka 3.9 writes them without a condition; here each write is conditional on the version
that the plan has read, so that a renewal does not undo an expiry.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.gateway.metadata.image import Image
from headgate.gateway.zookeeper.layout.tokens import change_path, encode_token, token_path
from headgate.gateway.zookeeper.layout.tree import ABSENT, ClusterTree
from headgate.gateway.zookeeper.session import Create, Delete, Operation, SetData


def change_tokens(cluster: ClusterTree, new: Image) -> Iterator[Operation]:
    """The writes of the tokens that differ, each with its notification. Raises InvalidNode."""
    old = cluster.image.tokens
    if new.tokens is old:
        return
    for token_id in [*(each for each in old if each not in new.tokens), *new.tokens]:
        token, version = new.tokens.get(token_id), cluster.token_versions.get(token_id, ABSENT)
        if token == old.get(token_id) or (token is None and version == ABSENT):
            continue
        if token is None:
            yield Delete(token_path(token_id), version)
        elif version == ABSENT:
            yield Create(token_path(token_id), encode_token(token))
        else:
            yield SetData(token_path(token_id), encode_token(token), version)
        yield Create(change_path(), token_id.encode(), is_sequential=True)
