"""Rules that several APIs share, for `@handles(..., authorize=...)`; a rule of one API is in its handler's module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from headgate.gateway.api import authorized_operations
from headgate.gateway.api.authorization import (
    CLUSTER_NAME,
    DENIALS,
    AclOperation,
    AclResource,
    Authorization,
    PartitionRule,
    Rule,
    denied,
)
from headgate.gateway.api.config_resources import Resource
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.coordinator.decision import RequestContext
from headgate.protocol.steps import lazy_map


def unrestricted(authorization: Authorization) -> None:
    """Allow every client."""


def by_handler(authorization: Authorization) -> None:
    """Allow every client for now: the handler asks the authorizer about each element of its answer, in steps."""
    authorization.leave_to_handler()


def cluster(operation: AclOperation) -> Rule:
    """Require the operation on the cluster; otherwise deny the whole request."""
    return lambda authorization: authorization.require(operation, AclResource.CLUSTER, CLUSTER_NAME)


def broker(authorization: Authorization) -> None:
    """Require CLUSTER_ACTION, as the brokers of a cluster have; otherwise deny the whole request."""
    if not authorization.is_broker():
        raise denied(AclResource.CLUSTER)


def group(operation: AclOperation) -> Rule:
    """Require the operation on the group `request.group_id`; otherwise deny the whole request."""
    return lambda authorization: authorization.require(operation, AclResource.GROUP, authorization.request.group_id)


def transactional_id(authorization: Authorization) -> None:
    """Require WRITE on `request.transactional_id`; otherwise deny the whole request."""
    authorization.require(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, authorization.request.transactional_id)


def committed_topics(authorization: Authorization) -> None:
    """Require READ on each of `request.topics`, by name or id."""
    authorization.split(
        "topics", "topics", lambda topic: authorization.allows_topic(AclOperation.READ, topic.name, topic.topic_id)
    )


def partitions(operation: AclOperation) -> Rule:
    """Require the operation on the topic of every partition that the handler gets from the replica manager."""
    return PartitionRule(operation, lambda _: True, unrestricted)


def elements(
    operation: AclOperation,
    resource: AclResource,
    request_field: str,
    response_field: str,
    name_of: Callable[[Any], str] = str,
    or_cluster: AclOperation | None = None,
    message: str = "",
) -> Rule:
    """Require the operation on every element of an array of the request; rows of denied ones go into the response.

    `request_field`, `response_field`: the names of these arrays. `or_cluster`: an operation on the cluster that allows
    all elements. `message`: in denied rows, in place of the error's own.
    """

    def rule(authorization: Authorization) -> None:
        if or_cluster is None or not authorization.holds_cluster(or_cluster):
            authorization.split(
                request_field,
                response_field,
                lambda element: authorization.allows(operation, resource, name_of(element)),
                code=DENIALS[resource],
                message=message,
            )

    return rule


def known_topics(authorization: Authorization) -> None:
    """Have the group of the request match expressions with topics alone that the client may DESCRIBE."""
    may_describe = partial(authorization.allows, AclOperation.DESCRIBE, AclResource.TOPIC)
    context = authorization.context
    authorization.context = _MemberContext(
        context.broker, context.client, context.version, context.client_id, may_describe
    )


@dataclass(slots=True)
class _MemberContext(HandlerContext):
    """The context of a member's request to its group."""

    may_describe: Callable[[str], bool]

    @property
    def request_context(self) -> RequestContext:
        return RequestContext(self.client_id or "", f"/{self.client.remote_host}", self.version, self.may_describe)


def every(*rules: Rule) -> Rule:
    """All these rules, in order, until one has denied everything."""

    def rule(authorization: Authorization) -> None:
        for rule_of_api in rules:
            if authorization.response is None:
                rule_of_api(authorization)

    return rule


def configs(operation: AclOperation, response_field: str) -> Rule:
    """Require the operation on every element of `request.resources`: a topic, a group, or else the cluster.

    The row of a denied element goes into the response's array `response_field`.
    """

    def rule(authorization: Authorization) -> None:
        def is_allowed(resource_type: AclResource, resource: Resource) -> bool:
            secured_type, name = _secured(resource)
            return secured_type is not resource_type or authorization.allows(operation, secured_type, name)

        for resource_type in (AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER):
            if authorization.response is None:
                code = DENIALS[resource_type]
                authorization.split("resources", response_field, partial(is_allowed, resource_type), code=code)

    return rule


def _secured(resource: Resource) -> tuple[AclResource, str]:
    """The ACL resource that protects a resource with configs."""
    if resource.resource_type == ResourceType.TOPIC:
        return AclResource.TOPIC, resource.resource_name
    if resource.resource_type == ResourceType.GROUP:
        return AclResource.GROUP, resource.resource_name
    return AclResource.CLUSTER, CLUSTER_NAME


def cluster_operations(authorization: Authorization) -> int:
    """The bit field of operations on the cluster; 0 for a client that may not DESCRIBE the cluster."""
    if not authorization.shows(AclOperation.DESCRIBE, AclResource.CLUSTER, CLUSTER_NAME):
        return 0
    return authorization.operations(AclResource.CLUSTER, CLUSTER_NAME, authorized_operations.CLUSTER)


def authorize_topic_operations(authorization: Authorization, response: Any) -> None:
    """Limit the authorized operations in topic rows that have the field to those of the client."""

    def limited(row: Any) -> Any:
        if row.topic_authorized_operations != authorized_operations.UNKNOWN:
            row.topic_authorized_operations = authorization.operations(
                AclResource.TOPIC, row.name, authorized_operations.TOPIC
            )
        return row

    response.topics = lazy_map(response.topics, limited)


def authorize_group_operations(authorization: Authorization) -> None:
    """Limit the authorized operations in group rows to those of the client."""

    def limit(response: Any) -> None:
        for row in response.groups:
            if not row.error_code:
                row.authorized_operations = authorization.operations(
                    AclResource.GROUP, row.group_id, authorized_operations.GROUP
                )

    if authorization.request.include_authorized_operations:
        authorization.amends.append(limit)
