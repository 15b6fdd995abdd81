"""RenewDelegationToken: expire a token later (KIP-48).

v2 flexible
"""

from typing import Any

from headgate.gateway.api.authorization_rules import unrestricted
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.api.refusals import require_token, require_token_requests, require_token_secrets
from headgate.gateway.runtime.tasks import Outcome, Task, at_once_if_few, value_of
from headgate.gateway.security.tokens import rules
from headgate.gateway.security.tokens.delegation_token import record_of
from headgate.gateway.security.tokens.token_secrets import TokenSecrets
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


@handles(RenewDelegationTokenRequest, versions="0-2", authorize=unrestricted)
def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: HandlerContext
) -> Outcome[RenewDelegationTokenResponse]:
    """Renew the token with this secret, for its owner or one of its renewers."""
    try:
        require_token_requests(context)
    except KafkaError as error:
        return RenewDelegationTokenResponse(error.code, -1, 0)
    secrets = require_token_secrets(context)
    return at_once_if_few(_renew(request, context, secrets), len(context.broker.metadata.planned.tokens))


def _renew(request: RenewDelegationTokenRequest, context: HandlerContext, secrets: TokenSecrets) -> Task[Any]:
    broker = context.broker
    token = yield from require_token(context, secrets, bytes(request.hmac))
    lifetimes, now_ms = rules.lifetimes_of(broker.config), broker.clock.now_ms()
    renewed = rules.renew(token, context.client.principal, request.renew_period_ms, lifetimes, now_ms)
    change = broker.metadata.submit([record_of(renewed)])
    response = RenewDelegationTokenResponse(ErrorCode.NONE, renewed.expiry_ms, 0)
    return (yield from value_of(settled(context, change, lambda: response)))
