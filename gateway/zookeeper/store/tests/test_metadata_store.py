"""The metadata in ZooKeeper: own changes, what others write, faults. ZooKeeper is the model."""

from __future__ import annotations

from functools import partial

import pytest

from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.zookeeper.layout.topics import DELETED_TOPICS_PATH, DeletedTopic
from headgate.gateway.zookeeper.session import Create
from headgate.gateway.zookeeper.store.metadata_store import CHANGE_WITHIN_MS
from headgate.gateway.zookeeper.tests.model import Fault
from headgate.gateway.zookeeper.tests.store_world import StoreWorld
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import FeatureLevelRecord


@pytest.fixture
def world() -> StoreWorld:
    return StoreWorld()


def test_a_topic_is_created_changed_and_deleted(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 3, configs={"retention.ms": "7"}))
    world.check()
    assert world.image.topic("t").partitions == (PartitionState(0, 0, (0,), (0,), 0),) * 3
    world.change(lambda: world.metadata.create_partitions("t", 5))
    world.change(lambda: world.metadata.change_topic_configs("t", {"retention.ms": None, "segment.ms": "9"}))
    world.check()
    assert world.image.topic("t").configs == {"segment.ms": "9"}
    world.change(lambda: world.metadata.delete_topic("t"))
    world.check()
    assert [path for path in world.nodes_there if "/t" in path.replace("/topics", "")] == []


def test_other_changes_are_written(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.change_broker_configs(None, {"log.retention.ms": "3"}))
    world.change(lambda: world.metadata.change_group_configs("g/h", {"consumer.session.timeout.ms": "50000"}))
    first = world.metadata.take_producer_ids()[0]
    second = world.metadata.take_producer_ids()[0]
    world.change(lambda: world.metadata.submit([FeatureLevelRecord(name="group.version", feature_level=0)]))
    world.check()
    assert (first, second) == (range(1000), range(1000, 2000))
    assert world.image.features == {"group.version": 0}


def test_changes_that_wait_build_on_each_other(world: StoreWorld) -> None:
    changes = [world.metadata.create_topic("t", 1), world.metadata.create_partitions("t", 2)]
    with pytest.raises(KafkaError):
        world.metadata.create_topic("t", 1)
    world.settle()
    assert [change.error for change in changes] == [None, None]
    world.check()


def test_leader_epochs_rise_at_a_start(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 100))
    world.kill()
    world.start()
    assert {state.leader for state in world.image.topic("t").partitions} == {-1}
    assert not world.metadata.has_leaders
    world.settle()
    assert world.metadata.has_leaders
    assert set(world.image.topic("t").partitions) == {PartitionState(0, 1, (0,), (0,), 1)}
    assert len(world.seen[-2:]) == 2
    world.check()


def test_who_was_faster_wins(world: StoreWorld) -> None:
    world.settle()
    change = world.metadata.create_topic("t", 1)
    world.tool.write_topic("t", [0], [0])
    world.settle()
    assert change.error is not None
    assert change.error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert len(world.image.topic("t").partitions) == 2
    world.check()


def test_a_change_of_what_others_changed_is_made_anew(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1))
    world.tool.put("/config/topics/t", b'{"version":1,"config":{"segment.ms":"9"}}')  # nobody is told
    change = world.change(lambda: world.metadata.change_topic_configs("t", {"retention.ms": "8"}))
    assert change.error is None
    assert world.read().image.topic("t").configs == {"segment.ms": "9", "retention.ms": "8"}


@pytest.mark.parametrize("fault", Fault)
def test_a_change_is_completed_after_a_lost_connection(world: StoreWorld, fault: Fault) -> None:
    world.settle()
    world.session.faults.append(fault)
    change = world.metadata.create_topic("t", 3)
    ids, taken = world.metadata.take_producer_ids()
    world.settle()
    assert not change.is_settled
    world.keeper.start()
    world.settle()
    assert (change.error, taken.error) == (None, None)
    assert world.image.next_producer_id == ids.stop
    world.check()


@pytest.mark.parametrize("fault", Fault)
def test_producer_ids_are_taken_once(world: StoreWorld, fault: Fault) -> None:
    world.settle()
    world.session.faults.append(fault)
    ids, taken = world.metadata.take_producer_ids()
    world.settle()
    world.keeper.start()
    world.settle()
    assert taken.error is None
    assert world.read().image.next_producer_id == ids.stop == 1000


def test_without_a_connection_changes_wait_and_then_fail(world: StoreWorld) -> None:
    world.settle()
    world.keeper.stop()
    change = world.metadata.create_topic("t", 3)
    world.settle(14_000)
    assert not change.is_settled
    world.settle(2_000)
    assert change.error is not None
    assert change.error.code is ErrorCode.REQUEST_TIMED_OUT
    world.keeper.start()
    world.settle()
    assert "t" not in world.image.topics
    world.change(lambda: world.metadata.create_topic("t", 1))
    world.check()


