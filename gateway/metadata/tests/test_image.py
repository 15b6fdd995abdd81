"""The image: a fold of records, without effect on the images before."""

import pytest

from headgate.gateway.metadata import image as image_module
from headgate.gateway.metadata.image import Image, Node, PartitionState, changed_topics
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)

A, B = b"a" * 16, b"b" * 16
ALONE = PartitionState(leader=0, leader_epoch=0, replicas=(0,), isr=(0,), partition_epoch=0)


def partition(topic_id: bytes, index: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index, topic_id=topic_id, replicas=[0], isr=[0], leader=0, leader_epoch=0, partition_epoch=0
    )


def config(topic: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name=name, value=value)


def test_an_empty_cluster() -> None:
    image = Image.empty("cluster", 3, [Node(3, "rack", {})])
    assert (image.cluster_id, image.controller_id, image.brokers[3].rack) == ("cluster", 3, "rack")
    assert not image.topics


def test_a_topic_comes_with_partitions_and_configs() -> None:
    image = Image.empty().apply(
        TopicRecord(name="a", topic_id=A), partition(A, 0), partition(A, 1), config("a", "x", "1")
    )
    topic = image.topic("a")
    assert topic == image.topic_by_id(A)
    assert topic.partitions == (ALONE, ALONE)
    assert topic.configs == {"x": "1"}
    assert not topic.is_internal


def test_the_image_before_stays_as_it_was() -> None:
    before = Image.empty().apply(TopicRecord(name="a", topic_id=A), partition(A, 0), config("a", "x", "1"))
    kept = before.topics["a"]
    after = before.apply(partition(A, 1), config("a", "x", "2"), TopicRecord(name="b", topic_id=B))
    assert before.topics == {"a": kept}
    assert (len(kept.partitions), kept.configs) == (1, {"x": "1"})
    assert (len(after.topics["a"].partitions), after.topics["a"].configs) == (2, {"x": "2"})


def test_which_topics_changed_is_known_from_the_records() -> None:
    before = Image.empty().apply(
        TopicRecord(name="a", topic_id=A), TopicRecord(name="b", topic_id=B), TopicRecord(name="c", topic_id=b"c" * 16)
    )
    changes: dict[str, tuple[MetadataRecord, ...]] = {
        "d": (TopicRecord(name="d", topic_id=b"d" * 16), partition(b"d" * 16, 0), config("d", "x", "1")),
        "a": (partition(A, 0),),
        "b": (config("b", "x", "1"),),
        "c": (RemoveTopicRecord(topic_id=b"c" * 16),),
        "": (FeatureLevelRecord(name="f", feature_level=1), ConfigRecord(BROKER_RESOURCE, "a", "x", "1")),
    }
    for name, records in changes.items():
        after = before.apply(*records)
        differ = {one for one in "abcd" if before.topics.get(one) is not after.topics.get(one)}
        assert changed_topics(records, before, after) == differ == set(name)
    everything = [record for records in changes.values() for record in records]
    assert changed_topics(everything, before, before.apply_all(everything)) == set("abcd")


def test_topics_that_did_not_change_are_the_same_objects() -> None:
    before = Image.empty().apply(TopicRecord(name="a", topic_id=A), partition(A, 0))
    after = before.apply(TopicRecord(name="b", topic_id=B))
    assert after.topics["a"] is before.topics["a"]


def test_partitions_that_are_alike_are_one_object() -> None:
    image = Image.empty().apply(TopicRecord(name="a", topic_id=A), *(partition(A, index) for index in range(3)))
    first, *others = image.topics["a"].partitions
    assert all(state is first for state in others)


def test_a_partition_is_replaced() -> None:
    changed = PartitionRecord(
        partition_id=0, topic_id=A, replicas=[0, 1], isr=[0], leader=-1, leader_epoch=4, partition_epoch=9
    )
    image = Image.empty().apply(TopicRecord(name="a", topic_id=A), partition(A, 0), partition(A, 1)).apply(changed)
    assert image.topics["a"].partitions == (PartitionState(-1, 4, (0, 1), (0,), 9), ALONE)


def test_a_deleted_topic_is_gone_and_its_name_free() -> None:
    image = Image.empty().apply(TopicRecord(name="a", topic_id=A), partition(A, 0), config("a", "x", "1"))
    image = image.apply(RemoveTopicRecord(topic_id=A), TopicRecord(name="a", topic_id=B))
    assert (image.topics["a"].topic_id, image.topics["a"].partitions, image.topics["a"].configs) == (B, (), {})
    with pytest.raises(KafkaError) as caught:
        image.topic_by_id(A)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_ID


def test_a_topic_created_and_deleted_in_one_change_leaves_nothing() -> None:
    image = Image.empty().apply(TopicRecord(name="a", topic_id=A), partition(A, 0), RemoveTopicRecord(topic_id=A))
    assert image == Image.empty()


def test_unknown_topics() -> None:
    with pytest.raises(KafkaError) as caught:
        Image.empty().topic("a")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_configs_features_and_producer_ids() -> None:
    broker = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="0", name="x", value="1")
    image = Image.empty().apply(
        broker,
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="other", feature_level=2),
        FeatureLevelRecord(name="other", feature_level=0),
        ProducerIdsRecord(next_producer_id=1000),
        ProducerIdsRecord(next_producer_id=2000),
    )
    assert image.configs == {(BROKER_RESOURCE, "0"): {"x": "1"}}
    assert image.features == {"group.version": 1, "other": 0}
    assert image.next_producer_id == 2000


