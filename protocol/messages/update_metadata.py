"""UpdateMetadata: the controller sends a broker the metadata of the cluster.

v1 many listeners a broker (KIP-2)   v2 racks (KIP-36)   v3 names of listeners (KIP-103)   v4 offline replicas (KIP-112)
v5 broker epochs (KIP-380), partitions by topic   v6 flexible   v7 topic ids (KIP-516)
v8 controllers of KRaft, full and incremental requests (KIP-866)

Clusters with ZooKeeper use it; Kafka 4 has removed it.
"""

from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    nullable_string,
    string,
    uuid,
    v,
)

UNKNOWN_TYPE = 0
INCREMENTAL = 1
FULL = 2


class UpdateMetadataPartitionState(Struct):
    """The state of a partition at the controller. `leader` is -1 for none, -2 during a deletion."""

    topic_name: string = v("0-4")
    partition_index: int32 = v("0+")
    controller_epoch: int32 = v("0+")
    leader: int32 = v("0+")
    leader_epoch: int32 = v("0+")
    isr: array[int32] = v("0+")
    zk_version: int32 = v("0+")
    replicas: array[int32] = v("0+")
    offline_replicas: array[int32] = v("4+")


class UpdateMetadataTopicState(Struct):
    """The partitions of a topic."""

    topic_name: string = v("5+")
    topic_id: uuid = v("7+")
    partition_states: array[UpdateMetadataPartitionState] = v("5+")


class UpdateMetadataEndpoint(Struct):
    """A listener of a broker; security protocol 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    port: int32 = v("1+")
    host: string = v("1+")
    listener: string = v("3+")
    security_protocol: int16 = v("1+")


class UpdateMetadataBroker(Struct):
    """A live broker, with all its listeners."""

    id: int32 = v("0+")
    v0_host: string = v("0")
    v0_port: int32 = v("0")
    endpoints: array[UpdateMetadataEndpoint] = v("1+")
    rack: nullable_string = v("2+")


class UpdateMetadataRequest(Message, key=6, versions="0-8", flexible="6+"):
    """The changed partitions, and all live brokers."""

    controller_id: int32 = v("0+")
    is_kraft_controller: boolean = v("8+")
    type: int8 = v("8+", tag=0)
    controller_epoch: int32 = v("0+")
    broker_epoch: int64 = v("5+", default=-1)
    ungrouped_partition_states: array[UpdateMetadataPartitionState] = v("0-4")
    topic_states: array[UpdateMetadataTopicState] = v("5+")
    live_brokers: array[UpdateMetadataBroker] = v("0+")


class UpdateMetadataResponse(Message, key=6, response=True, versions="0-8", flexible="6+"):
    """The result of the request."""

    error_code: int16 = v("0+")
