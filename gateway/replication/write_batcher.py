"""What was staged in the present turn: written together, before any answer to it leaves.

Small batches cost the broker little but a write each. So a turn of the loop first takes what all its connections sent,
and then writes once for each partition. Everything else that may look into a log or answer a client comes after
`commit`.

The invariant: nothing staged outlives a turn, and no high watermark passes what is written. A parked request waits for
a high watermark that only the write can move, so a forgotten write would hang the request. Hence `commit` does not
depend on how a turn went: each of these ends with one.

- a round of `gateway.network.sockets`, whatever its connections did in it;
- a step of `gateway.network.streams`, before its task waits for anything;
- what `gateway.runtime.scheduler` runs: timers, ends of threads and tasks, touched waiters (`Scheduler.settle`).

Both drivers assert it before they wait.
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
"""Turns a part of a response into an error: nothing was appended after all."""


class Encoder(Protocol):
    """Makes a response into bytes; one of appends has no pieces of files in it, so that they are one bytearray."""

    def encode(self, response: Message, correlation_id: int) -> list[Any]: ...


class WriteBatcher:
    """The appends that still have to be written, and the responses that promise them.

    `is_open`: there are some, and no answer may leave.
    """

    __slots__ = ("_drafts", "_promises", "_waiting", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._promises: dict[PendingWrite, tuple[Replica, list[Refuse]]] = {}
        self._waiting: list[tuple[PendingWrite, Append, AppendInfo]] = []
        self._drafts: list[tuple[Any, Encoder, Message, int]] = []

    def promise(self, partition: Replica, staged: PendingWrite, refuse: Refuse) -> None:
        """A response says already that what was staged is written; `refuse` changes that if the write fails."""
        promised = self._promises.get(staged)
        if promised is None:
            self.is_open = True
            self._promises[staged] = partition, [refuse]
        else:
            promised[1].append(refuse)

    def await_write(self, staged: PendingWrite, append: Append, info: AppendInfo) -> None:
        """Have an append told that what was staged for it is written, or why it is not."""
        if staged not in self._promises:
            self.is_open = True
            self._promises[staged] = append.replica, []
        self._waiting.append((staged, append, info))

    def draft(self, reply: Any, encoder: Encoder, response: Message, correlation_id: int) -> None:
        """`reply` holds such a response, or comes behind one: a failed write encodes the response anew, in place."""
        self._drafts.append((reply, encoder, response, correlation_id))

    def commit(self) -> None:
        """Write everything. Promises whose write failed are taken back, and their replies are encoded anew."""
        if not self.is_open:
            return
        self.is_open = False
        promises, self._promises = self._promises, {}
        waiting, self._waiting = self._waiting, []
        drafts, self._drafts = self._drafts, []
        has_failed = False
        for staged, (partition, promised) in promises.items():
            error = _write(partition, staged)
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


def _write(partition: Replica, staged: PendingWrite) -> KafkaError | None:
    """Write what is staged, unless that was done already; returns what kept it from being written."""
    if partition.log.staged is not staged:  # a later append needed a new segment, and had it written
        partition.advance()
    else:
        try:
            partition.write_staged()
        except KafkaError as error:  # it stands in `PendingWrite.error`, as that of an earlier write may
            logger.error("refused to producers: %s", error.message)
        except Exception:  # a fault of ours: nobody may be told that it is there
            logger.exception("what was staged for %s-%d could not be written", partition.topic, partition.index)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the write failed")
    return staged.error
