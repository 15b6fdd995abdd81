"""CreateTopics: create topics, each with a result of its own.

v1 validate_only, error messages   v2 throttle   v4 defaults for partitions and replicas (KIP-464)   v5 flexible,
configs in the response (KIP-525)   v6 quota errors (KIP-599)   v7 topic ids (KIP-516)
"""

from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    uuid,
    v,
)


class CreatableReplicaAssignment(Struct):
    """The replicas of a partition, the preferred leader first."""

    partition_index: int32 = v("0+")
    broker_ids: array[int32] = v("0+")


class CreatableTopicConfig(Struct):
    """A config of the topic by Kafka's name; null is the default."""

    name: string = v("0+")
    value: nullable_string = v("0+")


class CreatableTopic(Struct):
    """A topic to create. Counts are -1 for the broker's default, and with `assignments`."""

    name: string = v("0+")
    num_partitions: int32 = v("0+")
    replication_factor: int16 = v("0+")
    assignments: array[CreatableReplicaAssignment] = v("0+")
    configs: array[CreatableTopicConfig] = v("0+")


class CreateTopicsRequest(Message, key=19, versions="0-7", flexible="5+"):
    """Create topics, or with `validate_only` only validate the request."""

    topics: array[CreatableTopic] = v("0+")
    timeout_ms: int32 = v("0+", default=60_000)
    validate_only: boolean = v("1+")


class CreatableTopicConfigs(Struct):
    """A config of the new topic. `config_source`: as in DescribeConfigs."""

    name: string = v("5+")
    value: nullable_string = v("5+")
    read_only: boolean = v("5+")
    config_source: int8 = v("5+", default=-1)
    is_sensitive: boolean = v("5+")


class CreatableTopicResult(Struct):
    """The result for a topic. If the client may not see the configs, `configs` is null."""

    name: string = v("0+")
    topic_id: uuid = v("7+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("1+")
    topic_config_error_code: int16 = v("5+", tag=0)
    num_partitions: int32 = v("5+", default=-1)
    replication_factor: int16 = v("5+", default=-1)
    configs: nullable_array[CreatableTopicConfigs] = v("5+")


class CreateTopicsResponse(Message, key=19, response=True, versions="0-7", flexible="5+"):
    """One result for each topic of the request."""

    throttle_time_ms: int32 = v("2+")
    topics: array[CreatableTopicResult] = v("0+")
