"""The orders of one broker: one in flight, and no others: the next is made when the broker has answered the last.

So an order that is not sent yet is never old, and a slow broker gets many changes in one request. The orders that lead
from the view that a broker has followed to the newest one are sent in the order of `Kind`, then the next view is taken.
An order without an answer is repeated as it was: the broker may have obeyed, and a difference from the view before
could lack what has to be undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from headgate.gateway.controller.cluster_view import ClusterView
from headgate.gateway.controller.orders import (
    Sender,
    leader_and_isr,
    stop_replica,
    stops,
    update_brokers,
    update_metadata,
)
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from headgate.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from headgate.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from headgate.protocol.schema import Message
from headgate.protocol.topic_partition import TopicPartition


class Kind(IntEnum):
    """Kinds of orders, in the order in which a broker gets them. Older versions delete in a request of its own."""

    UPDATE_BROKERS = 0
    LEADER_AND_ISR = 1
    UPDATE_METADATA = 2
    STOP = 3
    DELETE = 4


_REQUESTS: Final[tuple[type[Message], ...]] = (
    UpdateMetadataRequest,
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


class OrderQueue:
    """The orders of one registration of a broker. `versions`: the highest version by API key that the broker serves."""

    def __init__(self, sender: Sender, broker_id: int, versions: Mapping[int, int]) -> None:
        self._sender = sender
        self._broker_id = broker_id
        self._versions = [min(versions.get(kind.api_key, 0), max(kind.versions)) for kind in _REQUESTS]
        self._followed: ClusterView | None = None
        self._target: ClusterView | None = None
        self._kinds: Iterator[Kind] = iter(())
        self._unanswered: Order | None = None
        self._is_full_due = False
        self.is_in_flight = False

    def next(self, view: ClusterView) -> Order | None:
        """The next order; None while one is in flight, or if the broker has followed this view."""
        if self.is_in_flight or self._broker_id not in view.brokers:
            return None
        if self._unanswered is None:
            self._unanswered = self._rest()
        if self._unanswered is None and (view is not self._followed or self._is_full_due):
            self._target, self._kinds = view, iter(Kind)
            self._unanswered = self._rest()
        self.is_in_flight = self._unanswered is not None
        return self._unanswered

    def _rest(self) -> Order | None:
        """The next order towards the view that was begun; None if the broker has followed that view."""
        if self._target is None:
            return None
        for kind in self._kinds:
            request = self._request(kind, self._target)
            if request is not None:
                return Order(request, self._versions[kind], kind, self._target)
        self._followed, self._target = self._target, None
        return None

    def _request(self, kind: Kind, view: ClusterView) -> Message | None:
        old, version = self._followed, self._versions[kind]
        if kind is Kind.UPDATE_BROKERS:
            return update_brokers(self._sender, self._broker_id, old, view, version)
        if kind is Kind.LEADER_AND_ISR:
            old, self._is_full_due = None if self._is_full_due else old, False
            return leader_and_isr(self._sender, self._broker_id, old, view, version)
        if kind is Kind.UPDATE_METADATA:
            return update_metadata(self._sender, self._broker_id, old, view, version)
        found = stops(self._broker_id, old, view)
        wanted = {key: stop for key, stop in found.items() if stop.is_deleted == (kind is Kind.DELETE)}
        return stop_replica(self._sender, self._broker_id, wanted, view, version) if wanted else None

    def send_all(self) -> None:
        """Send all partitions of the broker once more: by its answer a broker names its failed log directories."""
        self._is_full_due = True

    def lost(self) -> None:
        """Note that the order in flight has no answer: it is repeated."""
        self.is_in_flight = False

    def answered(self, response: Message) -> OrderResult:
        """Take the answer of the order in flight. An order that was refused as a whole is repeated."""
        order, self.is_in_flight = self._unanswered, False
        assert order is not None
        result = OrderResult(_error(response), [], [])
        if result.error is ErrorCode.NONE:
            self._unanswered = None
        for key, code in _results(order, response):
            if code is ErrorCode.KAFKA_STORAGE_ERROR:
                result.failed.append(key)
            elif order.kind is Kind.LEADER_AND_ISR and code is ErrorCode.NONE:
                result.followed.append(key)
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
        for result in response.partition_errors:
            yield TopicPartition(result.topic_name, result.partition_index), ErrorCode(result.error_code)
