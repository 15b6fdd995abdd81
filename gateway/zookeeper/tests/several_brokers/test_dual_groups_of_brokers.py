"""Groups in two stores over two brokers: the coordinator alone is at work beside the log."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headgate.gateway.config.offset_store import DUAL, SOURCE, STORE
from headgate.gateway.coordinator.internal_topic import partition_of
from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.tests.builders import parked
from headgate.gateway.tests.requests import commit_request
from headgate.gateway.zookeeper.offsets.deleted_topics import KEPT_MS
from headgate.gateway.zookeeper.offsets.offset_stores import OLD_NOTES_EVERY_MS
from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers

pytestmark = pytest.mark.slow
GROUP = "g"
NODE = f"/consumers/{GROUP}/offsets/t/0"
MARK = f"/headgate/offsets/{GROUP}"


def start(directory: Path, *replicas: int) -> TwoBrokers:
    """The first replica coordinates all groups."""
    brokers = TwoBrokers(directory)
    for name in (CONSUMER_OFFSETS, "t"):
        brokers.change(partial(brokers.stores[0].create_topic, name, assignments={0: list(replicas)}))
    brokers.settle()
    return brokers


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoBrokers]:
    """Broker 0 coordinates all groups, and broker 1 has a replica of their offsets."""
    brokers = start(tmp_path, 0, 1)
    yield brokers
    brokers.stop()


def make_dual(two: TwoBrokers) -> None:
    two.change(lambda: two.stores[0].change_group_configs(GROUP, {STORE: DUAL, SOURCE: "zookeeper"}))
    for _ in range(4):
        two.settle()


def commit(two: TwoBrokers, offset: int) -> int:
    """Commit at the coordinator, while both brokers have their turns."""
    broker = two.brokers[0]
    replies = parked(broker, broker.handle(commit_request(GROUP, {0: offset}), 2))
    for _ in range(4):
        two.settle()
    code: int = replies[0].topics[0].partitions[0].error_code
    return code


def test_only_the_coordinator_carries_offsets_over(two: TwoBrokers, caplog: pytest.LogCaptureFixture) -> None:
    two.brokers[0].write(NODE, b"4")
    make_dual(two)
    assert MARK in two.keeper.tree.nodes
    other = two.brokers[1].services.offset_stores
    assert other is not None
    assert other.dual(GROUP) is None
    assert "entering" not in caplog.text
    two.kill_first()
    assert two.brokers[0].committed(GROUP, "t", 0) == (4, 0)


def test_the_next_coordinator_watches_what_others_write(two: TwoBrokers) -> None:
    make_dual(two)
    assert commit(two, 5) == 0
    two.kill_first()
    two.settle()
    broker = two.brokers[0]
    assert broker.committed(GROUP, "t", 0) == (5, 0)
    broker.write(NODE, b"9")
    two.settle()
    assert broker.committed(GROUP, "t", 0) == (9, 0)
    assert commit(two, 11) == 0
    assert two.keeper.tree.nodes[NODE].data == b"11"


def test_a_node_written_between_two_coordinators_counts(two: TwoBrokers) -> None:
    make_dual(two)
    assert commit(two, 5) == 0
    two.brokers[0].parts.stop()
    two.brokers[1].write(NODE, b"8")
    two.kill_first()
    two.settle()
    assert two.brokers[0].committed(GROUP, "t", 0) == (8, 0)


def test_a_coordinator_gives_its_groups_up_with_the_lead(tmp_path: Path) -> None:
    two = start(tmp_path, 1, 0)
    make_dual(two)
    stores = two.brokers[1].services.offset_stores
    assert stores is not None
    assert stores.dual(GROUP) is not None
    two.take_lead(CONSUMER_OFFSETS)
    assert stores.dual(GROUP) is None
    two.stop()


@pytest.fixture
def spread(tmp_path: Path) -> Iterator[TwoBrokers]:
    """Broker 0 coordinates GROUP; broker 1 coordinates other groups."""
    brokers = TwoBrokers(tmp_path)
    own = partition_of(GROUP, 2)
    leads = {own: [0, 1], 1 - own: [1, 0]}
    for name, assignments in (CONSUMER_OFFSETS, leads), ("t", {0: [0, 1]}):
        brokers.change(partial(brokers.stores[0].create_topic, name, assignments=assignments))
    brokers.settle()
    yield brokers
    brokers.stop()


OTHER = next(name for name in map(str, range(99)) if partition_of(name, 2) != partition_of(GROUP, 2))


def offsets(two: TwoBrokers) -> list[int]:
    """The offset in each group, as its coordinator has it; 0 without one."""
    return [
        broker.services.groups.first_unread([group], "t", 0)
        for broker, group in zip(two.brokers, (GROUP, OTHER), strict=True)
    ]


def notes(two: TwoBrokers) -> int:
    return len(two.keeper.tree.nodes["/headgate/deleted_topics"].children)


def test_each_coordinator_removes_the_offsets_of_its_groups(spread: TwoBrokers) -> None:
    make_dual(spread)
    assert commit(spread, 5) == 0
    other = spread.brokers[1]
    replies = parked(other, other.handle(commit_request(OTHER, {0: 7}), 2))
    for _ in range(4):
        spread.settle()
    assert replies[0].topics[0].partitions[0].error_code == 0
    assert offsets(spread) == [5, 7]
    spread.change(partial(spread.stores[0].delete_topic, "t"))
    for _ in range(4):
        spread.settle()
    assert NODE not in spread.keeper.tree.nodes
    assert offsets(spread) == [0, 0]
    assert notes(spread) == 1, "the other coordinator may need the note"


def test_the_controller_removes_old_notes(spread: TwoBrokers) -> None:
    spread.change(partial(spread.stores[0].delete_topic, "t"))
    for elapsed_ms, expected in (KEPT_MS / 2, 1), (KEPT_MS / 2 + OLD_NOTES_EVERY_MS, 0):
        for broker in spread.brokers:
            broker.time.advance(elapsed_ms)
        spread.settle()
        assert notes(spread) == expected
