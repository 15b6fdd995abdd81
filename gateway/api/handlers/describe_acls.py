"""DescribeAcls: the access rules for resources (KIP-140).

v1 patterns of resource names (KIP-290)   v2 flexible   v3 users as resources (KIP-373)
"""

from typing import Any

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.refusals import or_close, require_acls
from headgate.gateway.metadata.planning.acls import matching
from headgate.gateway.runtime.tasks import Outcome, Task, at_once_if_few
from headgate.gateway.security.acls.acl_requests import filter_of
from headgate.protocol.acls import AclBinding, ResourcePattern
from headgate.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from headgate.protocol.steps import lazy_map


@handles(DescribeAclsRequest, versions="0-3", authorize=cluster(AclOperation.DESCRIBE))
def describe_acls(request: DescribeAclsRequest, context: HandlerContext) -> Outcome[DescribeAclsResponse]:
    """The rules that the filter means, by pattern."""
    require_acls(context, "No Authorizer is configured on the broker")
    return at_once_if_few(_describe_acls(request, context), len(context.broker.metadata.image.acls.ids))


def _describe_acls(request: DescribeAclsRequest, context: HandlerContext) -> Task[Any]:
    found = yield from matching(context.broker.metadata.image.acls, or_close(filter_of, request))
    resources: dict[ResourcePattern, list[AclBinding]] = {}
    for binding in found:
        resources.setdefault(binding.pattern, []).append(binding)
    return DescribeAclsResponse(resources=lazy_map([*resources.items()], _resource))


def _resource(item: tuple[ResourcePattern, list[AclBinding]]) -> DescribeAclsResource:
    pattern, bindings = item
    acls = [AclDescription(one.principal, one.host, one.operation, one.permission) for one in bindings]
    return DescribeAclsResource(pattern.resource_type, pattern.name, pattern.pattern_type, acls)
