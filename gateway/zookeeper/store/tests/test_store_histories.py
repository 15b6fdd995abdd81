"""Histories by seed: a broker and tools change metadata while ZooKeeper, sessions and the broker fail.

At the end of each: what everybody sees is what is in ZooKeeper; every change that was acknowledged was there; no
producer id was handed out twice; no partition was served twice in one leader epoch, by different starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random

import pytest

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.store import Change
from headgate.gateway.zookeeper.session import Create, Delete, Refused, SetData
from headgate.gateway.zookeeper.tests.model import Fault, ZooKeeperModel
from headgate.gateway.zookeeper.tests.store_world import TOOL, StoreWorld
from headgate.protocol.errors import KafkaError
from headgate.protocol.tests.examples import first_in_unit

SEEDS = range(10_000) if "HEADGATE_SOAK" in os.environ else range(100)
STEPS = 40
NAMES = ("a", "b", "c")


class History:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = StoreWorld(ZooKeeperModel(Random(seed), now_ms=self._now_ms), seed=seed)
        self.begun: list[tuple[Change, Callable[[Image], bool] | None]] = []
        self.blocks: list[tuple[range, Change]] = []
        self.others_blocks: list[range] = []
        self.served: dict[tuple[bytes, int], list[int]] = {}
        self.log: list[str] = []
        self._observe()

    def _now_ms(self) -> int:
        return self.world.time.clock.now_ms() if hasattr(self, "world") else 1_700_000_000_000

    def run(self) -> None:
        actions = (
            (self.create, 6), (self.delete, 2), (self.grow, 3), (self.configure, 4), (self.take_ids, 4),
            (self.tool_creates, 3), (self.tool_deletes, 2), (self.tool_grows, 2), (self.tool_configures, 3),
            (self.other_takes_ids, 1), (self.depose, 1), (self.fail, 4), (self.cut, 2), (self.expire, 1),
            (self.stop, 1), (self.resume, 8), (self.kill, 1), (self.wait, 2), (self.go_on, 30),
        )  # fmt: skip
        for action in self.random.choices([one for one, _ in actions], [weight for _, weight in actions], k=STEPS):
            self.log.append(action.__name__)
            action()
            for _ in range(self.random.randrange(12)):
                self.world.time.advance()
                self.world.keeper.step()
        self.world.session.faults.clear()
        for _ in range(4):
            self.world.keeper.start()
            self.world.settle(2_000)
        self.check()

    def check(self) -> None:
        self.world.check()
        image = self.world.image
        assert all(state.leader == 0 for topic in image.topics.values() for state in topic.partitions)
        assert all(change.is_settled for change, _ in self.begun)
        taken = [ids for ids, change in self.blocks if change.error is None and change.is_settled] + self.others_blocks
        assert len({one for ids in taken for one in ids}) == sum(map(len, taken)), taken
        for key, epochs in self.served.items():
            assert epochs == sorted(set(epochs)), (key, epochs)
        assert not self.world.nodes_there["/admin/delete_topics"].children

    # The broker

    def _begin(self, begin: Callable[[], Change]) -> None:
        with suppress(KafkaError):
            self.begun.append((begin(), None))

    def create(self) -> None:
        name, count = self.random.choice(NAMES), self.random.choice((1, 2, 3, 5))
        self._begin(lambda: self.world.metadata.create_topic(name, count, configs={"segment.ms": "9"}))

    def delete(self) -> None:
        self._begin(lambda: self.world.metadata.delete_topic(self.random.choice(NAMES)))

    def grow(self) -> None:
        self._begin(lambda: self.world.metadata.create_partitions(self.random.choice(NAMES), self.random.randrange(9)))

    def configure(self) -> None:
        value, name = str(self.random.randrange(100)), self.random.choice(NAMES)
        metadata = self.world.metadata
        self._begin(
            self.random.choice(
                (
                    partial(metadata.change_topic_configs, name, {"retention.ms": value}),
                    partial(metadata.change_broker_configs, None, {"log.retention.ms": value}),
                    partial(metadata.change_group_configs, name, {"consumer.session.timeout.ms": f"500{value}"}),
                )
            )
        )

    def take_ids(self) -> None:
        with suppress(KafkaError):
            ids, change = self.world.metadata.take_producer_ids()
            self.blocks.append((ids, change))
            self.begun.append((change, None))

    # Others

    def _tool(self, *operations: Create | SetData | Delete) -> bool:
        return not isinstance(self.world.keeper.transact(TOOL, operations), Refused)

    def tool_creates(self) -> None:
        self._tool(
            Create(f"/brokers/topics/{self.random.choice(NAMES)}", b'{"version":1,"partitions":{"0":[0],"1":[0]}}')
        )

    def tool_deletes(self) -> None:
        name = self.random.choice(NAMES)
        if f"/brokers/topics/{name}" in self.world.nodes_there:
            self._tool(Create(f"/admin/delete_topics/{name}"))

    def tool_grows(self) -> None:
        name = self.random.choice(NAMES)
        if f"/brokers/topics/{name}" in self.world.nodes_there:
            count = len(self.world.read().image.topics[name].partitions)
            self.world.tool.write_topic(name, *([0] for _ in range(count + 1)))

    def tool_configures(self) -> None:
        name = self.random.choice(NAMES)
        self.world.tool.write_configs(f"topics/{name}", {"retention.ms": str(self.random.randrange(100, 200))}, name)

    def other_takes_ids(self) -> None:
        first = self.world.read().image.next_producer_id
        self.others_blocks.append(range(first, first + 1000))
        data = b'{"version":1,"broker":7,"block_start":"%d","block_end":"%d"}' % (first, first + 999)
        self._tool(SetData("/latest_producer_id_block", data))

    def depose(self) -> None:
        """Somebody has the controller elected again."""
        self._tool(Delete("/controller"))

    # Faults

    def fail(self) -> None:
        self.world.session.faults += [None] * self.random.randrange(3) + [self.random.choice(list(Fault))]

    def cut(self) -> None:
        self.world.keeper.cut(self.world.session)

    def expire(self) -> None:
        self.world.keeper.expire(self.world.session.session_id)

    def stop(self) -> None:
        self.world.keeper.stop()

    def resume(self) -> None:
        self.world.keeper.start()

    def kill(self) -> None:
        """End the broker at once; what it has sent may be done yet."""
        session = self.world.session
        self.world.keeper.start()
        while session.requests and self.random.random() < 0.5:
            session.requests.popleft()[1]()
        self.world.kill()
        self.begun.clear()
        self.world.start()
        self._observe()

    def wait(self) -> None:
        self.world.time.advance(self.random.choice((500, 3_000, 16_000)))

    def go_on(self) -> None:
        self.world.keeper.start()
        self.world.settle()

    def _observe(self) -> None:
        """Note the epochs in which this start serves partitions: each start begins a higher one."""
        first = set[tuple[bytes, int]]()

        def follow(_old: Image, new: Image, _names: object) -> None:
            for topic in new.topics.values():
                for index, state in enumerate(topic.partitions):
                    key = topic.topic_id, index
                    if state.leader == 0 and key not in first:
                        first.add(key)
                        self.served.setdefault(key, []).append(state.leader_epoch)

        self.world.metadata.on_change(follow)


@pytest.mark.slow
@pytest.mark.parametrize("part", list(first_in_unit(range(10), 2)))
def test_histories_by_seed(part: int) -> None:
    for seed in SEEDS[part::10]:
        history = History(seed)
        try:
            history.run()
        except BaseException as error:
            error.add_note(f"seed {seed}: {' '.join(history.log)}")
            raise
