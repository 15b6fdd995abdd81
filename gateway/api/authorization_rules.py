"""The rules of more than one API, for `@handles(..., authorize=...)`; a rule of one API stands beside its handler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from headgate.gateway.api import authorized_operations
from headgate.gateway.api.authorization import (
    CLUSTER_NAME,
    DENIALS,
    AclOperation,
    AclResource,
    Authorization,
    Rule,
)
from headgate.gateway.api.config_resources import Resource
from headgate.gateway.config.resource_type import ResourceType
from headgate.protocol.steps import lazy_map


def unrestricted(authorization: Authorization) -> None:
    """Everybody may ask for this."""


def cluster(operation: AclOperation) -> Rule:
    """The operation on the cluster; denied, the whole request is."""
    return lambda authorization: authorization.require(operation, AclResource.CLUSTER, CLUSTER_NAME)


def group(operation: AclOperation) -> Rule:
    """The operation on the group `request.group_id`; denied, the whole request is."""
    return lambda authorization: authorization.require(operation, AclResource.GROUP, authorization.request.group_id)


def partitions(operation: AclOperation) -> Rule:
    """The operation on the topic of every partition that the handler takes from the replica manager."""

    def rule(authorization: Authorization) -> None:
        authorization.limit_partitions(partial(authorization.allows, operation, AclResource.TOPIC))

    return rule


def elements(
    operation: AclOperation,
    resource: AclResource,
    asked: str,
    told: str,
    name_of: Callable[[Any], str] = str,
    or_cluster: AclOperation | None = None,
) -> Rule:
    """The operation on every element of the request's array `asked`; denied ones have rows in the response's `told`.

    `or_cluster`: the operation on the cluster that allows all of them.
    """

    def rule(authorization: Authorization) -> None:
        if or_cluster is None or not authorization.allows_cluster(or_cluster):
            authorization.split(
                asked,
                told,
                lambda element: authorization.allows(operation, resource, name_of(element)),
                code=DENIALS[resource],
            )

    return rule


def every(*rules: Rule) -> Rule:
    """All of these rules, in order, until one of them has denied everything."""

    def rule(authorization: Authorization) -> None:
        for one in rules:
            if authorization.response is None:
                one(authorization)

    return rule


def configs(operation: AclOperation, told: str) -> Rule:
    """The operation on every element of `request.resources`: a topic, a group, or of anything else the cluster.

    A denied one has its row in the response's array `told`.
    """

    def rule(authorization: Authorization) -> None:
        def is_allowed(of: AclResource, resource: Resource) -> bool:
            found, name = _secured(resource)
            return found is not of or authorization.allows(operation, found, name)

        for of in (AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER):
            if authorization.response is None:
                authorization.split("resources", told, partial(is_allowed, of), code=DENIALS[of])

    return rule


def _secured(resource: Resource) -> tuple[AclResource, str]:
    """What an ACL is about, for a resource with configs."""
    if resource.resource_type == ResourceType.TOPIC:
        return AclResource.TOPIC, resource.resource_name
    if resource.resource_type == ResourceType.GROUP:
        return AclResource.GROUP, resource.resource_name
    return AclResource.CLUSTER, CLUSTER_NAME


def cluster_operations(authorization: Authorization) -> int:
    """The bit field of operations on the cluster; 0 for a client that may not DESCRIBE the cluster."""
    if not authorization.allows_cluster(AclOperation.DESCRIBE):
        return 0
    return authorization.operations(AclResource.CLUSTER, CLUSTER_NAME, authorized_operations.CLUSTER)


def authorize_topic_operations(authorization: Authorization, response: Any) -> None:
    """Tell in the rows of topics, where they have that field, the operations that the client may do."""

    def limited(row: Any) -> Any:
        if row.topic_authorized_operations != authorized_operations.UNKNOWN:
            row.topic_authorized_operations = authorization.operations(
                AclResource.TOPIC, row.name, authorized_operations.TOPIC
            )
        return row

    response.topics = lazy_map(response.topics, limited)


def authorize_group_operations(authorization: Authorization) -> None:
    """Tell in the rows of groups the operations that the client may do."""

    def limit(response: Any) -> None:
        for row in response.groups:
            if not row.error_code:
                row.authorized_operations = authorization.operations(
                    AclResource.GROUP, row.group_id, authorized_operations.GROUP
                )

    if authorization.request.include_authorized_operations:
        authorization.amends.append(limit)
