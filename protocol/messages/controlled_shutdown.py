"""ControlledShutdown: a broker that will stop asks the controller to move its leaderships.

v0 a request header without client id   v2 broker epochs (KIP-380)   v3 flexible

Clusters with ZooKeeper use it; Kafka 4 has removed it.
"""

from headgate.protocol.schema import Message, Struct, array, int16, int32, int64, string, v


class ControlledShutdownRequest(Message, key=7, versions="0-3", flexible="3+"):
    """Move the leaderships of this broker."""

    broker_id: int32 = v("0+")
    broker_epoch: int64 = v("2+", default=-1)


class RemainingPartition(Struct):
    """A partition that was not moved."""

    topic_name: string = v("0+")
    partition_index: int32 = v("0+")


class ControlledShutdownResponse(Message, key=7, response=True, versions="0-3", flexible="3+"):
    """The partitions that the broker still leads. It asks again until none is left."""

    error_code: int16 = v("0+")
    remaining_partitions: array[RemainingPartition] = v("0+")
