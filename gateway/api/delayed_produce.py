"""A produce request whose reply waits for appends.

An append notifies its request at its end. The end of the last append completes the request: no other request that waits
for the same partition is tried. With acks=0 the request needs no reply, and the connection waits in two cases only: for
conversions, because later requests must not overtake them, and for writes while a slow disk's queue is too long.

`gateway.api.handlers.produce` begins the appends, and makes their response rows; `gateway.replication.append` has their
later states.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeAlias

from headgate.gateway.api.broker_endpoints import endpoints
from headgate.gateway.api.context import CloseConnection, HandlerContext
from headgate.gateway.replication.append import ACKS_ALL, CONVERTING, PENDING, Append
from headgate.gateway.replication.append_queue import DiskMonitor
from headgate.gateway.runtime.tasks import Changes, Silent, Task, WaitList
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.produce import NodeEndpoint, PartitionProduceResponse, ProduceRequest, ProduceResponse

Delayed: TypeAlias = tuple[Append | None, PartitionProduceResponse]
"""An append that may have to wait, with its row; or None, and a row that names another leader."""

Render: TypeAlias = Callable[[Append, PartitionProduceResponse, HandlerContext], None]
"""Writes the state of an append into its row, in the form for this version."""

SILENT_WAIT_MS = 600_000.0
"""A request without a reply does not time out; after this time its connection continues nevertheless."""
MIN_WAIT_MS = 30_000.0
"""The client's timeout is for the in-sync replicas. For conversions and slow disks an append has at least this time, as
in most client libraries."""


class DelayedProduce:
    """A produce request, with its appends that had not ended when the handler returned."""

    __slots__ = ("_context", "_crowded", "_delayed", "_ended", "_open", "_render", "_response")

    def __init__(
        self, context: HandlerContext, response: ProduceResponse, delayed: Sequence[Delayed], render: Render
    ) -> None:
        self._context = context
        self._render = render
        self._response = response
        self._delayed = delayed
        self._open = 0
        self._ended = WaitList()
        self._crowded: set[DiskMonitor] = set()

    def answer(self, request: ProduceRequest) -> ProduceResponse | Task[ProduceResponse]:
        """The response if every append has ended, otherwise a task that waits for the last one."""
        wait_ms = float(request.timeout_ms)
        is_waiting_for_replicas, names_leaders = request.acks == ACKS_ALL, False
        for append, _ in self._delayed:
            if append is None:
                names_leaders = True
            elif not append.has_ended:
                self._open += 1
                append.listener = self._note
                is_waiting_for_replicas = is_waiting_for_replicas and append.state is not CONVERTING
        if names_leaders:
            self._response.node_endpoints = _leader_endpoints(self._context, self._delayed)
        if not self._open:
            return self._rendered()
        return self._wait(wait_ms if is_waiting_for_replicas else max(wait_ms, MIN_WAIT_MS))

    def _note(self, append: Append) -> None:
        """An append, or its conversion, has ended."""
        if append.has_ended:
            self._open -= 1
            if not self._open:
                self._context.broker.tasks.touch(self._ended)

    def _wait(self, wait_ms: float) -> Task[ProduceResponse]:
        """The response; appends that have not ended by then time out."""
        changes = Changes((self._ended,), self._context.broker.clock.monotonic_ms() + wait_ms)
        while self._open:
            if (yield changes) is None:
                self._time_out(wait_ms)
        return self._rendered()

    def _time_out(self, wait_ms: float) -> None:
        for append, _ in self._delayed:
            if append is not None and not append.has_ended:
                late = f"not written, or not by every in-sync replica, after {wait_ms:.0f} ms"
                append.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, late))

    def _rendered(self) -> ProduceResponse:
        for append, row in self._delayed:
            if append is not None:
                self._render(append, row, self._context)
        return self._response

    # Without a reply

    def answer_silently(self) -> Silent | None:
        """With acks=0: the wait of the connection, if there is one. Raises CloseConnection if an append has failed."""
        if self._blocks_connection():
            return Silent(self._wait_silently())
        self._close_on_error()
        return None

    def _wait_silently(self) -> Task[None]:
        for append, _ in self._delayed:
            if append is not None:
                append.listener = self._touch
        changes = Changes((self._ended,), self._context.broker.clock.monotonic_ms() + SILENT_WAIT_MS)
        while self._blocks_connection():
            self._await_disks()
            if (yield changes) is None:
                break
        self._close_on_error()

    def _blocks_connection(self) -> bool:
        return any(append is not None and _blocks_connection(append) for append, _ in self._delayed)

    def _touch(self, _: Append) -> None:
        self._context.broker.tasks.touch(self._ended)

    def _await_disks(self) -> None:
        for disk in {append.replica.disk for append, _ in self._delayed if append is not None} - self._crowded:
            if disk.is_crowded:
                self._crowded.add(disk)
                disk.when_uncrowded(partial(self._is_uncrowded, disk))

    def _is_uncrowded(self, disk: DiskMonitor) -> None:
        self._crowded.discard(disk)
        self._context.broker.tasks.touch(self._ended)

    def _close_on_error(self) -> None:
        self._rendered()
        close_on_error(self._response)


def _blocks_connection(append: Append) -> bool:
    """Whether the connection of a client without replies waits for this append."""
    if append.state is CONVERTING:
        return True
    disk = append.replica.disk
    return append.state is PENDING and disk is not None and disk.is_crowded


def _leader_endpoints(context: HandlerContext, delayed: Collection[Delayed]) -> list[NodeEndpoint]:
    """The endpoints of the leaders in rows (KIP-951)."""
    leaders = {row.current_leader.leader_id for append, row in delayed if append is None}
    live = [endpoint for endpoint in endpoints(context) if endpoint.node_id in leaders]
    return [NodeEndpoint(*endpoint) for endpoint in sorted(live, key=lambda endpoint: endpoint.node_id)]


def close_on_error(response: ProduceResponse) -> None:
    """With acks=0 no reply reports an error: the connection is closed instead, and the client refreshes its metadata.

    Raises CloseConnection.
    """
    for topic in response.responses:
        for row in topic.partition_responses:
            if row.error_code != ErrorCode.NONE:
                what = f"produce with acks=0 to {topic.name}-{row.index}"
                raise CloseConnection(f"{what} failed with error {row.error_code}: {row.error_message}")
