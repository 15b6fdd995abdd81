"""DeleteAcls: remove access rules by filters (KIP-140).

v1 patterns of resource names (KIP-290)   v2 flexible   v3 users as resources (KIP-373)
"""

from headgate.protocol.schema import Message, Struct, array, int8, int16, int32, nullable_string, string, v


class DeleteAclsFilter(Struct):
    """A filter; null matches any name, principal or host. Numbers are those of DescribeAcls."""

    resource_type_filter: int8 = v("0+")
    resource_name_filter: nullable_string = v("0+")
    pattern_type_filter: int8 = v("1+", default=3)
    principal_filter: nullable_string = v("0+")
    host_filter: nullable_string = v("0+")
    operation: int8 = v("0+")
    permission_type: int8 = v("0+")


class DeleteAclsRequest(Message, key=31, versions="0-3", flexible="2+"):
    """Remove the rules that match any of the filters."""

    filters: array[DeleteAclsFilter] = v("0+")


class DeleteAclsMatchingAcl(Struct):
    """A matching rule, and the error of its removal."""

    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    resource_type: int8 = v("0+")
    resource_name: string = v("0+")
    pattern_type: int8 = v("1+", default=3)
    principal: string = v("0+")
    host: string = v("0+")
    operation: int8 = v("0+")
    permission_type: int8 = v("0+")


class DeleteAclsFilterResult(Struct):
    """The rules that match a filter, or its error."""

    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    matching_acls: array[DeleteAclsMatchingAcl] = v("0+")


class DeleteAclsResponse(Message, key=31, response=True, versions="0-3", flexible="2+"):
    """One result for each filter of the request, in its order."""

    throttle_time_ms: int32 = v("0+")
    filter_results: array[DeleteAclsFilterResult] = v("0+")
