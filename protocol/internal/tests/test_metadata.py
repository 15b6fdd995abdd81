"""Records of the metadata log: the bytes that Apache Kafka 4.1 writes."""

import pytest

from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal.metadata import (
    TOPIC_RESOURCE,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode,
    decode_known,
    encode,
    record_type,
)

TOPIC_ID = bytes(range(1, 17))

# Written by org.apache.kafka.metadata.MetadataRecordSerde.
KAFKAS: list[tuple[MetadataRecord, str]] = [
    (TopicRecord(name="orders", topic_id=TOPIC_ID), "010200076f72646572730102030405060708090a0b0c0d0e0f1000"),
    (
        PartitionRecord(
            partition_id=3, topic_id=TOPIC_ID, replicas=[0], isr=[0], leader=0, leader_epoch=5, partition_epoch=6
        ),
        "010300000000030102030405060708090a0b0c0d0e0f1002000000000200000000010100000000000000050000000600",
    ),
    (
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="orders", name="retention.ms", value="1000"),
        "01040002076f72646572730d726574656e74696f6e2e6d73053130303000",
    ),
    (
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="orders", name="retention.ms", value=None),
        "01040002076f72646572730d726574656e74696f6e2e6d730000",
    ),
    (RemoveTopicRecord(topic_id=TOPIC_ID), "0109000102030405060708090a0b0c0d0e0f1000"),
    (FeatureLevelRecord(name="group.version", feature_level=1), "010c000e67726f75702e76657273696f6e000100"),
    (
        ProducerIdsRecord(broker_id=0, broker_epoch=-1, next_producer_id=2000),
        "010f0000000000ffffffffffffffff00000000000007d000",
    ),
    (
        RegisterBrokerRecord(broker_id=1, incarnation_id=TOPIC_ID, broker_epoch=7, rack="r", fenced=False),
        "010000000000010102030405060708090a0b0c0d0e0f100000000000000007010102720000",
    ),
]


@pytest.mark.parametrize("record, kafkas", KAFKAS)
def test_records_have_kafkas_bytes(record: MetadataRecord, kafkas: str) -> None:
    assert encode(record).hex() == kafkas
    assert decode(bytes.fromhex(kafkas)) == record


def test_newer_versions_of_a_partition_are_read() -> None:
    record = PartitionRecord(partition_id=1, topic_id=TOPIC_ID, directories=[bytes(16)], last_known_elr=[2])
    assert decode(encode(record, 2)) == record


@pytest.mark.parametrize(
    "value, sentence",
    [
        ("", "ends within its first three numbers"),
        ("0102", "ends within its first three numbers"),
        ("020200", "frame version 2, not 1"),
        ("010500", "type 5, version 0, which is not known here"),
        ("010201", "type 2, version 1, which is not known here"),
        ("01ff7f00", "type 16383, version 0"),
        ("01ffff0100", "a number that is too large"),
        ("0109000102030405060708090a0b0c0d0e0f100000", "1 bytes follow a metadata record of type 9"),
        ("010900010203", ""),
    ],
)
def test_invalid_bytes_are_refused(value: str, sentence: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        decode(bytes.fromhex(value))
    assert sentence in str(caught.value)


@pytest.mark.parametrize("record, kafkas", KAFKAS)
def test_known_records_of_kafkas_log_are_decoded(record: MetadataRecord, kafkas: str) -> None:
    assert decode_known(bytes.fromhex(kafkas)) == record
    newer = bytes.fromhex(kafkas)[:-1] + bytes.fromhex("01630161")  # a tagged field 99 of one byte
    if not isinstance(record, PartitionRecord):
        assert decode_known(newer) is not None


@pytest.mark.parametrize("value", ["010500", "010201", "01ff7f00", "020200"])
def test_unknown_records_of_kafkas_log_are_none(value: str) -> None:
    assert decode_known(bytes.fromhex(value)) is None
    assert record_type(bytes.fromhex(value)) == {"010500": 5, "010201": 2, "01ff7f00": 16383, "020200": 2}[value]


def test_invalid_records_of_kafkas_log_are_refused() -> None:
    with pytest.raises(MalformedRequest):
        decode_known(bytes.fromhex("010900010203"))
