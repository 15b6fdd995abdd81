"""The errors of rows: the code and message for the client, the reason for the log, and the count of each error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from headgate.gateway.api.context import CloseConnection, HandlerContext, Services
from headgate.protocol.acls import ANONYMOUS
from headgate.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from headgate.gateway.security.tokens.delegation_token import DelegationToken
    from headgate.gateway.security.tokens.token_secrets import TokenSecrets
    from headgate.protocol.steps import Steps

PLAINTEXT, SSL = "PLAINTEXT", "SSL"
T = TypeVar("T")
R = TypeVar("R")

logger = logging.getLogger("headgate.handlers")


def refusal(broker: Services, error: KafkaError | OSError, topic: str = "", index: int = -1) -> tuple[ErrorCode, str]:
    """The code and message for a client. An OSError is a disk's: the client gets KAFKA_STORAGE_ERROR, the log the rest.

    Clients show the code alone, and many retry silently: the broker's log must have the reason for a storage error.
    `topic` and `index`: the partition, for errors that do not name it.
    """
    if isinstance(error, KafkaError):
        broker.refusals[error.code] += 1
        if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
            logger.error("storage error for a client%s: %s", _of(topic, index), error.message)
        return error.code, error.message
    broker.refusals[ErrorCode.KAFKA_STORAGE_ERROR] += 1
    logger.error("the store failed%s", _of(topic, index), exc_info=error)
    return ErrorCode.KAFKA_STORAGE_ERROR, f"the store failed: {error.strerror}"


def require_acls(context: HandlerContext, sentence: str) -> None:
    """Raises KafkaError(SECURITY_DISABLED) with Kafka's sentence unless requests are decided by stored ACLs."""
    authorizer = context.broker.authorizer
    if authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, sentence)
    if not getattr(authorizer, "reads_acls", False):
        name = type(authorizer).__name__
        raise KafkaError(ErrorCode.SECURITY_DISABLED, f"{sentence} The authorizer {name} keeps its own rules")


def require_token_requests(context: HandlerContext) -> None:
    """Raises KafkaError(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED) unless the client may ask about delegation tokens.

    The client must be known, by another way than by a token: otherwise a stolen token would last for ever.
    """
    client = context.client
    protocol = context.broker.config.listener_security_protocol_map.get(client.listener, PLAINTEXT)
    is_unknown = protocol == PLAINTEXT or (protocol == SSL and client.principal == ANONYMOUS)
    if client.is_by_delegation_token or is_unknown:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def require_token_secrets(context: HandlerContext) -> TokenSecrets:
    """The secrets of delegation tokens. Raises KafkaError(DELEGATION_TOKEN_AUTH_DISABLED) without a secret key."""
    if context.broker.token_secrets is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return context.broker.token_secrets


def require_token(context: HandlerContext, secrets: TokenSecrets, secret: bytes) -> Steps[DelegationToken]:
    """The token with this secret, as it is after the search. Raises KafkaError(DELEGATION_TOKEN_NOT_FOUND)."""
    metadata = context.broker.metadata
    token_id = yield from secrets.find(metadata.planned.tokens, secret)
    token = metadata.planned.tokens.get(token_id or "")
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token


def or_close(read: Callable[[T], R], element: T) -> R:
    """`read(element)`. Raises CloseConnection for a ValueError: no client sends such an element."""
    try:
        return read(element)
    except ValueError as error:
        raise CloseConnection(str(error)) from None


def _of(topic: str, index: int) -> str:
    return f" ({topic}-{index})" if topic else ""


def known_code(code: ErrorCode, version: int, storage_error_since: int) -> ErrorCode:
    """The code for the client's version: clients that do not know KAFKA_STORAGE_ERROR must retry instead."""
    is_unknown = code == ErrorCode.KAFKA_STORAGE_ERROR and version < storage_error_since
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_unknown else code
