"""Brokers that answer orders by a script, at the ends of the links of a controller over the model of ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from headgate.gateway.runtime.broker_links import LinkLost
from headgate.gateway.runtime.tasks import Ask
from headgate.gateway.zookeeper.layout.isr_changes import IsrChange
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr
from headgate.gateway.zookeeper.session import Create, Delete
from headgate.gateway.zookeeper.tests.store_world import StoreWorld
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.leader_and_isr import FULL, INCREMENTAL, LeaderAndIsrRequest
from headgate.protocol.messages.stop_replica import StopReplicaRequest
from headgate.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from headgate.protocol.schema import Message, Versions
from headgate.protocol.topic_partition import TopicPartition

VERSIONS = {cls.api_key: cls.versions for cls in (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)}


class ScriptedBroker:
    """A broker that obeys each order, unless the next answer is scripted. Each link to this broker is counted."""

    def __init__(self) -> None:
        self.requests: list[Message] = []
        self.faults: list[ErrorCode | None] = []
        """The outcome of the next orders: an error of the whole order, or None for a lost answer."""
        self.failed: set[TopicPartition] = set()
        self.opened = self.closed = 0
        self.versions: dict[int, Versions] | None = VERSIONS
        """None stands for a fault of this side."""

    @property
    def leaders(self) -> dict[TopicPartition, tuple[int, int]]:
        """The leaders and leader epochs by LeaderAndIsr."""
        return {key: (row.leader, row.leader_epoch) for key, row in self._rows(LeaderAndIsrRequest).items()}

    @property
    def metadata(self) -> dict[TopicPartition, tuple[int, list[int], list[int]]]:
        """Leader, in-sync replicas and offline replicas by UpdateMetadata."""
        rows = self._rows(UpdateMetadataRequest)
        return {key: (row.leader, row.isr, row.offline_replicas) for key, row in rows.items()}

    def _rows(self, cls: type[Any]) -> dict[TopicPartition, Any]:
        return {
            TopicPartition(topic.topic_name, row.partition_index): row
            for request in self._of(cls)
            for topic in request.topic_states
            for row in topic.partition_states
        }

    def _of(self, cls: type[Any]) -> list[Any]:
        return [request for request in self.requests if isinstance(request, cls)]

    def take(self) -> list[str]:
        """The names of the orders since the last call; FULL ones are marked."""
        taken, self.requests = self.requests, []
        marks = ["!" if getattr(request, "type", INCREMENTAL) == FULL else "" for request in taken]
        names = [type(request).__name__.removesuffix("Request") for request in taken]
        return [f"{name}{mark}" for name, mark in zip(names, marks, strict=True)]

    def answer(self, request: Any, version: int) -> Message | Exception:
        self.requests.append(request)
        fault = self.faults.pop(0) if self.faults else ErrorCode.NONE
        if fault is None:
            return LinkLost("the test")
        if isinstance(request, UpdateMetadataRequest):
            return UpdateMetadataResponse(error_code=fault)
        response: Any = request.error_response(version, fault)
        if isinstance(request, LeaderAndIsrRequest):
            names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
            for topic in response.topics:
                for row in topic.partition_errors:
                    if TopicPartition(names[topic.topic_id], row.partition_index) in self.failed:
                        row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        refused: Message = response
        return refused


class ScriptedLink:
    """A link to a scripted broker. Answers come in a later turn."""

    def __init__(self, broker: ScriptedBroker, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._broker, self._call_soon = broker, call_soon

    def ask(self, request: Message, version: int | None = None) -> Ask:
        def begin(resume: Callable[[Any], None]) -> None:
            assert version is not None
            self._call_soon(partial(resume, self._broker.answer(request, version)))

        return begin

    def versions(self) -> Ask:
        return lambda resume: self._call_soon(partial(resume, self._broker.versions))

    def close(self) -> None:
        self._broker.closed += 1


class ClusterWorld(StoreWorld):
    """The metadata of broker 0, beside the scripted brokers 1 and 2."""

    def __init__(self) -> None:
        self.brokers = {1: ScriptedBroker(), 2: ScriptedBroker()}
        self.links = self
        super().__init__()
        for broker_id in self.brokers:
            self.register(broker_id)
        self.settle()

    def open(self, node_id: int, host: str, port: int, client_id: str, *, timeout_ms: float) -> ScriptedLink:
        assert (host, port, client_id, timeout_ms) == (f"host{node_id}", 9092, "controller-0", 30_000)
        self.brokers[node_id].opened += 1
        return ScriptedLink(self.brokers[node_id], self.time.scheduler.call_soon)

    def register(self, broker_id: int) -> None:
        data = {
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://host{broker_id}:9092"],
            "version": 5,
            "timestamp": "1",
        }
        self.tool.do(Create(f"/brokers/ids/{broker_id}", json.dumps(data).encode()))

    def lose(self, broker_id: int) -> None:
        self.tool.do(Delete(f"/brokers/ids/{broker_id}"))

    def rejoin(self, key: TopicPartition, *isr: int) -> None:
        """The leader takes these replicas into the set, and tells the controller."""
        self.join(key, *isr)
        self.settle()

    def join(self, key: TopicPartition, *isr: int) -> None:
        """`rejoin`, but the controller has not read the change yet."""
        path = LeaderAndIsr.path(*key)
        self.tool.put(path, LeaderAndIsr.decode(*key, self.nodes_there[path].data)._replace(isr=isr).encode())
        self.tool.do(Create(IsrChange.path(), IsrChange((key,)).encode(), is_sequential=True))
