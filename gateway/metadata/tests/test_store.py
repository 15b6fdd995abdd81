"""Changes of a store that other brokers change as well: order, lost races, and what listeners hear."""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image, Node
from headgate.gateway.metadata.planning.producer_ids import BLOCK_SIZE
from headgate.gateway.metadata.planning.topics import NewTopic, create_topic
from headgate.gateway.metadata.records import config_records
from headgate.gateway.metadata.store import Change
from headgate.gateway.runtime.tasks import Task
from headgate.gateway.tests.shared_metadata import Cluster, SharedMetadata
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import (
    BROKER_RESOURCE,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
)

OTHER_ID = b"o" * 16
CONFIG = BrokerConfig.load("")
BROKERS = Image.empty(brokers=[Node(0, None, {})])


class Broker:
    """A broker of a cluster. What it submits waits for `write`, what is prepared for `resume`, if a test says so."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.config = BrokerConfig.load("")
        self.heard: list[set[str]] = []
        self.prepared: list[tuple[set[str], Callable[[None], None]]] = []
        self.prepares_at_once = True
        self.metadata = SharedMetadata(self.cluster, self.config, Random(0), self._prepare)
        self.metadata.on_change(self._hear)

    def _hear(self, old: Image, new: Image, names: Collection[str]) -> None:
        assert new is self.metadata.image
        differing = {name for name in {*old.topics, *new.topics} if old.topics.get(name) != new.topics.get(name)}
        assert differing <= set(names)
        if names:
            self.heard.append(set(names))

    def _prepare(self, old: Image, new: Image, names: Collection[str]) -> Task[None]:
        assert old is self.metadata.image
        if names and not self.prepares_at_once:
            yield lambda resume: self.prepared.append((set(names), resume))

    def hold(self) -> SharedMetadata:
        self.metadata.is_held = True
        return self.metadata


@pytest.fixture
def broker() -> Broker:
    return Broker()


def topic(name: str, topic_id: bytes = OTHER_ID, partitions: int = 1) -> list[MetadataRecord]:
    """A topic as another broker creates it."""
    return create_topic(BROKERS, CONFIG, topic_id, NewTopic(name, partitions, 1), Random(0))


def test_a_change_of_another_broker_is_seen_and_heard(broker: Broker) -> None:
    broker.cluster.change(*topic("other", partitions=2))
    assert len(broker.metadata.image.topics["other"].partitions) == 2
    broker.cluster.change(RemoveTopicRecord(topic_id=OTHER_ID))
    assert not broker.metadata.image.topics
    assert broker.heard == [{"other"}, {"other"}]


def test_what_is_planned_stands_upon_a_change_that_came_first(broker: Broker) -> None:
    metadata = broker.hold()
    change = metadata.create_topic("ours")
    broker.cluster.change(*topic("other"))
    assert set(metadata.image.topics) == {"other"}
    assert set(metadata.planned.topics) == {"other", "ours"}
    metadata.write()
    assert (change.is_settled, change.error) == (True, None)
    assert metadata.image is change.image
    assert set(metadata.image.topics) == {"other", "ours"}
    assert broker.heard == [{"other"}, {"ours"}]


def test_who_creates_a_topic_second_is_told_that_it_exists(broker: Broker) -> None:
    metadata = broker.hold()
    topic_change = metadata.create_topic("t")
    upon_it = metadata.create_partitions("t", 5)
    beside_it = metadata.create_topic("u")
    broker.cluster.change(*topic("t", partitions=2))
    assert len(metadata.planned.topics["t"].partitions) == 2
    metadata.write()
    errors = [change.error and change.error.code for change in (topic_change, upon_it, beside_it)]
    assert errors == [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NOT_CONTROLLER, None]
    assert metadata.image.topics["t"].topic_id == OTHER_ID
    assert len(metadata.image.topics["t"].partitions) == 2
    assert set(metadata.image.topics) == {"t", "u"}
    assert metadata.planned is metadata.image
    assert metadata.image == broker.cluster.image


def test_a_topic_that_another_broker_deletes_cannot_be_changed(broker: Broker) -> None:
    broker.cluster.change(*topic("t"))
    metadata = broker.hold()
    changes = [
        metadata.change_topic_configs("t", {"retention.ms": "5"}),
        metadata.create_partitions("t", 3),
        metadata.delete_topic("t"),
    ]
    broker.cluster.change(RemoveTopicRecord(topic_id=OTHER_ID))
    assert not metadata.planned.topics
    metadata.write()
    assert [change.error and change.error.code for change in changes] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3
    assert not metadata.image.topics


def test_a_block_of_producer_ids_is_taken_once(broker: Broker) -> None:
    metadata = broker.hold()
    _, change = metadata.take_producer_ids()
    broker.cluster.change(ProducerIdsRecord(broker_id=1, next_producer_id=BLOCK_SIZE))
    metadata.write()
    assert change.error is not None
    block, _ = metadata.take_producer_ids()
    assert block.start == BLOCK_SIZE


def test_a_change_of_another_broker_waits_for_what_was_written_before(broker: Broker) -> None:
    broker.prepares_at_once = False
    ours = broker.metadata.create_topic("ours")
    broker.cluster.change(*topic("other"))
    later = broker.metadata.create_topic("later")
    assert [names for names, _ in broker.prepared] == [{"ours"}]
    assert not broker.metadata.image.topics
    assert set(broker.metadata.written_image.topics) == {"ours", "other", "later"}
    for wanted in ({"ours"}, {"other"}, {"later"}):
        names, resume = broker.prepared.pop(0)
        assert names == wanted
        resume(None)
    assert list(broker.metadata.image.topics) == ["ours", "other", "later"]
    assert (ours.is_settled, later.is_settled) == (True, True)
    assert broker.heard == [{"ours"}, {"other"}, {"later"}]


def test_without_records_a_change_settles_with_the_last_one(broker: Broker) -> None:
    metadata = broker.hold()
    assert metadata.submit(()).is_settled
    metadata.create_topic("t")
    last = metadata.submit(())
    validated = metadata.create_topic("u", 3, validate_only=True)
    assert len(validated.image.topics["u"].partitions) == 3
    assert "u" not in metadata.planned.topics
    assert not last.is_settled
    assert not validated.is_settled
    broker.cluster.change(*topic("t"))
    metadata.write()
    for change in (last, validated):
        assert change.is_settled
        assert change.error is not None, "it was planned upon what failed"


def test_a_change_of_another_broker_precedes_all_unwritten_ones(broker: Broker) -> None:
    """What the store refused at once does not count."""
    metadata = broker.hold()
    first = metadata.create_topic("first")
    metadata.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")
    with pytest.raises(KafkaError, match="no room"):
        metadata.create_topic("refused")
    metadata.refuses = None
    broker.cluster.change(*topic("other"))
    assert (list(metadata.image.topics), first.is_settled) == (["other"], False)
    assert list(metadata.planned.topics) == ["other", "first"]
    metadata.write()
    assert (first.is_settled, first.error) == (True, None)
    assert metadata.image == broker.cluster.image


def test_settings_that_another_broker_changes_take_effect(broker: Broker) -> None:
    broker.cluster.change(*config_records("", {"log.retention.ms": "5000"}, BROKER_RESOURCE))
    assert broker.config.log_config({}).retention_ms == 5000


def test_listeners_are_called_in_order_and_may_change_more(broker: Broker) -> None:
    order: list[str] = []

    def first(old: Image, new: Image, names: Collection[str]) -> None:
        order.append(f"first {sorted(names)}")
        if "a" in names:
            broker.metadata.create_topic("b")

    broker.metadata.on_change(first)
    broker.metadata.on_change(lambda _old, _new, names: order.append(f"second {sorted(names)}"))
    broker.metadata.create_topic("a")
    heard = [line for line in order if "[]" not in line]
    assert heard == ["first ['a']", "second ['a']", "first ['b']", "second ['b']"]


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_of_two_brokers(seed: int) -> None:
    """What is seen is the store; each change of ours succeeds as it was planned, or not at all."""
    random, broker = Random(seed), Broker()
    metadata, cluster = broker.hold(), broker.cluster
    changes: list[Change] = []
    failed = 0
    for number in range(200):
        name = f"t{random.randrange(6)}"
        match random.randrange(5):
            case 0:
                metadata.write()
                failed += sum(change.error is not None for change in changes)
                assert all(change.is_settled for change in changes)
                changes.clear()
                assert metadata.image == cluster.image
                assert metadata.planned is metadata.image
            case 1 if name in cluster.image.topics:
                cluster.change(RemoveTopicRecord(topic_id=cluster.image.topics[name].topic_id))
            case 1:
                cluster.change(*topic(name, number.to_bytes(16, "big")))
            case 2 if name in metadata.planned.topics:
                changes.append(metadata.delete_topic(name))
            case 2:
                changes.append(metadata.create_topic(name))
            case _ if name in metadata.planned.topics:
                changes.append(metadata.change_topic_configs(name, {"retention.ms": str(number)}))
        assert metadata.image == cluster.image or changes
    assert failed > 0
