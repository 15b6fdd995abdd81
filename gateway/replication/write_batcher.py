"""The staged writes of the present turn: written together, before any reply to them leaves.

The main cost of a small batch is its write. So a turn of the loop first takes the requests of all connections, and then
writes once for each partition. Everything else that may read a log or answer a client comes after `write_all`.

The invariant: no staged write survives a turn, and no high watermark passes the written end. A parked request waits for
a high watermark that only the write can move, so a forgotten write would hang the request. Hence each of these ends
with a `write_all`, whatever happened before:

- a round of `gateway.network.sockets`;
- a step of `gateway.network.streams`, before its task waits for anything;
- a run of `gateway.runtime.scheduler`: timers, ends of threads and tasks, touched waiters (`Scheduler.settle`).

Both drivers assert the invariant before they wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from headgate.gateway.replication.append import Append
from headgate.gateway.replication.replica import Replica
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.schema import Message
from headgate.storage.log.pending_write import AppendInfo, PendingWrite

logger = logging.getLogger("headgate.replication")

Refuse = Callable[[ErrorCode, str | None], None]
"""Turns a part of a response into an error, after a failed write."""


class Encoder(Protocol):
    """Encodes a response. A response to appends has no file slices: its encoding is one bytearray."""

    def encode(self, response: Message, correlation_id: int) -> list[Any]: ...


class WriteBatcher:
    """The staged writes, and the responses that depend on them.

    `is_open`: a write is staged, and no reply may leave.
    """

    __slots__ = ("_drafts", "_listeners", "_promises", "_waiting", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._promises: dict[PendingWrite, tuple[Replica, list[Refuse]]] = {}
        self._waiting: list[tuple[PendingWrite, Append, AppendInfo]] = []
        self._drafts: list[tuple[Any, Encoder, Message, int]] = []
        self._listeners: list[Callable[[], None]] = []

    def promise(self, replica: Replica, staged: PendingWrite, refuse: Refuse) -> None:
        """Note that a response already reports the staged write; `refuse` corrects it if the write fails."""
        promised = self._promises.get(staged)
        if promised is None:
            self.is_open = True
            self._promises[staged] = replica, [refuse]
        else:
            promised[1].append(refuse)

    def await_write(self, staged: PendingWrite, append: Append, info: AppendInfo) -> None:
        """Call `append.end_write` with the result of its staged write."""
        if staged not in self._promises:
            self.is_open = True
            self._promises[staged] = append.replica, []
        self._waiting.append((staged, append, info))

    def draft(self, reply: Any, encoder: Encoder, response: Message, correlation_id: int) -> None:
        """Note a reply with or after such a response: after a failed write it is encoded again, in place."""
        self._drafts.append((reply, encoder, response, correlation_id))

    def notify_written(self, resume: Callable[[], None]) -> None:
        """Call `resume` after the write of what is staged now."""
        self._listeners.append(resume)

    def write_all(self) -> None:
        """Write everything that is staged. Responses to failed writes are corrected and encoded again."""
        if not self.is_open:
            return
        self.is_open = False
        promises, self._promises = self._promises, {}
        waiting, self._waiting = self._waiting, []
        drafts, self._drafts = self._drafts, []
        has_failed = False
        for staged, (replica, promised) in promises.items():
            error = _write(replica, staged)
            if error is not None:
                has_failed = True
                staged.error = error
                for refuse in promised:
                    refuse(error.code, error.message)
        for staged, append, info in waiting:
            append.end_write(staged.error or info)
        if has_failed:
            for reply, encoder, response, correlation_id in drafts:
                (reply[:],) = encoder.encode(response, correlation_id)
        if self._listeners:
            listeners, self._listeners = self._listeners, []
            for resume in listeners:
                resume()


def _write(replica: Replica, staged: PendingWrite) -> KafkaError | None:
    """Write the staged batches, unless they are written already; return the error, or None."""
    if replica.log.staged is not staged:  # a later append rolled the segment, and wrote them
        replica.advance_high_watermark()
    else:
        try:
            replica.write_staged()
        except KafkaError as error:  # also in `PendingWrite.error`
            logger.error("produce requests are refused: %s", error.message)
        except Exception:  # no client may get an offset for batches that are not written
            logger.exception("the staged batches of %s-%d cannot be written", replica.topic, replica.index)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the write failed")
    return staged.error
