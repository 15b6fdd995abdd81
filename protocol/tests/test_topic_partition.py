"""Partitions by topic and number."""

from headgate.protocol.topic_partition import TopicPartition, by_topic

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_partitions_show_as_kafka_writes_them() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"


def test_partitions_are_grouped_by_topic() -> None:
    assert by_topic([B0, A1, A0, A1]) == {"b": [B0], "a": [A1, A0]}
