"""DeleteAcls: remove access rules by filters (KIP-140).

v1 patterns of resource names (KIP-290)   v2 flexible   v3 users as resources (KIP-373)
"""

from collections.abc import Sequence
from typing import Any

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.api.refusals import or_close, refusal, require_acls
from headgate.gateway.metadata.planning.acls import check_filter, matching
from headgate.gateway.runtime.tasks import Outcome, Task, at_once_if_few, value_of
from headgate.gateway.security.acls.acl_requests import filter_of
from headgate.protocol.acls import AclBinding
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from headgate.protocol.steps import lazy_map


@handles(DeleteAclsRequest, versions="0-3", authorize=cluster(AclOperation.ALTER))
def delete_acls(request: DeleteAclsRequest, context: HandlerContext) -> Outcome[DeleteAclsResponse]:
    """Delete every rule that a filter means, all of them in one change."""
    require_acls(context, "No Authorizer is configured.")
    tested = len(request.filters) * (1 + len(context.broker.metadata.planned.acls.ids))
    return at_once_if_few(_delete_acls(request, context), tested)


def _delete_acls(request: DeleteAclsRequest, context: HandlerContext) -> Task[Any]:
    broker, deleted, rows = context.broker, dict[AclBinding, None](), list[DeleteAclsFilterResult]()
    for each in request.filters:
        wanted = or_close(filter_of, each)
        try:
            check_filter(wanted)
            found = yield from matching(broker.metadata.planned.acls, wanted)
            deleted.update(dict.fromkeys(found))
            rows.append(_result(found))
        except KafkaError as error:
            rows.append(DeleteAclsFilterResult(*refusal(broker, error)))
        yield None
    change = broker.metadata.delete_acls(deleted)
    return (yield from value_of(settled(context, change, lambda: DeleteAclsResponse(filter_results=rows))))


def _result(found: Sequence[AclBinding]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_message=None, matching_acls=lazy_map(found, _row))


def _row(binding: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=binding.resource_type,
        resource_name=binding.resource_name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )
