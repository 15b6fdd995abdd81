"""Nodes that nobody can read, below a running broker and at its start: the store goes on, and names each once."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.zookeeper.controller.tool_orders import ToolOrders
from headgate.gateway.zookeeper.session import Create, KeeperError
from headgate.gateway.zookeeper.tests.model import parent
from headgate.gateway.zookeeper.tests.store_world import StoreWorld
from headgate.protocol.errors import ErrorCode, KafkaError

TOPIC = b'{"version":1,"partitions":{"0":[0]}}'
DEEP = b"[" * 500 + b"]" * 500
DEEPER_THAN_THE_STACK = sys.getrecursionlimit() + 500


@pytest.fixture
def world() -> StoreWorld:
    world = StoreWorld()
    world.settle()
    return world


def put(world: StoreWorld, path: str, data: bytes | None = b"") -> None:
    """Write a node and its parents."""
    if parent(path) not in world.nodes_there:
        put(world, parent(path), None)
    world.tool.put(path, data)


def lose_session(world: StoreWorld) -> None:
    world.keeper.expire(world.session.session_id)
    world.keeper.start()
    world.settle(2_000)


def restart(world: StoreWorld) -> None:
    world.kill()
    world.start()
    world.settle(2_000)


def named(caplog: pytest.LogCaptureFixture, path: str) -> int:
    return sum(path in record.getMessage() for record in caplog.records)


def check_goes_on(world: StoreWorld, name: str = "fresh") -> None:
    change = world.change(lambda: world.metadata.create_topic(name, 1))
    assert change.error is None
    assert world.image.topic(name).partitions[0].leader == 0


# Kafka 3.9.1 goes on with such names below /config, which it does not read. It ends itself at such nodes of topics
NODES: dict[str, bytes] = {
    "/config/brokers/01": b"{}",
    "/config/brokers/abc": b"{}",
    "/config/brokers/-1": b"{}",
    "/config/brokers/99999999999999999999": b"{}",
    "/config/brokers/\u00b2": b"{}",
    "/config/brokers/\u0663": b"{}",
    "/config/brokers/1_0": b"{}",
    "/config/brokers/0": b'{"version":1,"config":{"log.retention.ms":5}}',
    "/config/groups/my group": b"{}",
    "/config/groups/%zz": b"{}",
    "/config/groups/%ff": b"{}",
    "/config/groups/g": DEEP,
    "/brokers/topics/my topic": TOPIC,
    "/brokers/topics/numbers": b'{"version":1,"partitions":{"01":[0]}}',
    "/brokers/topics/huge": b'{"version":1,"partitions":{"0":[' + b"9" * 5000 + b"]}}",
    "/brokers/topics/deep": b'{"version":1,"partitions":{"0":[0]},"x":' + DEEP + b"}",
    "/brokers/topics/half": b'{"version":1,"partitions":{"0":[0]},"x":"\\ud800"}',
    "/brokers/topics/nan": b'{"version":NaN,"partitions":{"0":[0]}}',
    "/config/topics/known": b'{"version":1,"config":[]}',
    "/headgate/feature": b"x",
}


@pytest.mark.parametrize("path", NODES)
@pytest.mark.parametrize("loses", [lose_session, restart, lambda world: world.tool.delete("/controller")])
def test_a_node_is_named_once_and_left_out(
    world: StoreWorld, caplog: pytest.LogCaptureFixture, path: str, loses: Any
) -> None:
    world.change(lambda: world.metadata.create_topic("known", 2))
    put(world, path, NODES[path])
    world.settle(2_000)
    if loses is restart:
        caplog.clear()
    loses(world)
    world.settle(5_000)
    check_goes_on(world)
    lose_session(world)
    check_goes_on(world, "later")
    assert named(caplog, path) == 1, caplog.text
    assert "Traceback" not in caplog.text


def test_a_node_is_named_again_after_a_change(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    for count, data in enumerate([b"x", b"y", TOPIC, b"y"], 1):
        put(world, "/brokers/topics/t", data)
        world.settle()
        lose_session(world)
        assert named(caplog, "/brokers/topics/t:") == count - (count >= 3)


def test_what_is_known_of_an_unreadable_node_stays(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1, configs={"segment.ms": "9"}))
    world.change(lambda: world.metadata.change_group_configs("g", {"consumer.session.timeout.ms": "50000"}))
    topic, configs = world.image.topic("t"), world.image.configs
    for path in ("/brokers/topics/t", "/config/topics/t", "/config/groups/g"):
        put(world, path, b"x")
    lose_session(world)
    assert (world.image.topic("t"), world.image.configs) == (topic, configs)
    world.tool.put("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0]}}')
    world.settle()
    assert world.image.topic("t").configs == {"segment.ms": "9"}
    assert len(world.image.topic("t").partitions) == 2


def test_unreadable_configs_are_replaced_by_a_change(world: StoreWorld) -> None:
    """Kafka 3.9.1: AlterConfigs over `x` answers NONE and leaves the changed config alone; so does CreateTopics."""
    world.change(lambda: world.metadata.create_topic("t", 1, configs={"segment.ms": "9"}))
    world.change(lambda: world.metadata.change_group_configs("g", {"consumer.session.timeout.ms": "50000"}))
    for path in ("/config/topics/t", "/config/groups/g", "/config/topics/new"):
        put(world, path, b"x")
    lose_session(world)
    metadata = world.metadata
    for begin in (
        lambda: metadata.change_topic_configs("t", {"retention.ms": "7"}),
        lambda: metadata.change_group_configs("g", {"consumer.heartbeat.interval.ms": "6000"}),
        lambda: metadata.create_topic("new", 1),
    ):
        assert world.change(begin).error is None
    world.check()
    assert world.image.topic("t").configs == {"segment.ms": "9", "retention.ms": "7"}


def test_a_topic_with_an_unreadable_node_is_deleted(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 2))
    put(world, "/brokers/topics/t", b"x")
    world.settle()
    assert world.change(lambda: world.metadata.delete_topic("t")).error is None
    world.settle(2_000)
    assert "t" not in world.image.topics
    assert [path for path in world.nodes_there if path.endswith("/t") or "/t/" in path] == []


def test_an_unreadable_topic_is_not_created(world: StoreWorld) -> None:
    """Kafka's error for each name that has a node."""
    put(world, "/brokers/topics/t", b"x")
    world.settle()
    error = world.change(lambda: world.metadata.create_topic("t", 1)).error
    assert error is not None
    assert error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert "/brokers/topics/t" in error.message
    check_goes_on(world)


