"""ACLs as the requests about them have them, with the checks of Kafka's request classes."""

from __future__ import annotations

from typing import Any, Protocol

from headgate.protocol.acls import AclBinding, AclFilter, AclOperation, AclPermission, AclResource, PatternType


class _Filter(Protocol):
    """The filter of a request."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def filter_of(request: _Filter) -> AclFilter:
    """The filter. Raises ValueError for the number 0, which no client may send."""
    _check_known(
        request, request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    )
    return AclFilter(
        AclResource(request.resource_type_filter),
        request.resource_name_filter,
        PatternType(request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        AclOperation(request.operation),
        AclPermission(request.permission_type),
    )


def binding_of(creation: Any) -> AclBinding:
    """The ACL of a creation. Raises ValueError for the number 0, which no client may send."""
    _check_known(
        creation,
        creation.resource_type,
        creation.resource_pattern_type,
        creation.operation,
        creation.permission_type,
    )
    return AclBinding(
        AclResource(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        AclOperation(creation.operation),
        AclPermission(creation.permission_type),
    )


def _check_known(element: object, *numbers: int) -> None:
    if 0 in numbers:
        raise ValueError(f"an ACL has the number 0, which means unknown: {element}")
