"""CreateDelegationToken: create a token, whose bearers act as its owner for a limited time (KIP-48).

v2 flexible   v3 tokens for other users (KIP-373)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from headgate.gateway.api.authorization import AclOperation, AclResource
from headgate.gateway.api.authorization_rules import by_handler
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.api.refusals import require_token_requests, require_token_secrets
from headgate.gateway.metadata.new_topics import new_topic_id
from headgate.gateway.runtime.tasks import Outcome
from headgate.gateway.security.tokens import rules
from headgate.gateway.security.tokens.delegation_token import DelegationToken, parts_of, record_of
from headgate.gateway.security.tokens.token_secrets import TokenSecrets
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headgate.storage.disk.layout import format_id

if TYPE_CHECKING:
    from headgate.gateway.api.authorization import Authorizer


@handles(CreateDelegationTokenRequest, versions="0-3", authorize=by_handler)
def create_delegation_token(
    request: CreateDelegationTokenRequest, context: HandlerContext
) -> Outcome[CreateDelegationTokenResponse]:
    """Create a token for the client itself, or for a user for whom the client may do CREATE_TOKENS."""
    requester = context.client.principal
    name = request.owner_principal_name
    owner = f"{request.owner_principal_type}:{name}" if name else requester
    renewers = tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers)
    wanted = rules.NewToken(owner, requester, renewers, request.max_lifetime_ms)
    try:
        secrets = _checked(request, context, owner)
        token = _new_token(context, wanted)
    except KafkaError as error:
        # Kafka's controller refuses the third one, and sets no times
        times_ms = (0, 0, 0) if error.code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED else (-1, -1, -1)
        context.broker.refusals[error.code] += 1
        return CreateDelegationTokenResponse(error.code, *parts_of(owner), *parts_of(requester), *times_ms, "", b"", 0)
    change = context.broker.metadata.submit([record_of(token)])
    return settled(context, change, lambda: _response(token, secrets))


def _checked(request: CreateDelegationTokenRequest, context: HandlerContext, owner: str) -> TokenSecrets:
    """Check all but the room for a token, in Kafka's order. Raises KafkaError."""
    require_token_requests(context)
    authorizer = cast("Authorizer | None", context.broker.authorizer)
    is_own = owner == context.client.principal
    if not (
        is_own
        or authorizer is None
        or authorizer.allows(context.client, AclOperation.CREATE_TOKENS, AclResource.USER, owner)
    ):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    rules.check_renewers([renewer.principal_type for renewer in request.renewers])
    return require_token_secrets(context)


def _new_token(context: HandlerContext, wanted: rules.NewToken) -> DelegationToken:
    broker = context.broker
    token_id, now_ms = format_id(new_topic_id(broker.random, ())), broker.clock.now_ms()
    return rules.create(broker.metadata.planned.tokens, wanted, token_id, rules.lifetimes_of(broker.config), now_ms)


def _response(token: DelegationToken, secrets: TokenSecrets) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        ErrorCode.NONE,
        *parts_of(token.owner),
        *parts_of(token.requester),
        token.issue_ms,
        token.expiry_ms,
        token.max_ms,
        token.token_id,
        secrets.hmac_of(token.token_id),
        0,
    )
