"""DescribeDelegationToken: the tokens that the requesting principal may see (KIP-48).

v2 flexible   v3 the requester of a token (KIP-373)
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import partial
from typing import TYPE_CHECKING, cast

from headgate.gateway.api.authorization import AclOperation, AclResource
from headgate.gateway.api.authorization_rules import by_handler
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.refusals import require_token_requests, require_token_secrets
from headgate.gateway.runtime.tasks import Outcome, at_once_if_few
from headgate.gateway.security.tokens import rules
from headgate.gateway.security.tokens.delegation_token import DelegationToken, Tokens, parts_of
from headgate.gateway.security.tokens.token_secrets import TokenSecrets
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from headgate.protocol.steps import Steps, lazy_map

if TYPE_CHECKING:
    from headgate.gateway.api.authorization import Authorizer

_TOKENS_A_STEP = 64


@handles(DescribeDelegationTokenRequest, versions="0-3", authorize=by_handler)
def describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: HandlerContext
) -> Outcome[DescribeDelegationTokenResponse]:
    """The tokens of these owners, or of all: those of the client, and those that its ACLs show to the client."""
    require_token_requests(context)
    secrets, tokens = require_token_secrets(context), context.broker.metadata.image.tokens
    owners = None
    if request.owners is not None:
        owners = frozenset(f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners)
    return at_once_if_few(_describe(tokens, owners, secrets, context), len(tokens))


def _describe(
    tokens: Tokens, owners: AbstractSet[str] | None, secrets: TokenSecrets, context: HandlerContext
) -> Steps[DescribeDelegationTokenResponse]:
    found, principal = list[DelegationToken](), context.client.principal
    for number, token in enumerate(tokens.values(), 1):
        if rules.is_described(token, principal, owners, partial(_may_describe, context)):
            found.append(token)
        if not number % _TOKENS_A_STEP:
            yield
    return DescribeDelegationTokenResponse(ErrorCode.NONE, lazy_map(found, partial(_row, secrets)), 0)


def _may_describe(context: HandlerContext, token: DelegationToken) -> bool:
    """Whether ACLs let the client see another's token. Without an authorizer every client may, as in Kafka."""
    authorizer, client = cast("Authorizer | None", context.broker.authorizer), context.client
    return (
        authorizer is None
        or authorizer.allows(client, AclOperation.DESCRIBE, AclResource.DELEGATION_TOKEN, token.token_id)
        or authorizer.allows(client, AclOperation.DESCRIBE_TOKENS, AclResource.USER, token.owner)
    )


def _row(secrets: TokenSecrets, token: DelegationToken) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        *parts_of(token.owner),
        *parts_of(token.requester),
        token.issue_ms,
        token.expiry_ms,
        token.max_ms,
        token.token_id,
        secrets.hmac_of(token.token_id),
        [DescribedDelegationTokenRenewer(*parts_of(renewer)) for renewer in token.renewers],
    )