def test_a_change_that_was_given_up_may_be_done(world: StoreWorld) -> None:
    world.settle()
    world.session.faults.append(Fault.AFTER)
    change = world.metadata.create_topic("t", 3)
    world.settle(16_000)
    assert change.error is not None
    world.keeper.start()
    world.settle()
    assert len(world.image.topic("t").partitions) == 3
    assert world.image.topic("t").partitions[0].leader == 0
    world.check()


def test_a_removed_topic_keeps_no_other_from_its_leader(world: StoreWorld) -> None:
    """Somebody removes a topic's node after a start, before this broker leads its partitions."""
    for name in ("a", "b"):
        world.change(partial(world.metadata.create_topic, name, 1))
    world.kill()
    world.start()
    for path in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
        world.tool.delete(f"/brokers/topics/a{path}")
    world.settle(3_000)
    assert [world.image.topic(name).partitions[0].leader for name in ("a", "b")] == [-1, 0]
    world.tool.write_topic("a", [0])
    world.settle(3_000)
    assert world.image.topic("a").partitions[0].leader == 0


def test_a_deletion_leaves_a_note_with_the_topic(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 2))
    topic_id = world.image.topic("t").topic_id
    world.change(lambda: world.metadata.delete_topic("t"))
    (name,) = world.nodes_there[DELETED_TOPICS_PATH].children
    note = DeletedTopic.decode(name, world.nodes_there[f"{DELETED_TOPICS_PATH}/{name}"].data)
    assert note == DeletedTopic(topic_id, "t", world.time.clock.now_ms() - 400)


def test_a_note_that_is_there_already_is_replaced(world: StoreWorld) -> None:
    """Somebody has written the node of a deleted topic again, with its id, before the note has gone."""
    world.change(lambda: world.metadata.create_topic("t", 1))
    topic_id = world.image.topic("t").topic_id
    path = DeletedTopic.path(topic_id)
    world.tool.put(path, DeletedTopic(topic_id, "t", 0).encode())
    before = world.nodes_there[path].czxid
    assert world.change(lambda: world.metadata.delete_topic("t")).error is None
    assert world.nodes_there[path].czxid > before
    assert "/brokers/topics/t" not in world.nodes_there
    world.check()


def test_a_removed_topic_that_is_deleted_then_has_a_note_too(world: StoreWorld) -> None:
    """Also if the connection ends before the answer, so that nothing but the order tells of the deletion."""
    for name, faults in (("t", []), ("u", [Fault.BEFORE])):
        world.change(partial(world.metadata.create_topic, name, 1))
        for path in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
            world.tool.delete(f"/brokers/topics/{name}{path}")
        world.settle()
        world.session.faults += faults
        change = world.metadata.delete_topic(name)
        world.settle(2_000)
        world.keeper.start()
        world.settle(2_000)
        assert change.is_settled
        assert change.error is None
    assert len(world.nodes_there[DELETED_TOPICS_PATH].children) == 2


def test_a_deletion_in_doubt_is_believed_by_its_note_alone(world: StoreWorld) -> None:
    """The deletion was never sent. Somebody removes the topic's node by mistake: the topic is served on."""
    world.change(lambda: world.metadata.create_topic("t", 1))
    topic_id = world.image.topic("t").topic_id
    world.keeper.freeze()
    change = world.metadata.delete_topic("t")
    world.time.advance(CHANGE_WITHIN_MS)
    assert change.error is not None
    world.session.requests.clear()
    world.keeper.time_out()
    for path in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
        world.tool.delete(f"/brokers/topics/t{path}")
    world.keeper.is_frozen = False
    world.keeper.start()
    world.settle(2_000)
    assert world.image.topic("t").topic_id == topic_id


# Nodes that somebody deletes


def delete_all(world: StoreWorld, *, but: str = "/zookeeper") -> None:
    for path in sorted(world.nodes_there, reverse=True):
        if path != "/" and not path.startswith(but):
            world.tool.delete(path)
    world.settle()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_topic_where_the_nodes_are_gone(is_there: bool) -> None:
    """Directories are made again; without its id the cluster is gone, and the answer says so."""
    world = StoreWorld()
    world.tool.do(Create("/cluster"), Create("/cluster/id", b'{"version":"1","id":"A"}'))
    delete_all(world, but="/cluster" if is_there else "/zookeeper")
    change = world.change(lambda: world.metadata.create_topic("t", 1))
    if is_there:
        assert change.error is None
        assert "/brokers/topics/t/partitions/0/state" in world.nodes_there
    else:
        assert change.error is not None
        assert change.error.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert "ZooKeeper has lost this cluster: /cluster/id is not there" in change.error.message
        assert "/brokers/topics/t" not in world.nodes_there


def test_changes_tried_again_are_told_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("the nodes are others")

    world = StoreWorld()
    world.change(lambda: world.metadata.create_topic("t", 1))
    world.kill()
    monkeypatch.setattr("headgate.gateway.zookeeper.metadata.plans.change_image", refuse)
    world.start()  # and raise the leader epoch of t
    for _ in range(30):
        world.settle(1_000)
    assert len([record for record in caplog.records if "is tried again" in record.getMessage()]) == 1
