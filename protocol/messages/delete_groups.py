"""DeleteGroups: delete groups without members, with their offsets (KIP-229).

v2 flexible   v3 error messages
"""

from headgate.protocol.schema import Message, Struct, array, int16, int32, nullable_string, string, v


class DeleteGroupsRequest(Message, key=42, versions="0-3", flexible="2+"):
    """Delete groups by name."""

    groups_names: array[string] = v("0+")


class DeletableGroupResult(Struct):
    """The result for a group; NON_EMPTY_GROUP if it has members."""

    group_id: string = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("3+", default=None)


class DeleteGroupsResponse(Message, key=42, response=True, versions="0-3", flexible="2+"):
    """One result for each group of the request."""

    throttle_time_ms: int32 = v("0+")
    results: array[DeletableGroupResult] = v("0+")
