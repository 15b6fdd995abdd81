"""RenewDelegationToken: expire a token later (KIP-48).

v2 flexible
"""

from headgate.gateway.api.authorization_rules import unrestricted
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.api.refusals import require_token_requests, require_token_secrets
from headgate.gateway.runtime.tasks import Outcome
from headgate.gateway.security.tokens import rules
from headgate.gateway.security.tokens.delegation_token import record_of
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
    secrets, broker = require_token_secrets(context), context.broker
    token = secrets.find(broker.metadata.planned.tokens, bytes(request.hmac))
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    lifetimes, now_ms = rules.lifetimes_of(broker.config), broker.clock.now_ms()
    renewed = rules.renew(token, context.client.principal, request.renew_period_ms, lifetimes, now_ms)
    change = broker.metadata.submit([record_of(renewed)])
    return settled(context, change, lambda: RenewDelegationTokenResponse(ErrorCode.NONE, renewed.expiry_ms, 0))