def test_a_config_of_null_is_removed() -> None:
    image = Image.empty().apply(TopicRecord(name="a", topic_id=A), config("a", "x", "1"), config("a", "x", None))
    assert image.topics["a"].configs == {}


@pytest.mark.parametrize(
    "name, internal", [("__consumer_offsets", True), ("__transaction_state", True), ("__mine", False)]
)
def test_internal_topics(name: str, internal: bool) -> None:
    assert Image.empty().apply(TopicRecord(name=name, topic_id=A)).topics[name].is_internal is internal


@pytest.mark.parametrize(
    "record, sentence",
    [
        (TopicRecord(name="a", topic_id=B), "exists already"),
        (partition(B, 0), "no topic has the id"),
        (partition(A, 2), "partition 2 of a topic that has 1"),
        (partition(A, -1), "partition -1 of a topic that has 1"),
        (config("b", "x", "1"), "which does not exist"),
        (RemoveTopicRecord(topic_id=B), "no topic has the id"),
    ],
)
def test_records_that_do_not_fit(record: MetadataRecord, sentence: str) -> None:
    image = Image.empty().apply(TopicRecord(name="a", topic_id=A), partition(A, 0))
    with pytest.raises(ValueError, match=sentence):
        image.apply(record)


def test_ten_thousand_partitions_in_one_change() -> None:
    records: list[MetadataRecord] = [TopicRecord(name="a", topic_id=A)]
    records += [partition(A, index) for index in range(10_000)]
    image = Image.empty().apply_all(records)
    later = image.apply(TopicRecord(name="b", topic_id=B))
    assert len(image.topics["a"].partitions) == 10_000
    assert later.topics["a"].partitions is image.topics["a"].partitions, "what comes later does not copy them"


def registered(node_id: int = 0) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id=node_id)


def epochs(image: Image, name: str) -> list[tuple[int, int]]:
    return [(state.leader_epoch, state.partition_epoch) for state in image.topics[name].partitions]


def test_a_registration_raises_the_epochs_of_what_that_broker_leads() -> None:
    led_by_5 = PartitionRecord(partition_id=1, topic_id=A, replicas=[5], isr=[5], leader=5, leader_epoch=3)
    before = Image.empty().apply(TopicRecord(name="a", topic_id=A), partition(A, 0), led_by_5)
    assert epochs(before.apply(registered(0)), "a") == [(1, 1), (3, -1)]
    assert epochs(before.apply(registered(5), registered(5)), "a") == [(0, 0), (5, 1)]
    assert epochs(before.apply(registered(6)), "a") == epochs(before, "a")


def test_only_what_is_there_at_a_registration_gets_a_higher_epoch() -> None:
    records: list[MetadataRecord] = [
        registered(),
        TopicRecord(name="a", topic_id=A),
        partition(A, 0),
        registered(),
        partition(A, 1),
        registered(),
        TopicRecord(name="b", topic_id=B),
        partition(B, 0),
    ]
    one_by_one = Image.empty()
    for record in records:
        one_by_one = one_by_one.apply(record)
    at_once = Image.empty().apply_all(records)
    assert at_once == one_by_one
    assert (epochs(at_once, "a"), epochs(at_once, "b")) == ([(2, 2), (1, 1)], [(0, 0)])


def test_a_partition_that_is_replaced_has_the_epochs_of_its_record() -> None:
    """As it is written while a broker runs: what was registered before is in it."""
    replaced = PartitionRecord(
        partition_id=0, topic_id=A, replicas=[0], isr=[0], leader=0, leader_epoch=7, partition_epoch=9
    )
    image = Image.empty().apply(TopicRecord(name="a", topic_id=A), partition(A, 0), registered(), registered())
    after = image.apply(registered(), replaced)
    assert epochs(after, "a") == [(7, 9)]
    assert epochs(after.apply(registered()), "a") == [(8, 10)]


def test_after_a_registration_equal_partitions_are_one_object() -> None:
    image = Image.empty().apply(
        *(TopicRecord(name=name, topic_id=topic_id) for name, topic_id in (("a", A), ("b", B))),
        *(partition(A, index) for index in range(3)),
        registered(),
        partition(A, 3),
        partition(B, 0),
        partition(B, 1),
        registered(),
    )
    raised = [*image.topics["a"].partitions[:3]]
    fresh = [image.topics["a"].partitions[3], *image.topics["b"].partitions]
    assert (len({id(state) for state in raised}), len({id(state) for state in fresh})) == (1, 1)


def test_many_registrations_raise_each_partition_once(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[int] = []
    raise_by = image_module.raised_by

    def counted(state: PartitionState, count: int) -> PartitionState:
        raised.append(count)
        return raise_by(state, count)

    monkeypatch.setattr(image_module, "raised_by", counted)
    image = Image.empty().apply(
        TopicRecord(name="a", topic_id=A), *(partition(A, index) for index in range(100)), *[registered()] * 1000
    )
    assert raised == [1000]
    assert epochs(image, "a") == [(1000, 1000)] * 100


def test_a_registration_may_change_every_topic() -> None:
    before = Image.empty().apply(TopicRecord(name="a", topic_id=A), partition(A, 0))
    assert changed_topics([registered()], before, before.apply(registered())) == {"a"}
