"""DescribeProducers; the rest of its answers is compared with Kafka in `like_kafka`."""

from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headgate.protocol.records.batch import Record, build


def test_a_partition_is_told_once_however_often_it_is_named(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    batch = build([Record(timestamp=9, value=b"x")] * 3, producer_id=7, producer_epoch=2, base_sequence=4)
    node.services.partitions.get("t", 0).append(memoryview(batch), -1, 10)
    twice = [TopicRequest("t", [0, 0, 1, 0]), TopicRequest("t", [0])]
    (topic,) = node.ask(DescribeProducersRequest(twice), 0).topics
    here, missing = topic.partitions
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (producer,) = here.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 6)
    assert (producer.last_timestamp, producer.coordinator_epoch, producer.current_txn_start_offset) == (9, -1, -1)


def test_no_transactional_id_is_known(node: HandlerBroker) -> None:
    rows = node.ask(DescribeTransactionsRequest(["a", "b", "a"]), 0).transaction_states
    assert [(row.transactional_id, row.error_code) for row in rows] == [
        ("a", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("b", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
    ]
