"""The orders of one broker: one in flight, and no others: the next is made when the broker has answered the last.

So an order that is not sent yet is never old, and a slow broker gets many changes in one request. The queue knows the
view that the broker has followed, for each kind of order; the next order is the difference from the newest view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from headgate.gateway.controller.cluster_view import ClusterView
from headgate.gateway.controller.orders import Sender, Stop, leader_and_isr, stop_replica, stops, update_metadata
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from headgate.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from headgate.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from headgate.protocol.schema import Message
from headgate.protocol.topic_partition import TopicPartition


class Kind(IntEnum):
    """Kinds of orders, in the order in which a broker gets them. Older versions delete in a request of its own."""

    LEADER_AND_ISR = 0
    UPDATE_METADATA = 1
    STOP = 2
    DELETE = 3


_REQUESTS: Final[tuple[type[Message], ...]] = (
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
    StopReplicaRequest,
    StopReplicaRequest,
)


class Order(NamedTuple):
    """A request to send, in this version."""

    request: Message
    version: int
    kind: Kind
    view: ClusterView


class OrderResult(NamedTuple):
    """A broker's answer: the error of the whole order, and partitions by their results."""

    error: ErrorCode
    failed: list[TopicPartition]
    """Replicas whose log directory has failed."""
    followed: list[TopicPartition]
    """Replicas that lead or follow now."""
    deleted: list[TopicPartition]


class OrderQueue:
    """The orders of one registration of a broker. `versions`: the highest version by API key that the broker serves."""

    def __init__(self, sender: Sender, broker_id: int, versions: Mapping[int, int]) -> None:
        self._sender = sender
        self._broker_id = broker_id
        self._versions = [min(versions.get(kind.api_key, 0), max(kind.versions)) for kind in _REQUESTS]
        self._followed: list[ClusterView | None] = [None] * len(Kind)
        self._next = 0
        self.in_flight: Order | None = None

    def next(self, view: ClusterView) -> Order | None:
        """The next order; None while one is in flight, or if the broker has followed this view."""
        if self.in_flight is not None or self._broker_id not in view.brokers:
            return None
        for step in range(len(Kind)):
            kind = Kind((self._next + step) % len(Kind))
            request = self._request(kind, view)
            if request is not None:
                self._next = (kind + 1) % len(Kind)
                self.in_flight = Order(request, self._versions[kind], kind, view)
                return self.in_flight
            self._followed[kind] = view
        return None

    def _request(self, kind: Kind, view: ClusterView) -> Message | None:
        old, version = self._followed[kind], self._versions[kind]
        if old is view:
            return None
        if kind is Kind.LEADER_AND_ISR:
            return leader_and_isr(self._sender, self._broker_id, old, view, version)
        if kind is Kind.UPDATE_METADATA:
            return update_metadata(self._sender, self._broker_id, old, view, version)
        wanted = self._stops(kind, old, view)
        return stop_replica(self._sender, self._broker_id, wanted, view, version) if wanted else None

    def _stops(self, kind: Kind, old: ClusterView | None, view: ClusterView) -> dict[TopicPartition, Stop]:
        is_deleted = kind is Kind.DELETE
        found = stops(self._broker_id, old, view)
        return {key: stop for key, stop in found.items() if stop.is_deleted == is_deleted}

    def repeat(self, kind: Kind) -> None:
        """Send the next order of a kind in full: by its answers a broker names its failed log directories."""
        self._followed[kind] = None

    def lost(self) -> None:
        """Note that the order in flight has no answer: the next order has its changes again."""
        self.in_flight = None

    def answered(self, response: Message) -> OrderResult:
        """Take the answer of the order in flight. An order that was refused as a whole counts as lost."""
        order, self.in_flight = self.in_flight, None
        assert order is not None
        result = OrderResult(_error(response), [], [], [])
        if result.error is ErrorCode.NONE:
            self._followed[order.kind] = order.view
        for key, code in _results(order, response):
            if code is ErrorCode.KAFKA_STORAGE_ERROR:
                result.failed.append(key)
            elif order.kind is Kind.LEADER_AND_ISR and code is ErrorCode.NONE:
                result.followed.append(key)
            elif order.kind is Kind.DELETE and code is ErrorCode.NONE:
                result.deleted.append(key)
        return result


def _error(response: Message) -> ErrorCode:
    assert isinstance(response, LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse)
    return ErrorCode(response.error_code)


def _results(order: Order, response: Message) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    if isinstance(response, LeaderAndIsrResponse):
        for topic in response.topics:
            name = order.view.image.topic_names.get(topic.topic_id, "")
            for row in topic.partition_errors:
                yield TopicPartition(name, row.partition_index), ErrorCode(row.error_code)
    if isinstance(response, LeaderAndIsrResponse | StopReplicaResponse):
        for row in response.partition_errors:
            yield TopicPartition(row.topic_name, row.partition_index), ErrorCode(row.error_code)
