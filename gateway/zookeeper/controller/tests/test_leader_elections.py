"""The partitions that a broker has to lead after a start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.zookeeper.controller import leader_elections
from headgate.gateway.zookeeper.controller.leader_elections import IN_FLIGHT
from headgate.gateway.zookeeper.controller.tests.scripted_brokers import ClusterWorld
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr
from headgate.gateway.zookeeper.layout.tree import ClusterTree
from headgate.gateway.zookeeper.metadata import plans
from headgate.gateway.zookeeper.session import Operation, Refused, Results, Resume
from headgate.gateway.zookeeper.tests.model import Fault
from headgate.gateway.zookeeper.tests.store_world import StoreWorld
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.elect_leaders import PREFERRED
from headgate.protocol.topic_partition import TopicPartition

T0 = TopicPartition("t", 0)
STATE = "/brokers/topics/a/partitions/0/state"


def test_partitions_of_brokers_that_are_gone_have_no_leader(caplog: pytest.LogCaptureFixture) -> None:
    world = StoreWorld()
    world.kill()
    world.tool.write_topic("t", [5])
    world.start()
    world.settle()
    assert world.image.topic("t").partitions[0].leader == -1
    assert "1 partitions have no copy in sync on this broker, and have no leader (t-0)" in caplog.text


@pytest.fixture
def cluster() -> ClusterWorld:
    world = ClusterWorld()
    world.change(lambda: world.metadata.create_topic("t", assignments={0: [1, 0, 2]}))
    return world


def elect(world: ClusterWorld, election_type: int, *partitions: TopicPartition) -> list[int]:
    replies: list[Any] = []
    world.metadata.elect(election_type, partitions or None)(replies.append)
    world.settle()
    (response,) = replies
    return [row.error_code for topic in response.replica_election_results for row in topic.partition_result]


def lose_and_find(world: ClusterWorld, broker_id: int) -> None:
    world.lose(broker_id)
    world.settle()
    world.register(broker_id)
    world.settle()


def test_a_preferred_leader_leads_again_when_it_is_asked_for(cluster: ClusterWorld) -> None:
    lose_and_find(cluster, 1)
    assert cluster.brokers[2].leaders[T0] == (0, 1)
    assert elect(cluster, PREFERRED, T0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    cluster.rejoin(T0, 0, 1, 2)
    assert elect(cluster, PREFERRED, T0, TopicPartition("u", 0)) == [
        ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]  # fmt: skip
    assert cluster.brokers[2].leaders[T0] == (1, 2)
    cluster.check()


def test_a_preferred_leader_leads_again_after_a_while(cluster: ClusterWorld) -> None:
    lose_and_find(cluster, 1)
    cluster.rejoin(T0, 0, 1, 2)
    cluster.settle(300_000)
    assert cluster.brokers[2].leaders[T0] == (1, 2)
    cluster.check()


def test_an_unclean_election_begins_when_the_topic_allows_it(cluster: ClusterWorld) -> None:
    cluster.rejoin(T0, 1)
    cluster.lose(1)
    cluster.settle()
    assert cluster.image.topics["t"].partitions[0].leader == -1
    assert cluster.metadata.unclean_elections == 0
    cluster.change(lambda: cluster.metadata.change_topic_configs("t", {"unclean.leader.election.enable": "true"}))
    assert cluster.brokers[2].leaders[T0] == (0, 2)
    assert cluster.metadata.unclean_elections == 1
    cluster.check()


class MultisInFlight:
    """The multis that a controller sends, and the most of them that had no answer at the same time."""

    def __init__(self, world: ClusterWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[Sequence[Operation]] = []
        self.unanswered = self.most = 0
        self.events: dict[int, Callable[[], None]] = {}
        """What happens as the multi of this number is sent."""
        self._multi = world.session.multi
        monkeypatch.setattr(world.session, "multi", self.multi)

    def multi(self, operations: Sequence[Operation], resume: Resume[Results | Refused]) -> None:
        def answered(answer: Any) -> None:
            self.unanswered -= 1
            resume(answer)

        self.events.pop(len(self.sent), lambda: None)()
        self.sent.append(operations)
        self.unanswered += 1
        self.most = max(self.most, self.unanswered)
        self._multi(operations, answered)


SLICE = 8
COUNT = 6 * SLICE
"""The partitions that lose their leader, in slices."""


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> ClusterWorld:
    monkeypatch.setattr(leader_elections, "WRITTEN_AT_ONCE", SLICE)
    world = ClusterWorld()
    assignments = {index: [1, 0, 2] for index in range(COUNT)}
    world.change(lambda: world.metadata.create_topic("large", assignments=assignments))
    return world


def check_moved(world: ClusterWorld) -> None:
    """Each partition is led elsewhere, and everybody knows."""
    for _ in range(3):
        world.settle(2_000)
    assert {(state.leader, state.isr) for state in world.image.topics["large"].partitions} == {(0, (0, 2))}
    led = [leader for key, (leader, _) in world.brokers[2].leaders.items() if key.topic == "large"]
    assert led == [0] * COUNT
    world.check()


def test_several_slices_wait_for_zookeeper(large: ClusterWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    multis = MultisInFlight(large, monkeypatch)
    large.lose(1)
    check_moved(large)
    assert multis.most == IN_FLIGHT
    assert max(map(len, multis.sent)) == 1 + SLICE, "the check of the epoch and the states"


def test_slices_behind_a_refused_one_end_after_it(large: ClusterWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    multis = MultisInFlight(large, monkeypatch)
    state = LeaderAndIsr.path("large", 5)
    multis.events[0] = lambda: large.tool.put(state, large.nodes_there[state].data)
    large.lose(1)
    check_moved(large)
    assert multis.most == IN_FLIGHT


@pytest.mark.parametrize("number", [0, IN_FLIGHT - 1])
@pytest.mark.parametrize("fault", Fault)
def test_slices_without_an_answer_are_completed(
    large: ClusterWorld, monkeypatch: pytest.MonkeyPatch, fault: Fault, number: int
) -> None:
    multis = MultisInFlight(large, monkeypatch)
    multis.events[number] = lambda: large.session.faults.append(fault)
    large.lose(1)
    large.settle()
    assert large.metadata.planned is not large.image
    large.keeper.start()
    check_moved(large)


def test_a_change_of_a_client_is_written_between_slices(large: ClusterWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    multis = MultisInFlight(large, monkeypatch)

    def create() -> None:
        large.metadata.create_topic("new", 1)

    multis.events[1] = partial(large.time.scheduler.call_soon, create)
    large.lose(1)
    check_moved(large)
    paths = [operations[-1].path for operations in multis.sent]
    (created,) = [number for number, path in enumerate(paths) if path.startswith("/brokers/topics/new/")]
    assert created < len(paths) - 1


def test_a_partition_that_cannot_be_written_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = StoreWorld()
    for name in ("a", "b"):
        world.change(partial(world.metadata.create_topic, name, 1))
    world.kill()
    write_state = plans.write_state

    def refuse(cluster: ClusterTree, name: str, index: int, state: PartitionState) -> Iterator[Operation]:
        if name == "a":
            raise RuntimeError("the test")
        return write_state(cluster, name, index, state)

    monkeypatch.setattr(plans, "write_state", refuse)
    world.start()
    for _ in range(4):
        world.settle(2_000)
    assert [world.image.topic(name).partitions[0].leader for name in ("a", "b")] == [-1, 0]
    (line,) = [line for line in caplog.messages if line.startswith("partition ")]
    assert line.startswith("partition a-0 has no leader: its leader epoch cannot be written: the change failed")
    monkeypatch.undo()
    world.tool.put(STATE, world.nodes_there[STATE].data)
    world.tool.write_topic("a", [0], [0])
    world.settle(2_000)
    assert world.image.topic("a").partitions[0].leader == 0