STRAYS = (
    "/brokers/topics/t/x/y",
    "/brokers/topics/t/partitions/x/state",
    "/brokers/topics/t/partitions/7/state/x",
    "/brokers/topics/t/partitions/0/state/x/y/z",
    "/config/topics/t/x/y",
    "/admin/delete_topics/t/x",
)


@pytest.mark.parametrize("orders", [True, False])
def test_a_topic_is_deleted_with_all_that_is_below(world: StoreWorld, *, orders: bool) -> None:
    """Kafka 3.9.1 deletes the node of a topic with everything below it; it leaves configs that have children."""
    world.change(lambda: world.metadata.create_topic("t", 2, configs={"segment.ms": "9"}))
    for path in STRAYS if orders else STRAYS[:-1]:
        put(world, path)
    world.settle(2_000)
    if not orders:
        world.change(lambda: world.metadata.delete_topic("t"))
    world.settle(2_000)
    assert "t" not in world.image.topics
    assert [path for path in world.nodes_there if path.endswith("/t") or "/t/" in path] == []
    check_goes_on(world, "t")


@pytest.mark.parametrize("path", ["/admin/delete_topics/unknown", "/admin/reassign_partitions",
                                  "/admin/preferred_replica_election", "/config/changes/config_change_1"])  # fmt: skip
def test_orders_are_deleted_with_all_that_is_below(world: StoreWorld, path: str) -> None:
    put(world, f"{path}/x/y")
    world.settle(20 * 60 * 1000)
    lose_session(world)
    check_goes_on(world)
    assert path not in world.nodes_there


def test_an_election_of_a_partition_without_replicas(world: StoreWorld) -> None:
    put(world, "/brokers/topics/t", b'{"version":1,"partitions":{"0":[]}}')
    world.settle()
    put(world, "/admin/preferred_replica_election", b'{"version":1,"partitions":[{"topic":"t","partition":0}]}')
    world.settle()
    assert "/admin/preferred_replica_election" not in world.nodes_there
    check_goes_on(world)


