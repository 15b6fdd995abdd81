"""New topics, deletions and new partitions: what is checked, and the records of a change."""

from collections.abc import Callable

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image, Node
from headgate.gateway.metadata.planning.topics import NewTopic, create_partitions, create_topic, delete_topic
from headgate.gateway.metadata.tests.test_new_topics import FirstBroker
from headgate.protocol.errors import ErrorCode, KafkaError

CONFIG = BrokerConfig.load("num.partitions=4\ndefault.replication.factor=5")
KEEPING = BrokerConfig.load("delete.topic.enable=false")
BROKERS = Image.empty(brokers=[Node(number, None, {}) for number in (1, 2, 3)])
FIRST = FirstBroker()
A_ID, B_ID = b"a" * 16, b"b" * 16


def create(wanted: NewTopic, image: Image = BROKERS) -> Image:
    return image.apply_all(create_topic(image, CONFIG, B_ID, wanted, FIRST))


IMAGE = BROKERS.apply_all(create_topic(BROKERS, CONFIG, A_ID, NewTopic("a.b", 2, 2), FIRST))


def test_a_topic_has_the_numbers_of_the_request() -> None:
    topic = create(NewTopic("t", 3, 2, {"retention.ms": "5"})).topics["t"]
    assert [state.replicas for state in topic.partitions] == [(1, 2), (2, 3), (3, 1)]
    assert (topic.topic_id, topic.configs) == (B_ID, {"retention.ms": "5"})


def test_a_topic_has_the_defaults() -> None:
    alone = Image.empty(controller_id=1, brokers=[Node(1, None, {})])
    assert [state.replicas for state in create(NewTopic("t"), alone).topics["t"].partitions] == [(1,)] * 4
    with pytest.raises(KafkaError, match="Replication factor: 5 larger than available brokers: 3"):
        create(NewTopic("t"))


def test_a_client_may_assign_the_replicas() -> None:
    topic = create(NewTopic("t", assignments={1: [3], 0: [2]})).topics["t"]
    assert [state.leader for state in topic.partitions] == [2, 3]


def test_a_deleted_topic_is_gone() -> None:
    assert not IMAGE.apply_all(delete_topic(IMAGE, CONFIG, "a.b")).topics


def test_new_partitions_are_placed_behind_the_present_ones() -> None:
    def replicas(image: Image) -> list[tuple[int, ...]]:
        return [state.replicas for state in image.topics["a.b"].partitions]

    assert replicas(IMAGE.apply_all(create_partitions(IMAGE, "a.b", 4, FIRST))) == [(1, 2), (2, 3), (3, 1), (1, 3)]
    assigned = create_partitions(IMAGE, "a.b", 3, FIRST, {2: [1, 3]})
    assert replicas(IMAGE.apply_all(assigned)) == [(1, 2), (2, 3), (1, 3)]


@pytest.mark.parametrize(
    "plan, code",
    [
        (lambda: create(NewTopic("a.b"), IMAGE), ErrorCode.TOPIC_ALREADY_EXISTS),
        (lambda: create(NewTopic("a_b"), IMAGE), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (lambda: create(NewTopic("a b")), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (lambda: create(NewTopic("t", 0)), ErrorCode.INVALID_PARTITIONS),
        (lambda: create(NewTopic("t", 1, 4)), ErrorCode.INVALID_REPLICATION_FACTOR),
        (lambda: create(NewTopic("t", configs={"x": "1"})), ErrorCode.INVALID_CONFIG),
        (lambda: create(NewTopic("t", assignments={0: [7]})), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (lambda: create(NewTopic("t", 1, assignments={0: [1]})), ErrorCode.INVALID_REQUEST),
        (lambda: delete_topic(IMAGE, CONFIG, "t"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda: delete_topic(IMAGE, KEEPING, "a.b"), ErrorCode.TOPIC_DELETION_DISABLED),
        (lambda: create_partitions(IMAGE, "t", 8, FIRST), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda: create_partitions(IMAGE, "a.b", 2, FIRST), ErrorCode.INVALID_PARTITIONS),
        (lambda: create_partitions(IMAGE, "a.b", 4, FIRST, {2: [1, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (lambda: create_partitions(IMAGE, "a.b", 3, FIRST, {2: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_changes_that_are_refused(plan: Callable[[], object], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        plan()
    assert caught.value.code is code
