"""Access to the cluster: ACLs and the rule that decides, SCRAM users, quotas, delegation tokens.

The visitor's principal may see a part or not, and an older broker knows none of it: the part is null then, and
`missing` has the reason. No answer has a secret: neither salts nor keys of users, nor HMACs of tokens.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Final

from headgate.protocol.acls import (
    CLUSTER_NAME,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResource,
    PatternType,
    ResourcePattern,
)
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_acls import DescribeAclsRequest
from headgate.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from headgate.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
)
from headgate.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from headgate.protocol.schema import Message
from headgate.protocol.security.quotas import AppliedQuota
from headgate.tools.acls import options, rows, why
from headgate.tools.acls.actions import describe
from headgate.tools.client.client import ClientError, SecurityError
from headgate.tools.client.cluster import Cluster, FailedAnswer, sole_answer
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.output import Row, UsageError
from headgate.tools.quotas import EntityQuotas, describe_quotas, effective_quotas, entity_row, quota_rows
from headgate.tools.tokens import describe_tokens, is_expired, principals_of
from headgate.tools.users import describe_users, user_rows

MAX_ROWS: Final = 10_000
"""Of one answer; `total` counts all."""
NO_AUTHORIZER: Final = "This cluster has no authorizer that keeps ACLs: every client may do everything."

_SINCE: Final[dict[type[Message], str]] = {
    DescribeAclsRequest: "ACLs can be listed from Kafka 0.11 on",
    DescribeUserScramCredentialsRequest: "users of SCRAM can be listed from Kafka 2.7 on",
    DescribeClientQuotasRequest: "quotas can be listed from Kafka 2.6 on",
    DescribeDelegationTokenRequest: "delegation tokens came with Kafka 1.1",
}

# ----------------------------------------------------------------------------------------------------------------- ACLs


def acls(cluster: Cluster, parameters: Parameters) -> Row:
    """The ACLs that a filter means, with the operations that exist on each type of resource.

    Parameters: principal, host, operation, permission, resource_type, resource_name: with a name, all patterns that
    the resource has. Raises BadParameter.
    """
    wanted = _filter(parameters)
    answer = {"authorizer": None, "operations": _OPERATIONS}
    try:
        found = sorted(_asked(cluster, DescribeAclsRequest, lambda: describe(cluster, wanted)), key=rows.sort_key)
    except SecurityError:
        raise
    except ClientError as error:
        if isinstance(error, FailedAnswer) and error.failure.code == ErrorCode.SECURITY_DISABLED:
            return {**answer, "authorizer": NO_AUTHORIZER, "acls": [], "total": 0, "missing": {}}
        return {**answer, "acls": None, "total": None, "missing": {"acls": str(error)}}
    return {**answer, "acls": [rows.row_of(acl) for acl in found[:MAX_ROWS]], "total": len(found), "missing": {}}


_OPERATIONS: Final = {
    kind.name: [operation.name for operation in sorted(operations)] for kind, operations in options.POSSIBLE.items()
}


def _filter(parameters: Parameters) -> AclFilter:
    """Raises BadParameter."""
    name = parameters.text("resource_name", "") or None
    return AclFilter(
        constant_parameter(AclResource, parameters, "resource_type", AclResource.ANY),
        name,
        PatternType.ANY if name is None else PatternType.MATCH,
        parameters.text("principal", "") or None,
        parameters.text("host", "") or None,
        constant_parameter(AclOperation, parameters, "operation", AclOperation.ANY),
        constant_parameter(AclPermission, parameters, "permission", AclPermission.ANY),
    )


def constant_parameter(kind: type[rows.E], parameters: Parameters, name: str, default: rows.E | None = None) -> rows.E:
    """The constant that a parameter names; the default without a name. Raises BadParameter."""
    text = parameters.text(name, "" if default is not None else None)
    if not text and default is not None:
        return default
    try:
        return rows.constant(kind, text)
    except UsageError as error:
        raise BadParameter(f"{name}: {error}") from None


def access_decision(cluster: Cluster, parameters: Parameters) -> Row:
    """Whether a principal may do an operation, by which rule, and the cure.

    Parameters: principal, operation, resource_type, resource_name (none for CLUSTER), host (may be missing). Raises
    BadParameter, ClientError.
    """
    question = _question(parameters)
    explanation = why.explain(cluster, [question])
    if not explanation.rows:
        return {"sentence": NO_AUTHORIZER, "decision": None, "notes": explanation.notes}
    [row] = explanation.rows
    return {"sentence": why.sentence(row), "decision": row, "notes": explanation.notes}


def _question(parameters: Parameters) -> why.AccessQuestion:
    """Raises BadParameter."""
    resource_type = constant_parameter(AclResource, parameters, "resource_type")
    is_cluster = resource_type is AclResource.CLUSTER
    name = CLUSTER_NAME if is_cluster else parameters.text("resource_name")
    if not name:
        raise BadParameter("resource_name: name the resource")
    operation = constant_parameter(AclOperation, parameters, "operation")
    try:
        principal = options.principal(parameters.text("principal"))
        options.check_possible(resource_type, operation)
    except (argparse.ArgumentTypeError, UsageError) as error:
        raise BadParameter(str(error)) from None
    pattern = ResourcePattern(resource_type, name, PatternType.LITERAL)
    return why.AccessQuestion(principal, operation, pattern, parameters.text("host", ""))


# ---------------------------------------------------------------------------------------------- users, quotas, tokens


def users(cluster: Cluster, _: Parameters) -> Row:
    """The mechanisms of the users of SCRAM, with their iterations."""

    def ask() -> list[Row]:
        known, _ = describe_users(cluster)
        return user_rows(known)

    return _part(cluster, DescribeUserScramCredentialsRequest, "users", ask)


def quotas(cluster: Cluster, parameters: Parameters) -> Row:
    """The quotas of all entities; with `user` or `client_id` (or both) and `ip` also those that bound this client."""
    user, client_id, ip = (parameters.text(name, "") for name in ("user", "client_id", "ip"))
    found: EntityQuotas = {}

    def ask() -> list[dict[str, Any]]:
        found.update(describe_quotas(cluster))
        return quota_rows(found)

    answer = _part(cluster, DescribeClientQuotasRequest, "quotas", ask)
    if answer["quotas"] is None or not (user or client_id or ip):
        return {**answer, "effective": None}
    effective = effective_quotas(found, user, client_id, ip)
    return {**answer, "effective": [_effective_row(name, quota) for name, quota in effective.items()]}


def _effective_row(name: str, quota: AppliedQuota | None) -> Row:
    """A quota of a client: its bound, the entity that has it, and those that share it; nulls: not limited."""
    if quota is None:
        return {"quota": name, "value": None, "entity": None, "shared_by": None}
    shares = {"user": quota.bucket.user, "client_id": quota.bucket.client_id}
    return {
        "quota": name,
        "value": quota.bound,
        "entity": entity_row(quota.entity),
        "shared_by": {kind: value for kind, value in shares.items() if value},
    }


def tokens(cluster: Cluster, _: Parameters) -> Row:
    """The delegation tokens that the visitor's principal may see, without their HMACs."""
    return _part(
        cluster,
        DescribeDelegationTokenRequest,
        "tokens",
        lambda: [_token_row(token) for token in describe_tokens(cluster)],
    )


def _token_row(token: DescribedDelegationToken) -> Row:
    principals = principals_of(token)
    return {
        "token_id": token.token_id,
        **principals._asdict(),
        "issue_ms": token.issue_timestamp,
        "expiry_ms": token.expiry_timestamp,
        "max_ms": token.max_timestamp,
        "is_expired": is_expired(token),
    }


# ---------------------------------------------------------------------------------------------------------------- parts


def _part(cluster: Cluster, request: type[Message], name: str, ask: Callable[[], list[Any]]) -> dict[str, Any]:
    """An answer with rows, or with the reason why there are none. Raises SecurityError."""
    try:
        found = _asked(cluster, request, ask)
    except SecurityError:
        raise
    except ClientError as error:
        return {name: None, "total": None, "missing": {name: str(error)}}
    return {name: found[:MAX_ROWS], "total": len(found), "missing": {}}


def _asked(cluster: Cluster, request: type[Message], ask: Callable[[], list[Any]]) -> list[Any]:
    """The answer; a broker without the API is not asked. Raises ClientError."""
    if not sole_answer(cluster.ask_any("versions", lambda client: client.serves(request))):
        raise ClientError(f"this broker is too old: {_SINCE[request]}")
    return ask()
