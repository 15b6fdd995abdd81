"""CreateAcls: create access rules for resources (KIP-140).

v1 patterns of resource names (KIP-290)   v2 flexible   v3 users as resources (KIP-373)
"""

from headgate.protocol.schema import Message, Struct, array, int8, int16, int32, nullable_string, string, v


class AclCreation(Struct):
    """A rule. Its numbers are those of DescribeAcls."""

    resource_type: int8 = v("0+")
    resource_name: string = v("0+")
    resource_pattern_type: int8 = v("1+", default=3)
    principal: string = v("0+")
    host: string = v("0+")
    operation: int8 = v("0+")
    permission_type: int8 = v("0+")


class CreateAclsRequest(Message, key=30, versions="0-3", flexible="2+"):
    """Create rules, each with a result of its own."""

    creations: array[AclCreation] = v("0+")


class AclCreationResult(Struct):
    """The result for a rule."""

    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")


class CreateAclsResponse(Message, key=30, response=True, versions="0-3", flexible="2+"):
    """One result for each rule of the request, in its order."""

    throttle_time_ms: int32 = v("0+")
    results: array[AclCreationResult] = v("0+")
