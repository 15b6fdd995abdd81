"""ExpireDelegationToken: expire a token earlier, or now (KIP-48).

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
from headgate.protocol.internal.metadata import RemoveDelegationTokenRecord
from headgate.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


@handles(ExpireDelegationTokenRequest, versions="0-2", authorize=unrestricted)
def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: HandlerContext
) -> Outcome[ExpireDelegationTokenResponse]:
    """Set the end of the token with this secret, or delete the token. Open sessions of the token keep their end."""
    try:
        require_token_requests(context)
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error.code, -1, 0)
    secrets = require_token_secrets(context)
    return at_once_if_few(_expire(request, context, secrets), len(context.broker.metadata.planned.tokens))


def _expire(request: ExpireDelegationTokenRequest, context: HandlerContext, secrets: TokenSecrets) -> Task[Any]:
    broker = context.broker
    token = yield from require_token(context, secrets, bytes(request.hmac))
    now_ms = broker.clock.now_ms()
    left = rules.expire(token, context.client.principal, request.expiry_time_period_ms, now_ms)
    record = RemoveDelegationTokenRecord(token_id=token.token_id) if left is None else record_of(left)
    change = broker.metadata.submit([record])
    response = ExpireDelegationTokenResponse(ErrorCode.NONE, now_ms if left is None else left.expiry_ms, 0)
    return (yield from value_of(settled(context, change, lambda: response)))
