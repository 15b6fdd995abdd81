"""Real consumers of 0.8.2.2 in each phase of a migration while ZooKeeper or the broker fails.

Nothing is lost. Read twice is only what had not been acknowledged: no read of the next owner is below the last commit.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from compat_tests.harness.broker import TARGET
from compat_tests.harness.waiting import until
from compat_tests.zookeeper.old_consumer import OldConsumer, Read
from compat_tests.zookeeper.old_world import World, alter_group, old_world
from compat_tests.zookeeper.test_old_consumers import COUNT, SOURCE, STORE, read_until

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="Kafka does not keep both stores equal")

VERSION: Final = "0.8.2.2"
SESSION_MS: Final = 2_000
# What commits by itself does not say when
ON_DEMAND: Final[dict[str, Any]] = {"auto_commit_enable": "false", "zookeeper_session_timeout_ms": str(SESSION_MS)}
PARTITIONS: Final = (0, 1)
DUAL: Final = {STORE: "dual", SOURCE: "zookeeper"}
# By name: the configs that the group has got, the store of its consumer, that of the next one
PHASES: Final = {
    "before": ([], "zookeeper", "zookeeper"),
    "dual, old consumers": ([DUAL], "zookeeper", "kafka"),
    "dual, new consumers": ([DUAL], "kafka", "zookeeper"),
    "after": ([DUAL, {STORE: "kafka"}], "kafka", "kafka"),
    "dual again": ([DUAL, {STORE: "kafka"}, {STORE: "dual", SOURCE: "kafka"}], "kafka", "zookeeper"),
}
Fault = Callable[[World], contextlib.AbstractContextManager[None]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    settings = {"zookeeper.session.timeout.ms": str(SESSION_MS), "group.initial.rebalance.delay.ms": "0"}
    with old_world(tmp_path_factory.mktemp("faults"), settings, is_cut_off=True) as world:
        yield world


@contextlib.contextmanager
def zookeeper_killed(world: World) -> Iterator[None]:
    world.zookeeper.stop()
    yield
    world.zookeeper.start()


@contextlib.contextmanager
def zookeeper_stopped(world: World) -> Iterator[None]:
    """By SIGSTOP, for longer than the sessions."""
    assert world.zookeeper.process is not None
    world.zookeeper.process.send_signal(signal.SIGSTOP)
    yield
    time.sleep(1.5 * SESSION_MS / 1000)
    world.zookeeper.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def cut_off(world: World) -> Iterator[None]:
    """The broker alone, for longer than its session: ZooKeeper deletes its registration."""
    assert world.wire is not None
    world.wire.cut()
    yield
    until(lambda: not world.nodes.exists("/brokers/ids/0"), "the end of the session")
    time.sleep(SESSION_MS / 1000)
    world.wire.mend()


@contextlib.contextmanager
def broker_killed(world: World) -> Iterator[None]:
    world.broker.kill()
    yield
    world.broker.start()


@contextlib.contextmanager
def broker_stopped(world: World) -> Iterator[None]:
    world.broker.stop()
    yield
    world.broker.start()


FAULTS: Final[tuple[Fault, ...]] = (zookeeper_killed, zookeeper_stopped, cut_off, broker_killed, broker_stopped)
# Some in each run, the rest in the long one
SHORT: Final = {("dual, new consumers", cut_off), ("dual, new consumers", broker_killed)}
CASES: Final = [
    pytest.param(
        phase, fault, id=f"{phase}-{fault.__name__}", marks=[] if (phase, fault) in SHORT else [pytest.mark.soak]
    )
    for phase in PHASES
    for fault in FAULTS
]


@pytest.mark.parametrize("phase, fault", CASES)
def test_what_was_acknowledged_is_not_read_again(world: World, phase: str, fault: Fault) -> None:
    """A commit is on its way while it fails; the consumer reads on, commits, reads more, and is killed."""
    configs, storage, next_storage = PHASES[phase]
    topic = world.new_topic(len(PARTITIONS))
    group = f"g-{topic}"
    for changes in configs:
        alter_group(world.broker.bootstrap, group, changes)
    consumer = OldConsumer(VERSION, world.connect, group, topic, storage=storage, **ON_DEMAND)
    read = consumer.records
    try:
        consumer.wait_for_start()
        more(world, topic, consumer)
        consumer.commit()
        more(world, topic, consumer)
        with ThreadPoolExecutor(1) as pool:
            with fault(world):
                committing = pool.submit(consumer.commit)
                time.sleep(1)
            committing.result()
        acknowledged = positions(read)
        more(world, topic, consumer)
    finally:
        consumer.kill()
    again = read_until(world, topic, group, VERSION, read, storage=next_storage)
    missing, _ = world.missing_and_repeated(topic, [*read, *again])
    assert missing == 0
    early = [one for one in again if one.offset < acknowledged[one.partition]]
    assert not early, f"acknowledged {acknowledged}, and read again {sorted(one[1:3] for one in early)}"


def more(world: World, topic: str, consumer: OldConsumer) -> None:
    """Messages come to each partition, and the consumer reads them."""
    count = len(world.sent[topic])
    world.produce(topic, dict.fromkeys(PARTITIONS, COUNT))
    wanted = count + COUNT * len(PARTITIONS)
    until(lambda: len(set(consumer.records)) >= wanted, f"{wanted} messages: {consumer.errors}")


def positions(read: list[Read]) -> dict[int, int]:
    """The next offset of each partition."""
    return {partition: max(one.offset + 1 for one in read if one.partition == partition) for partition in PARTITIONS}
