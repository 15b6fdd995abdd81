"""Records from orders, for each version: as `orders.py` makes them, and as a broker gets them late or in part."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from headgate.gateway.controller.cluster_view import ClusterView, FailedReplica, ListenerEndpoint, LiveBroker
from headgate.gateway.controller.orders import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    Sender,
    Stop,
    leader_and_isr,
    stop_replica,
    update_metadata,
)
from headgate.gateway.controller.received_orders import (
    MAX_PARTITIONS,
    NO_ID,
    PLACEHOLDER,
    OrderedTopic,
    TopicPlan,
    failed_replicas,
    in_pieces,
    is_fenced,
    live_brokers,
    missing_topics,
    ordered_stops,
    ordered_topics,
    plan_topic,
    with_ids,
    with_leaders,
    without_id,
)
from headgate.gateway.controller.tests.clusters import T0, TOPIC_ID, state, view
from headgate.gateway.metadata.image import FailedReplicas, Image, Node, PartitionState
from headgate.gateway.metadata.records import partition_records
from headgate.gateway.tests.builders import over_the_wire
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.metadata import PartitionRecord, RemoveTopicRecord, TopicRecord
from headgate.protocol.messages.leader_and_isr import LeaderAndIsrLiveLeader, LeaderAndIsrRequest
from headgate.protocol.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataRequest
from headgate.protocol.steps import finish
from headgate.protocol.topic_partition import TopicPartition

SENDER = Sender(1, 7, "INTERNAL")
OTHER_ID = b"u" * 16
PRESENT = view(state(1, (1, 3), epoch=4, version=9), state(-1, (2,), (2, 3), epoch=2), state(3, (3,), epoch=5))

T1 = TopicPartition("t", 1)


def plan(image: Image, topic: OrderedTopic, deleted: Collection[bytes] = ()) -> TopicPlan:
    return finish(plan_topic(image, topic, deleted))


def ordered(*states: PartitionState, topic_id: bytes = TOPIC_ID, name: str = "t") -> OrderedTopic:
    return OrderedTopic(name, topic_id, dict(enumerate(states)))


def obeyed(image: Image, request: LeaderAndIsrRequest | UpdateMetadataRequest, ids: Mapping[str, bytes]) -> Image:
    topics = with_ids(image, finish(ordered_topics(request)), ids)
    return image.apply_all(record for topic in topics for record in plan(image, topic).records)


@pytest.mark.parametrize("version", range(8))
def test_leader_and_isr_of_any_version_becomes_the_view(version: int) -> None:
    request = over_the_wire(leader_and_isr(SENDER, 3, None, PRESENT, version), version)  # type: ignore[arg-type]
    assert without_id(Image.empty(), finish(ordered_topics(request))) == ({"t"} if version < 5 else set())
    image = obeyed(Image.empty(), request, {"t": TOPIC_ID})
    assert image.topics == PRESENT.image.topics
    assert obeyed(image, request, {}).topics == image.topics


@pytest.mark.parametrize("version", range(9))
def test_update_metadata_of_any_version_becomes_the_view(version: int) -> None:
    request = over_the_wire(update_metadata(SENDER, 3, None, PRESENT, version), version)  # type: ignore[arg-type]
    image = obeyed(Image.empty(), request, {"t": TOPIC_ID})
    assert image.topics == PRESENT.image.topics
    gone = PRESENT._replace(image=Image.empty())
    request = over_the_wire(update_metadata(SENDER, 3, PRESENT, gone, version), version)  # type: ignore[arg-type]
    assert obeyed(image, request, {}) == Image.empty()
    assert obeyed(Image.empty(), request, {"t": TOPIC_ID}) == Image.empty()


@pytest.mark.parametrize("version", range(4, 9))
def test_offline_replicas_of_live_brokers_are_known(version: int) -> None:
    both = view(state(1, (1,), (1, 2, 4)), state(1, (1,), (1, 2)), live=(1, 2, 3))
    both = both._replace(failed=frozenset((FailedReplica(2, T0), FailedReplica(2, T1))))
    one = both._replace(failed=frozenset((FailedReplica(2, T1),)))
    known: FailedReplicas = {}
    for old, new, wanted in ((None, both, {T0: (2,), T1: (2,)}), (both, one, {T1: (2,)}), (None, one, {T1: (2,)})):
        request = update_metadata(SENDER, 3, old, new, version)
        assert request is not None
        known = finish(failed_replicas(over_the_wire(request, version), known))
        assert known == wanted


def test_unknown_partitions_before_ordered_ones_are_placeholders() -> None:
    third = state(1, (1,))
    found = plan(Image.empty(), OrderedTopic("t", TOPIC_ID, {2: third}))
    image = Image.empty().apply_all(found.records)
    assert image.topics["t"].partitions == (PLACEHOLDER, PLACEHOLDER, third)
    first = state(-1, (), epoch=-1)
    image = image.apply_all(plan(image, ordered(first)).records)
    assert image.topics["t"].partitions == (first, PLACEHOLDER, third)


@pytest.mark.parametrize(
    "late, error",
    [
        (state(2, (2,), epoch=3, version=99), ErrorCode.STALE_CONTROLLER_EPOCH),
        (state(2, (2,), epoch=4, version=8), None),
        (state(1, (1, 3), epoch=4, version=9), None),
        (state(-1, (), epoch=-1), ErrorCode.STALE_CONTROLLER_EPOCH),
    ],
)
def test_a_state_never_steps_back(late: PartitionState, error: ErrorCode | None) -> None:
    found = plan(PRESENT.image, ordered(late))
    assert found == TopicPlan([], {} if error is None else {0: error})


@pytest.mark.parametrize("newer", [state(2, (2,), epoch=5, version=0), state(1, (1,), epoch=4, version=10)])
def test_a_newer_state_replaces_the_known_one(newer: PartitionState) -> None:
    found = plan(PRESENT.image, ordered(newer))
    assert found == TopicPlan(partition_records(TOPIC_ID, 0, (newer,)), {})


def test_another_id_replaces_the_topic_of_the_name() -> None:
    found = plan(PRESENT.image, ordered(state(1, (1,)), topic_id=OTHER_ID))
    assert [type(record) for record in found.records] == [RemoveTopicRecord, TopicRecord, PartitionRecord]
    topic = PRESENT.image.apply_all(found.records).topics["t"]
    assert (topic.topic_id, topic.partitions) == (OTHER_ID, (state(1, (1,)),))


def test_the_order_of_a_deleted_topic_is_late() -> None:
    for image in PRESENT.image, Image.empty():
        found = plan(image, ordered(state(1, (1,)), topic_id=OTHER_ID), deleted={OTHER_ID})
        assert found == TopicPlan([], {0: ErrorCode.INCONSISTENT_TOPIC_ID})
    during = ordered(state(LEADER_DURING_DELETE, (1,)), topic_id=OTHER_ID)
    assert plan(PRESENT.image, during, deleted={OTHER_ID}) == TopicPlan([], {})


@pytest.mark.parametrize("topic_id", [TOPIC_ID, OTHER_ID])
def test_after_a_deletion_the_name_has_no_topic(topic_id: bytes) -> None:
    """With another id the known topic was deleted before, and then the topic that replaced it."""
    during = ordered(state(LEADER_DURING_DELETE, (1,)), topic_id=topic_id)
    assert plan(PRESENT.image, during).records == [RemoveTopicRecord(topic_id=TOPIC_ID)]
    assert plan(Image.empty(), during) == TopicPlan([], {})


@pytest.mark.parametrize(
    "topic, error",
    [
        (ordered(state(1, (1,)), topic_id=NO_ID, name="u"), ErrorCode.UNKNOWN_TOPIC_ID),
        (ordered(state(1, (1,)), name="u"), ErrorCode.INCONSISTENT_TOPIC_ID),
        (ordered(state(1, (1,)), topic_id=OTHER_ID, name="../u"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_orders_that_name_no_topic_have_no_records(topic: OrderedTopic, error: ErrorCode) -> None:
    assert plan(PRESENT.image, topic) == TopicPlan([], {0: error})


def test_numbers_of_partitions_have_bounds() -> None:
    found = plan(PRESENT.image, OrderedTopic("t", TOPIC_ID, dict.fromkeys((-1, MAX_PARTITIONS), state(1, (1,)))))
    assert found == TopicPlan([], dict.fromkeys((-1, MAX_PARTITIONS), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


def test_illegal_names_are_not_looked_up() -> None:
    topics = [ordered(topic_id=NO_ID, name=name) for name in ("a", "../b", "", "t")]
    assert without_id(PRESENT.image, topics) == {"a"}


def test_a_full_order_shows_which_topics_are_gone() -> None:
    assert missing_topics(PRESENT.image, [ordered(name="u")]) == {"t": TOPIC_ID}
    assert missing_topics(PRESENT.image, [ordered()]) == {}


def test_a_topic_stays_in_one_piece_unless_it_is_long() -> None:
    topics = [partition_records(TOPIC_ID, 0, [PLACEHOLDER] * count) for count in (3, 2, 4, 11, 0, 1)]
    found = list(in_pieces(topics, 5))
    assert [len(piece) for piece in found] == [5, 4, 5, 6, 1]
    assert [record for piece in found for record in piece] == [record for topic in topics for record in topic]
    assert list(in_pieces([], 5)) == []


def test_a_long_order_is_read_and_planned_in_steps() -> None:
    wide = view(*[state(1, (1,))] * 1000)
    request = update_metadata(SENDER, 3, None, wide, 8)
    assert request is not None
    assert len(list(ordered_topics(request))) == 3
    (topic,) = finish(ordered_topics(request))
    assert len(list(plan_topic(Image.empty(), topic, ()))) == 3


ENDPOINTS = {"INTERNAL": ListenerEndpoint("in", 1), "OUT": ListenerEndpoint("out", 2, 1)}


@pytest.mark.parametrize(
    "version, rack, endpoints",
    [
        (0, None, {"PLAINTEXT": ("in", 1)}),
        (1, None, {"PLAINTEXT": ("in", 1), "SSL": ("out", 2)}),
        (2, "r", {"PLAINTEXT": ("in", 1), "SSL": ("out", 2)}),
        (3, "r", {"INTERNAL": ("in", 1), "OUT": ("out", 2)}),
        (8, "r", {"INTERNAL": ("in", 1), "OUT": ("out", 2)}),
    ],
)
def test_live_brokers_of_each_version(version: int, rack: str | None, endpoints: dict[str, tuple[str, int]]) -> None:
    brokers = {3: LiveBroker(103), 4: LiveBroker(104, ENDPOINTS, "r")}
    request = update_metadata(SENDER, 3, None, ClusterView(Image.empty(), brokers), version)
    assert request is not None
    assert live_brokers(over_the_wire(request, version))[4] == Node(4, rack, endpoints)


@pytest.mark.parametrize("version", [0, 2, 5, 8])
def test_a_broker_that_has_no_address_yet_is_not_live(version: int) -> None:
    """A controller begins its term before it registers. A Java client asks a broker without an address for ever."""
    brokers = {3: LiveBroker(103), 4: LiveBroker(104, ENDPOINTS)}
    request = update_metadata(SENDER, 3, None, ClusterView(Image.empty(), brokers), version)
    assert request is not None
    assert live_brokers(over_the_wire(request, version)).keys() == {4}
    unnamed = UpdateMetadataRequest(live_brokers=[UpdateMetadataBroker(3)])
    assert live_brokers(unnamed) == {3: Node(3, None, {})}


def test_unknown_leaders_of_an_order_are_reachable_at_once() -> None:
    """The addresses of an order are on the controller's listener, which may be another one than this broker's."""
    request = LeaderAndIsrRequest(live_leaders=[LeaderAndIsrLiveLeader(1, "new", 5), LeaderAndIsrLiveLeader(2, "b", 6)])
    known = {1: Node(1, "r", {"INTERNAL": ("old", 4), "OUT": ("o", 1)})}
    assert with_leaders(known, request, "INTERNAL") == {
        1: Node(1, "r", {"INTERNAL": ("old", 4), "OUT": ("o", 1)}),
        2: Node(2, None, {"INTERNAL": ("b", 6)}),
    }


@pytest.mark.parametrize("version", range(5))
def test_stops_of_each_version(version: int) -> None:
    stops = {T0: Stop(6, is_deleted=True), TopicPartition("u", 3): Stop(EPOCH_DURING_DELETE, is_deleted=True)}
    request = over_the_wire(stop_replica(SENDER, 3, stops, PRESENT, version), version)
    found = ordered_stops(request)
    assert found == (stops if version >= 3 else {key: stop._replace(leader_epoch=-1) for key, stop in stops.items()})


@pytest.mark.parametrize("epoch, is_late", [(3, True), (4, False), (5, False), (-1, False), (-2, False)])
def test_a_stop_of_an_older_leader_epoch_is_fenced(epoch: int, is_late: bool) -> None:
    assert is_fenced(PRESENT.image, T0, Stop(epoch, is_deleted=False)) == is_late
    assert not is_fenced(PRESENT.image, TopicPartition("t", 3), Stop(epoch, is_deleted=False))
    assert not is_fenced(PRESENT.image, TopicPartition("u", 0), Stop(epoch, is_deleted=False))


def test_only_leader_and_isr_tells_which_replicas_move() -> None:
    moving = state(1, (1,), epoch=5)._replace(adding_replicas=(2,), removing_replicas=(3,))
    present = view(moving)
    first, update = leader_and_isr(SENDER, 1, None, present, 7), update_metadata(SENDER, 1, None, present, 8)
    assert first is not None
    assert update is not None
    (topic,) = finish(ordered_topics(over_the_wire(first, 7)))
    assert topic.states == {0: moving}
    (topic,) = finish(ordered_topics(over_the_wire(update, 8)))
    assert topic.states == {0: state(1, (1,), epoch=5)}
    assert plan(present.image, topic) == TopicPlan([], {})
    ended = state(1, (1,), (2, 1), epoch=6)
    assert plan(present.image, ordered(ended)).records == partition_records(TOPIC_ID, 0, [ended])
