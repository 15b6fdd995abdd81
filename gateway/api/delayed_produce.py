"""A produce request whose reply waits for appends.

An append tells its request when it has ended. The end of the last one completes the request: nobody else that waits for
the same partition is tried. With acks=0 no reply is owed, and the connection waits for two things only: for
conversions, as later requests have to stay behind them, and for writes while too much waits for a slow disk.

The appends are begun, and rendered as rows of the response, by `gateway.api.handlers.produce`; how they go on stands in
`gateway.replication.append`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from headgate.gateway.api.context import CloseConnection, HandlerContext
from headgate.gateway.api.endpoints import endpoints
from headgate.gateway.replication.append import ACKS_ALL, CONVERTING, PENDING, Append
from headgate.gateway.runtime.purgatory import SILENCE, Waiting, WaitList
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.produce import (
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)

Delayed: TypeAlias = tuple[Append | None, PartitionProduceResponse]
"""An append that may have to wait, with its row; or no append, and a row that names another leader."""

Render: TypeAlias = Callable[[Append, PartitionProduceResponse, int], None]
"""Shows in its row how an append stands, as a client of this version understands it."""

SILENT_WAIT_MS = 600_000.0
"""A client that wants no reply does not time out; after so long its connection goes on nevertheless."""
MIN_WAIT_MS = 30_000.0
"""The client's timeout is for the in-sync replicas. For conversions and slow disks an append has at least so long, as
in most client libraries."""


class DelayedProduce:
    """A produce request, and those of its appends that had not ended when the handler returned."""

    __slots__ = ("_context", "_delayed", "_open", "_render", "_response", "_wait_ms", "_waiting")

    def __init__(
        self, context: HandlerContext, response: ProduceResponse, delayed: Sequence[Delayed], render: Render
    ) -> None:
        self._context = context
        self._render = render
        self._response = response
        self._delayed = delayed
        self._open = 0
        self._wait_ms = 0.0

    def answer(self, request: ProduceRequest) -> ProduceResponse | Waiting:
        """The response if every append has ended, else what the response waits for."""
        self._wait_ms = float(request.timeout_ms)
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
        if not is_waiting_for_replicas:
            self._wait_ms = max(self._wait_ms, MIN_WAIT_MS)
        return self._park(Waiting((), self._wait_ms, _never, self._expire))

    def _park(self, waiting: Waiting) -> Waiting:
        waiting.deadline_ms += self._context.broker.clock.monotonic_ms()
        self._waiting = waiting
        return waiting

    def _note(self, append: Append) -> None:
        """An append has ended, or its conversion has."""
        if append.has_ended:
            self._open -= 1
            if not self._open:
                self._context.broker.purgatory.complete(self._waiting)

    def _expire(self) -> ProduceResponse:
        """The response; appends that have not ended by now have timed out."""
        if self._open:
            for append, _ in self._delayed:
                if append is not None and not append.has_ended:
                    late = f"not written, or not by every in-sync replica, after {self._wait_ms:.0f} ms"
                    append.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, late))
        return self._rendered()

    def _rendered(self) -> ProduceResponse:
        for append, row in self._delayed:
            if append is not None:
                self._render(append, row, self._context.version)
        return self._response

    # Without a reply

    def answer_silently(self) -> Waiting | None:
        """With acks=0: what the connection waits for, if anything. Raises CloseConnection if an append has failed."""
        if not self._holds_up():
            self._close_on_error()
            return None
        for append, _ in self._delayed:
            if append is not None:
                append.listener = self._check
        self._await_disks()
        return self._park(Waiting((), SILENT_WAIT_MS, _never, self._finish, is_silent=True))

    def _holds_up(self) -> bool:
        return any(append is not None and _holds_up(append) for append, _ in self._delayed)

    def _check(self, append: Append | None = None) -> None:
        """Something has changed: an append, or the room in the queue of a disk."""
        if not self._holds_up():
            self._context.broker.purgatory.complete(self._waiting)
        elif append is None:
            self._await_disks()
        elif append.state is PENDING:
            append.replica.disk.when_uncrowded(self._check)

    def _await_disks(self) -> None:
        for disk in {append.replica.disk for append, _ in self._delayed if append is not None}:
            if disk.is_crowded:
                disk.when_uncrowded(self._check)

    def _finish(self) -> object:
        self._close_on_error()
        return SILENCE

    def _close_on_error(self) -> None:
        self._rendered()
        close_on_error(self._response)


def _never(wait_list: WaitList) -> None:
    """There is no list to be touched."""


def _holds_up(append: Append) -> bool:
    """Whether a client that wants no reply waits for this append."""
    if append.state is CONVERTING:
        return True
    disk = append.replica.disk
    return append.state is PENDING and disk is not None and disk.is_crowded


def _leader_endpoints(context: HandlerContext, delayed: Collection[Delayed]) -> list[NodeEndpoint]:
    """Where the client reaches the leaders that rows name (KIP-951)."""
    leaders = {row.current_leader.leader_id for append, row in delayed if append is None}
    found = [endpoint for endpoint in endpoints(context) if endpoint.node_id in leaders]
    return [NodeEndpoint(*endpoint) for endpoint in sorted(found, key=lambda endpoint: endpoint.node_id)]


def close_on_error(response: ProduceResponse) -> None:
    """With acks=0 no reply tells of an error: the end of the connection does, and the client refreshes its metadata.

    Raises CloseConnection.
    """
    for topic in response.responses:
        for row in topic.partition_responses:
            if row.error_code != ErrorCode.NONE:
                what = f"produce with acks=0 to {topic.name}-{row.index}"
                raise CloseConnection(f"{what} failed with error {row.error_code}: {row.error_message}")
