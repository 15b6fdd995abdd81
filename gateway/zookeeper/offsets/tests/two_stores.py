"""A broker over the model of ZooKeeper, the group "g" with its configs, and requests to it."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

from headgate.gateway.config.offset_store import DUAL, SOURCE, STORE
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.gathering import value_of
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.runtime.purgatory import Waiting
from headgate.gateway.runtime.tests.fake_scheduler import ManualClock
from headgate.gateway.tests.requests import commit_request
from headgate.gateway.tests.scripted import ScriptedPartition
from headgate.gateway.zookeeper.layout.topics import DELETED_TOPICS_PATH, DeletedTopic
from headgate.gateway.zookeeper.offsets.tests.broker_parts import GROUP, TOPIC, TOPIC_ID, Broker, SlowNetwork, image_of
from headgate.gateway.zookeeper.session import ANY_VERSION, Create, Delete, SetData
from headgate.protocol.errors import KafkaError
from headgate.protocol.internal.offsets import OffsetCommitValue
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

MARK = f"/headgate/offsets/{GROUP}"


class TwoStores:
    """What a request hears is a list, which has one element in the end: an error code, an offset, or a response."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.keeper = SlowNetwork(Random(0))
        self.metadata: Any = SimpleNamespace(image=image_of())
        self.partition = ScriptedPartition(cast("Any", None))
        self.start()

    def start(self, **settings: Any) -> None:
        self.broker = Broker(self.partition, self.clock, self.keeper, self.metadata, **settings)
        self.run()

    @property
    def shard(self) -> GroupShard:
        shard = self.broker.coordinator.shard
        assert shard is not None
        return shard

    def run(self) -> None:
        """Let everything happen that needs no time."""
        for _ in range(6):
            self.keeper.run()
            while self.broker.threads.waiting:
                self.broker.threads.run_one()
            self.broker.scheduler.run_due()

    def wait(self, milliseconds: float) -> None:
        self.clock.elapsed_ms += milliseconds
        self.broker.scheduler.run_due()
        self.run()

    def configure(self, store: str | None, source: str = "", *, runs: bool = True) -> None:
        """Change the configs of the group."""
        old = self.metadata.image
        configs = {} if store is None else {STORE: store, **({SOURCE: source} if source else {})}
        key = ResourceType.GROUP, GROUP
        new = SimpleNamespace(configs={key: configs} if configs else {}, topics=old.topics, topic_names=old.topic_names)
        self.metadata.image = new
        self.broker.stores.follow(cast("Any", old), cast("Any", new), ())
        if runs:
            self.run()

    def delete_topic(self) -> None:
        old = self.metadata.image
        for path in ("/headgate", DELETED_TOPICS_PATH):
            self.keeper.transact(99, [Create(path)])
        self.keeper.transact(
            99, [Create(DeletedTopic.path(TOPIC_ID), DeletedTopic(TOPIC_ID, TOPIC, self.clock.now_ms()).encode())]
        )
        self.metadata.image = image_of(old.configs, None)
        self.broker.stores.follow(old, self.metadata.image, [TOPIC])
        self.run()

    def enter(self, source: str = "zookeeper") -> None:
        """Have the group in both stores."""
        self.configure(DUAL, source)
        assert MARK in self.keeper.tree.nodes, "the offsets were carried over"

    # Requests

    def put(self, make: Any) -> list[Any]:
        heard: list[Any] = []
        outcome = value_of(make)
        if isinstance(outcome, Waiting):
            self.waiting = outcome
            self.broker.purgatory.park(outcome, heard.append)
        else:
            heard.append(outcome)
        return heard

    def commit(
        self, offset: int, index: int = 0, *, version: int = 2, metadata: str = "", leader_epoch: int = -1
    ) -> list[Any]:
        """As the handler of OffsetCommit."""
        request = commit_request(GROUP, {index: offset}, TOPIC, leader_epoch=leader_epoch, metadata=metadata)

        def make() -> Any:
            if version == 0:
                return self.broker.stores.commit_zero(request)
            dual = self.broker.stores.dual(GROUP)
            if dual is not None:
                return self.broker.stores.commit(dual, request, version)
            return self.broker.groups.submit(
                GROUP, lambda shard, ticket: offset_requests.commit(shard, request, version, ticket, 0.0)
            )

        return self.put(make)

    def fetch(self, index: int = 0, *, version: int = 8) -> list[Any]:
        """As the handler of OffsetFetch."""
        if version == 0:
            request = OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic(TOPIC, [index])])
            return self.put(lambda: self.broker.stores.fetch_zero(request))
        wanted = OffsetFetchRequestGroup(GROUP, topics=[OffsetFetchRequestTopics(TOPIC, partition_indexes=[index])])

        def decide(shard: GroupShard, _: str, ticket: Ticket) -> Decision:
            return offset_requests.fetch(shard, wanted, 8, ticket, is_stable=True)

        def then(failed: dict[str, KafkaError]) -> Any:
            if failed:
                raise failed[GROUP]
            return self.broker.groups.gather([GROUP], decide, lambda replies: replies[0])

        return self.put(lambda: self.broker.stores.look([wanted], then))

    def committed(self, *arguments: Any, **options: Any) -> Any:
        """The code that a commit is answered with."""
        heard = self.commit(*arguments, **options)
        self.run()
        (answer,) = heard
        return answer.code if isinstance(answer, KafkaError) else answer.topics[0].partitions[0].error_code

    def fetched(self, *arguments: Any, **options: Any) -> Any:
        """(offset, error code) of the row that a fetch is answered with, or the error."""
        heard = self.fetch(*arguments, **options)
        self.run()
        (answer,) = heard
        if isinstance(answer, KafkaError):
            return answer.code
        row = answer.topics[0].partitions[0]
        return row.committed_offset, row.error_code

    # The stores

    def in_zookeeper(self, index: int = 0) -> int | None:
        node = self.keeper.tree.nodes.get(f"/consumers/{GROUP}/offsets/{TOPIC}/{index}")
        return None if node is None else int(node.data or b"")

    def in_log(self, index: int = 0) -> int | None:
        value = self.record(index)
        return None if value is None else value.offset

    def record(self, index: int = 0) -> OffsetCommitValue | None:
        return self.shard.offsets.of(GROUP).get((TOPIC, index))

    def write(self, offset: int | bytes | None, index: int = 0, group: str = GROUP) -> None:
        """As a consumer of the 0.8 age."""
        path, done = f"/consumers/{group}/offsets/{TOPIC}/{index}", ""
        for name in path.split("/")[1:-1]:
            done += f"/{name}"
            if done not in self.keeper.tree.nodes:
                self.keeper.transact(99, [Create(done)])
        data = b"%d" % offset if isinstance(offset, int) else offset
        if data is None:
            self.keeper.transact(99, [Delete(path)])
        elif path in self.keeper.tree.nodes:
            self.keeper.transact(99, [SetData(path, data, ANY_VERSION)])
        else:
            self.keeper.transact(99, [Create(path, data)])
