"""AlterUserScramCredentials: set and remove SCRAM credentials of users (KIP-554)."""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


@handles(AlterUserScramCredentialsRequest, versions="0", authorize=cluster(AclOperation.ALTER))
def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: HandlerContext
) -> Outcome[AlterUserScramCredentialsResponse]:
    """Change the credentials of each user that the request names once. The valid changes are one change."""
    plan, change = context.broker.metadata.change_scram_credentials(request)
    response = AlterUserScramCredentialsResponse(results=[_result(*result) for result in plan.results.items()])
    return settled(context, change, lambda: response)


def _result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user, ErrorCode.NONE, None)
    return AlterUserScramCredentialsResult(user, error.code, error.message)
