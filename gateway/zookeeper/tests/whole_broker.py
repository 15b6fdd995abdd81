"""A whole broker over the model of ZooKeeper, without a loop: started, stopped and killed as a process is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import GeneratorType
from typing import Any

from headgate.gateway.app.composition import BrokerParts, Seams
from headgate.gateway.metadata.store import Change
from headgate.gateway.network.links import Link
from headgate.gateway.network.tests.memory_transport import MemoryTransport
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import HandlerBroker, open_all_logs
from headgate.gateway.tests.requests import commit_request
from headgate.gateway.zookeeper.session import Create, Delete, Refused, SetData
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel, parent
from headgate.gateway.zookeeper.tests.opening import connector
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headgate.protocol.schema import Message
from headgate.protocol.steps import finish
from headgate.storage.errors import StorageError

TOOL = 777
"""The session of those who write into ZooKeeper."""


class WholeBroker(HandlerBroker):
    """One broker, from start to start."""

    def __init__(
        self, directory: Path, keeper: ZooKeeperModel, listening: dict[int, BrokerParts] | None = None, **settings: str
    ) -> None:
        """`listening`: the brokers that reach each other, by their ports."""
        self.keeper = keeper
        self.listening = {} if listening is None else listening
        super().__init__(directory, zookeeper_connect="model:2181", offsets_topic_num_partitions="1", **settings)

    def seams(self) -> Seams:
        return Seams(
            self.time.clock,
            self.disk(),
            self.random,
            self.time.make_scheduler,
            connect=connector(self.keeper),
            open_logs=open_all_logs,
        )

    def start(self) -> None:
        self.parts = BrokerParts(self.config, self.seams())
        self.services, self.log_manager = self.parts.services, self.parts.log_manager
        self.parts.server.make_transport = self._make_transport  # type: ignore[method-assign]
        self.parts.start()
        self.listening[self.port] = self.parts
        self.parts.announce({"PLAINTEXT": self.port}, self.announced)
        self.settle()

    def announced(self, error: StorageError | None) -> None:
        """The start has ended: the process says that it is ready."""

    @property
    def port(self) -> int:
        return 9_100 + self.config.node_id

    def _make_transport(self, link: Link) -> MemoryTransport:
        return MemoryTransport(link, self.listening, self.parts.scheduler)

    def settle(self, milliseconds: float = 3_000) -> None:
        """Let time pass, and let everything happen meanwhile."""
        for _ in range(int(milliseconds / 100)):
            self.time.advance(100)
            self.services.batcher.write_all()
            self.time.advance()

    def stop(self) -> None:
        """Stop in order."""
        self.listening.pop(self.port, None)
        self.parts.stop()
        self.settle(100)
        self.parts.close()

    def kill(self) -> None:
        """End the process, and then its session."""
        session = self.keeper.sessions[-1]
        self.listening.pop(self.port, None)
        self.log_manager.abandon()
        self.keeper.sessions.remove(session)
        self.keeper.expire(session.session_id)

    def lose_session(self) -> None:
        self.keeper.expire(self.keeper.sessions[-1].session_id)
        self.keeper.start()
        self.settle()

    def answer(self, request: Message, version: int) -> Any:
        """The response, once there is one."""
        outcome: Any = self.handle(request, version)
        if is_task(outcome):
            replies: list[Any] = []
            self.services.tasks.start(outcome, replies.append)
            self.services.batcher.write_all()
            self.settle()
            (outcome,) = replies
        return finish(outcome) if isinstance(outcome, GeneratorType) else outcome

    def change(self, begin: Callable[[], Change]) -> Change | KafkaError:
        """Begin a change, and let it end."""
        try:
            change = begin()
        except KafkaError as error:
            return error
        self.settle()
        assert change.is_settled
        return change if change.error is None else change.error

    # Offsets

    def commit(self, group: str, topic: str, index: int, offset: int, version: int = 2) -> int:
        response = self.answer(commit_request(group, {index: offset}, topic), version)
        code: int = response.topics[0].partitions[0].error_code
        return code

    def committed(self, group: str, topic: str, index: int) -> tuple[int, int]:
        """The offset that the coordinator answers, and the error."""
        topics = [OffsetFetchRequestTopics(topic, partition_indexes=[index])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)])
        response = self.answer(request, 8)
        found = response.groups[0]
        if found.error_code:
            return -1, found.error_code
        row = found.topics[0].partitions[0]
        return row.committed_offset, row.error_code

    # ZooKeeper

    def write(self, path: str, data: bytes | None) -> bool:
        """Write a node as anybody can: create it with its parents, or set it. False if ZooKeeper refuses."""
        nodes = self.keeper.tree.nodes
        if path in nodes:
            return self._do(SetData(path, data))
        if parent(path) not in nodes and not self.write(parent(path), None):
            return False
        return self._do(Create(path, data))

    def delete(self, path: str) -> bool:
        return self._do(Delete(path))

    def _do(self, operation: Create | SetData | Delete) -> bool:
        return not isinstance(self.keeper.transact(TOOL, [operation]), Refused)