def test_a_config_without_effect_is_named_once(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    put(world, "/brokers/topics/t", TOPIC)
    put(world, "/config/topics/t", b'{"version":1,"config":{"retention.ms":"%s","segment.ms":"9"}}' % (b"9" * 5000))
    put(world, "/config/brokers/0", b'{"version":1,"config":{"log.retention.ms":"x"}}')
    lose_session(world)
    lose_session(world)
    assert world.image.topic("t").configs == {"segment.ms": "9"}
    assert caplog.text.count("has no effect") == 1
    assert caplog.text.count("log.retention.ms: the dynamic value does not fit") == 1


def test_an_epoch_of_the_controller_never_falls(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.tool.put("/controller_epoch", b"x")
    world.tool.delete("/controller")
    world.settle()
    check_goes_on(world)
    assert world.read().controller_epoch == 2
    assert named(caplog, "/controller_epoch") == 1


@pytest.mark.parametrize("epoch", [b"2147483646", b"2147483647"])
def test_the_highest_epochs_end_nothing(world: StoreWorld, epoch: bytes, caplog: pytest.LogCaptureFixture) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1))
    path = "/brokers/topics/t/partitions/0/state"
    world.tool.put("/controller_epoch", epoch)
    world.tool.put(path, b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":%s,"isr":[0]}' % epoch)
    for count, again in enumerate((lose_session, restart, lose_session, restart)):
        again(world)
        check_goes_on(world, f"fresh{count}")
    assert "Traceback" not in caplog.text


def test_no_producer_id_is_given_out_twice(world: StoreWorld) -> None:
    """After a start with an unreadable last block nobody knows the next; Kafka 3.9.1 answers error 14 then, too."""
    ids, _ = world.metadata.take_producer_ids()
    world.settle()
    good = world.nodes_there["/latest_producer_id_block"].data
    world.tool.put("/latest_producer_id_block", b"x")
    lose_session(world)
    ids, change = world.metadata.take_producer_ids()
    world.settle()
    assert (ids, change.error) == (range(1000, 2000), None), "the broker goes on with what it knew"
    good = world.nodes_there["/latest_producer_id_block"].data
    world.tool.put("/latest_producer_id_block", b"x")
    restart(world)
    with pytest.raises(KafkaError) as raised:
        world.metadata.take_producer_ids()
    assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.tool.put("/latest_producer_id_block", good)
    with pytest.raises(KafkaError):
        world.metadata.take_producer_ids()
    world.settle()
    assert world.metadata.take_producer_ids()[0] == range(2000, 3000)


@pytest.mark.parametrize("path", ["/config/brokers/5", "/brokers/topics/t", "/config/changes/config_change_1"])
def test_a_node_that_zookeeper_refuses_is_named_once(
    world: StoreWorld, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Its ACL lets nobody read it."""
    world.change(lambda: world.metadata.create_topic("t", 1))
    read = world.session.get

    def get(asked: str, done: Any, watch: Any = None) -> None:
        if asked == path:
            world.keeper.put(world.session.refusals, partial(done, KeeperError.NO_AUTH))
        else:
            read(asked, done, watch)

    monkeypatch.setattr(world.session, "get", get)
    put(world, path, b"{}")
    for _ in range(3):
        lose_session(world)
    check_goes_on(world)
    assert world.image.topic("t").partitions[0].leader == 0
    assert named(caplog, path) == 1
    assert "Traceback" not in caplog.text


# Topics with one id


def states(world: StoreWorld, name: str) -> Iterator[PartitionState]:
    yield from world.image.topic(name).partitions


def copy_topic(world: StoreWorld, name: str, copy: str) -> None:
    world.tool.put(f"/brokers/topics/{copy}", world.nodes_there[f"/brokers/topics/{name}"].data)


@pytest.mark.parametrize("copy", ["a", "z"])
def test_a_copied_topic_is_refused(world: StoreWorld, caplog: pytest.LogCaptureFixture, copy: str) -> None:
    """A running Kafka 3.9.1 does not take it up either; after a restart it answers no Metadata."""
    world.change(lambda: world.metadata.create_topic("m", 2))
    copy_topic(world, "m", copy)
    world.settle()
    for again in (lose_session, restart, lose_session):
        assert set(world.image.topics) == {"m"}
        assert [state.leader for state in states(world, "m")] == [0, 0]
        caplog.clear()
        again(world)
        assert named(caplog, f"/brokers/topics/{copy}") == (again is restart)
    check_goes_on(world)
    world.change(lambda: world.metadata.delete_topic("m"))
    world.settle(2_000)
    assert "m" not in world.image.topics


def test_of_two_new_topics_the_older_keeps_the_id(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("m", 1))
    data = world.nodes_there["/brokers/topics/m"].data
    world.change(lambda: world.metadata.delete_topic("m"))
    world.keeper.cut(world.session)
    world.tool.put("/brokers/topics/z", data)
    world.tool.put("/brokers/topics/a", data)
    world.keeper.start()
    world.settle()
    assert set(world.image.topics) == {"z"}
    restart(world)
    assert set(world.image.topics) == {"z"}
    assert world.image.topic("z").partitions[0].leader == 0


def test_a_topic_whose_node_becomes_a_copy_stays(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b"):
        world.change(partial(world.metadata.create_topic, name, 1))
    before = dict(world.image.topics)
    copy_topic(world, "a", "b")
    world.settle()
    lose_session(world)
    assert world.image.topics == before
    assert named(caplog, "/brokers/topics/b") == 1


def test_a_topic_with_another_id_stays_what_it_was(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    """A deletion needs an order: so the records stay."""
    world.change(lambda: world.metadata.create_topic("t", 1))
    before = world.image.topic("t")
    other = b'{"version":3,"partitions":{"0":[0]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}'
    world.tool.put("/brokers/topics/t", other)
    world.settle()
    lose_session(world)
    assert world.image.topic("t") == before
    assert named(caplog, "/brokers/topics/t") == 1


@pytest.mark.slow
def test_a_nest_of_nodes_is_removed_without_recursion(world: StoreWorld) -> None:
    path = "/admin/delete_topics"
    for _ in range(DEEPER_THAN_THE_STACK):
        path += "/x"
        world.tool.do(Create(path))
    lose_session(world)
    world.settle()
    check_goes_on(world)
    assert not world.nodes_there["/admin/delete_topics"].children


@pytest.mark.slow
def test_thousands_of_bad_names_need_no_stack(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    world.tool.do(*(Create(f"/config/groups/%zz{number}") for number in range(5 * DEEPER_THAN_THE_STACK)))
    lose_session(world)
    check_goes_on(world)


# Faults of one change


def test_a_change_that_raises_fails_alone(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KafkaError) as raised:
        world.metadata.change_group_configs(".", {"consumer.session.timeout.ms": "50000"})
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    check_goes_on(world)
    assert not caplog.records


def test_a_fault_in_a_change_is_answered(
    world: StoreWorld, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world.nodes, "tree", fail)
    with pytest.raises(KafkaError) as raised:
        world.metadata.create_topic("t", 1)
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert caplog.text.count("Traceback") == 1
    monkeypatch.undo()
    world.settle(2_000)
    check_goes_on(world)


def test_a_fault_between_changes_does_not_end_the_store(
    world: StoreWorld, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ToolOrders, "all_are_led", fail)
    change = world.metadata.create_topic("t", 1)
    world.settle(5_000)
    monkeypatch.undo()
    world.settle(2_000)
    assert change.is_settled
    assert caplog.text.count("Traceback") == 1
    check_goes_on(world)


@pytest.mark.slow
def test_changes_that_end_at_once_need_no_stack(world: StoreWorld) -> None:
    metadata = world.metadata
    metadata.create_topic("t", 1)
    changes = [metadata.change_group_configs(".", {"consumer.session.timeout.ms": f"5{n:04}"}) for n in range(250)]
    world.settle(2_000)
    assert all(change.is_settled for change in changes)
    check_goes_on(world)


def test_a_state_that_is_too_large_to_write_hurts_one(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.change(lambda: world.metadata.create_topic("t", 3))
    path = "/brokers/topics/t/partitions/1/state"
    data = world.nodes_there[path].data[:-1] + b',"x":"' + b"x" * 1_000_000 + b'"}'
    world.keeper.tree.nodes[path].data = data
    restart(world)
    for _ in range(5):
        world.settle(1_000)
    assert [state.leader for state in states(world, "t")] == [0, -1, 0]
    assert caplog.text.count("partition t-1 has no leader") == 1
    check_goes_on(world)
