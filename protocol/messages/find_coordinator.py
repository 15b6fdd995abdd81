"""FindCoordinator: the coordinator of a group, a transactional id or a share-partition.

v0 groups only   v1 key types, throttle (KIP-98)   v3 flexible   v4 many keys (KIP-699)   v5 TRANSACTION_ABORTABLE
(KIP-890)   v6 share groups (KIP-932)
"""

from headgate.protocol.schema import Message, Struct, array, int8, int16, int32, nullable_string, string, v

GROUP = 0
TRANSACTION = 1
SHARE = 2


class FindCoordinatorRequest(Message, key=10, versions="0-6", flexible="3+"):
    """Ask by `key`, from v4 by `coordinator_keys`. `key_type`: a constant of this module."""

    key: string = v("0-3")
    key_type: int8 = v("1+")
    coordinator_keys: array[string] = v("4+")


class Coordinator(Struct):
    """The coordinator of one key; node and port are -1 with an error."""

    key: string = v("4+")
    node_id: int32 = v("4+", failed=-1)
    host: string = v("4+")
    port: int32 = v("4+", failed=-1)
    error_code: int16 = v("4+")
    error_message: nullable_string = v("4+")


class FindCoordinatorResponse(Message, key=10, response=True, versions="0-6", flexible="3+"):
    """One coordinator; from v4 one for each key of the request."""

    throttle_time_ms: int32 = v("1+")
    error_code: int16 = v("0-3")
    error_message: nullable_string = v("1-3")
    node_id: int32 = v("0-3", failed=-1)
    host: string = v("0-3")
    port: int32 = v("0-3", failed=-1)
    coordinators: array[Coordinator] = v("4+")
