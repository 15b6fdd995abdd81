"""DescribeAcls: the access rules for resources (KIP-140).

v1 patterns of resource names (KIP-290)   v2 flexible   v3 users as resources (KIP-373)

Types, patterns, operations and permissions have Kafka's numbers: 0 unknown, 1 any, then the concrete ones.
"""

from headgate.protocol.schema import Message, Struct, array, int8, int16, int32, nullable_string, string, v

LITERAL = 3
"""The pattern type of a resource that is meant by exactly its name."""


class DescribeAclsRequest(Message, key=29, versions="0-3", flexible="2+"):
    """Ask for matching rules; null matches any name, principal or host."""

    resource_type_filter: int8 = v("0+")
    resource_name_filter: nullable_string = v("0+")
    pattern_type_filter: int8 = v("1+", default=3)
    principal_filter: nullable_string = v("0+")
    host_filter: nullable_string = v("0+")
    operation: int8 = v("0+")
    permission_type: int8 = v("0+")


class AclDescription(Struct):
    """A rule: a principal, from a host (* for any), may or may not do an operation."""

    principal: string = v("0+")
    host: string = v("0+")
    operation: int8 = v("0+")
    permission_type: int8 = v("0+")


class DescribeAclsResource(Struct):
    """A resource and its rules."""

    resource_type: int8 = v("0+")
    resource_name: string = v("0+")
    pattern_type: int8 = v("1+", default=3)
    acls: array[AclDescription] = v("0+")


class DescribeAclsResponse(Message, key=29, response=True, versions="0-3", flexible="2+"):
    """One result for each resource with a matching rule."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    resources: array[DescribeAclsResource] = v("0+")
