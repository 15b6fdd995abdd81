"""DescribeCluster: the brokers and the controller (KIP-700).

v1 endpoint type (KIP-919)   v2 fenced brokers (KIP-1073)
"""

from headgate.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, nullable_string, string, v

BROKERS = 1
CONTROLLERS = 2


class DescribeClusterRequest(Message, key=60, versions="0-2", flexible="0+"):
    """Ask for the cluster. `endpoint_type`: a constant of this module."""

    include_cluster_authorized_operations: boolean = v("0+")
    endpoint_type: int8 = v("1+", default=BROKERS)
    include_fenced_brokers: boolean = v("2+")


class DescribeClusterBroker(Struct):
    """A broker, at its address of the client's listener."""

    broker_id: int32 = v("0+")
    host: string = v("0+")
    port: int32 = v("0+")
    rack: nullable_string = v("0+", default=None)
    is_fenced: boolean = v("2+")


class DescribeClusterResponse(Message, key=60, response=True, versions="0-2", flexible="0+"):
    """The cluster. The least value of `cluster_authorized_operations`: the client did not ask for them."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    endpoint_type: int8 = v("1+", default=BROKERS)
    cluster_id: string = v("0+")
    controller_id: int32 = v("0+", default=-1)
    brokers: array[DescribeClusterBroker] = v("0+")
    cluster_authorized_operations: int32 = v("0+", default=-0x8000_0000)
