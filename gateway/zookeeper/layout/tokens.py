"""`/delegation_token`: delegation tokens, and the notifications of their changes.

    /delegation_token/tokens/<token id>                         JSON; principals are encoded as in URLs
    /delegation_token/token_changes/token_change_<number>       the id of a token that was written or deleted

No node has a secret. Source: `DelegationTokenManagerZk`, `ZkData.scala` of Apache Kafka 3.9.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from headgate.gateway.security.tokens.delegation_token import DelegationToken
from headgate.gateway.zookeeper.layout.node import (
    MAX_INT64,
    InvalidNode,
    NodeFields,
    child_path,
    decode_fields,
    decode_text,
    encode_object,
    shown,
)

TOKENS_PATH: Final = "/delegation_token/tokens"
TOKEN_CHANGES_PATH: Final = "/delegation_token/token_changes"  # noqa: S105  no secret
_VERSION: Final = 3
"""The version since KIP-373; 1 and 2 have no requester."""


def token_path(token_id: str) -> str:
    """The path of a token's node. Raises InvalidNode for an id that ZooKeeper cannot have."""
    return child_path(TOKENS_PATH, token_id)


def token_id_of(path: str) -> str | None:
    """The id in the path of a token's node; None for a path of anything else."""
    token_id = path.removeprefix(f"{TOKENS_PATH}/")
    return token_id if token_id != path and token_id and "/" not in token_id else None


def encode_token(token: DelegationToken) -> bytes:
    """The data of a token's node, in the order in which Kafka's hash map has the names."""
    return encode_object(
        {
            "issueTimestamp": token.issue_ms,
            "renewers": [*map(_encode_principal, token.renewers)],
            "tokenRequester": _encode_principal(token.requester),
            "tokenId": token.token_id,
            "owner": _encode_principal(token.owner),
            "expiryTimestamp": token.expiry_ms,
            "maxTimestamp": token.max_ms,
            "version": _VERSION,
        }
    )


def decode_token(path: str, data: bytes | None) -> DelegationToken:
    """The token of a node. Raises InvalidNode, also if the node has the id of another token."""
    fields = decode_fields(path, data)
    fields.integer("version", low=1, high=_VERSION)
    token_id = fields.text("tokenId")
    if token_id != token_id_of(path):
        fields.fail(f"`tokenId` is {shown(token_id)}, which is not the name of the node")
    owner = _principal(fields, fields.text("owner"))
    return DelegationToken(
        token_id,
        owner,
        _principal(fields, fields.text("tokenRequester", "")) or owner,
        tuple(_principal(fields, renewer) for renewer in fields.texts("renewers")),
        fields.integer("issueTimestamp", low=0, high=MAX_INT64),
        fields.integer("maxTimestamp", low=0, high=MAX_INT64),
        fields.integer("expiryTimestamp", low=-MAX_INT64 - 1, high=MAX_INT64),
    )


def _encode_principal(principal: str) -> str:
    try:
        # As Java's URLEncoder, whose blanks and asterisks Kafka encodes too
        return quote(principal, safe="").replace("~", "%7E")
    except UnicodeEncodeError:
        raise InvalidNode(TOKENS_PATH, f"{shown(principal)} has half a character") from None


def _principal(fields: NodeFields, text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        fields.fail(f"the principal {shown(text)} is not UTF-8")


def change_path() -> str:
    """The path of a notification; ZooKeeper appends the number."""
    return f"{TOKEN_CHANGES_PATH}/token_change_"


def decode_change(path: str, data: bytes | None) -> str:
    """The id of the changed token. Raises InvalidNode."""
    token_id = decode_text(path, data)
    try:
        token_path(token_id)
    except InvalidNode:
        raise InvalidNode(path, f"{shown(token_id)} is no id of a token") from None
    return token_id
