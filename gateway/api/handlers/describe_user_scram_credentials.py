"""DescribeUserScramCredentials: the SCRAM mechanisms of users with their iterations (KIP-554). No key is ever shown."""

from collections import Counter
from collections.abc import Mapping

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import each_row
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from headgate.protocol.security.sasl.scram_keys import ScramCredential


@handles(DescribeUserScramCredentialsRequest, versions="0", authorize=cluster(AclOperation.DESCRIBE))
def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: HandlerContext
) -> DescribeUserScramCredentialsResponse:
    """Describe the named users, or all; a user that is named twice gets an error."""
    known = context.broker.metadata.image.scram_credentials
    counts = Counter([user.name for user in request.users] if request.users else known.keys())

    def answer(user: str) -> DescribeUserScramCredentialsResult:
        if counts[user] > 1:
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, message)
        if user not in known:
            message = f"Attempt to describe a user credential that does not exist: {user}"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)
        return DescribeUserScramCredentialsResult(user, ErrorCode.NONE, "", _infos(known[user]))

    return DescribeUserScramCredentialsResponse(
        error_message="", results=each_row(context.broker, list(counts), answer, _refuse)
    )


def _infos(credentials: Mapping[int, ScramCredential]) -> list[CredentialInfo]:
    return [CredentialInfo(mechanism, credential.iterations) for mechanism, credential in sorted(credentials.items())]


def _refuse(user: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user, code, message, [])
