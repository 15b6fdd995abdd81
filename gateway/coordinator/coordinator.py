"""The coordinator of one partition of `__consumer_offsets`: decide -> append -> replay -> commit -> reply.

    submit ──> decide(shard, ticket) ──> records? ──no──────────────────────────────┐
                                            │ yes                                    v
                                         append ──> replay ──> high watermark ──> replies
                                            │ failed: nothing is replayed, the replies become an error

One decision at a time. While a slow disk is written to by a thread, those that come wait in a queue. What was written
and is not yet below the high watermark holds back every later reply, reads too: nobody sees what may be lost.

A commit of offsets need not be written by itself: with others of the same turn it is staged, replayed, and written
before any answer of that turn leaves (`gateway.replication.write_batcher`). Should that write fail, or should the log
for any other reason hold something else than what was replayed, then the shard is loaded anew from its log. Until it
is there, and while it is loaded for the first time, requests hear COORDINATOR_LOAD_IN_PROGRESS, and clients come again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from headgate.gateway.coordinator.decision import NEVER, Decision, Records, Reply, Ticket
from headgate.gateway.coordinator.groups.shard import Group, Shard
from headgate.gateway.coordinator.loading import Loading
from headgate.gateway.replication.append import ACKS_ALL, COMMITTED, Append, await_offset
from headgate.gateway.replication.append_queue import Done
from headgate.gateway.replication.replica import GATHER_BYTES, Replica
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.purgatory import Purgatory, Waiting, WaitList
from headgate.gateway.runtime.scheduler import Scheduler, Timer
from headgate.gateway.runtime.time_slices import SLICE_MS, TimeSlices
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import encode_key, encode_value
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.schema import Struct
from headgate.protocol.steps import finish
from headgate.storage.log.pending_write import AppendInfo
from headgate.storage.log.validation import OWN
from headgate.storage.segment import legacy_messages
from headgate.storage.segment.file_slice import FileSlice, MessagesSlice

logger = logging.getLogger("headgate.groups")

Decide = Callable[[Shard, Ticket], Decision]
Lost = Callable[[ErrorCode], Struct]
"""The response that says of a whole request that it failed."""

CACHED_BYTES = 1 << 18
"""Of a log that is in memory, so much is read at a time on the loop."""
TICK_RETRY_MS = 500.0
"""After a tick that could not be written down; as Kafka's timers."""
LOAD_RETRY_MS = 1_000.0
MAX_QUEUED = 10_000
"""Requests behind a write of a thread. Clients wait for one each, but those that gave up and came again left theirs."""
SPLIT_BYTES = 1 << 19
"""The size at which a decision that need not be atomic goes on in another batch."""

_TRANSLATED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class Tools(NamedTuple):
    """What all coordinators of a broker share."""

    clock: Clock
    scheduler: Scheduler
    purgatory: Purgatory
    appends: WriteBatcher
    slices: TimeSlices
    commit_timeout_ms: int
    load_bytes: int
    codec: int


class Request(Ticket):
    """The ticket of one request: its reply, once there is one, and who waits for it."""

    __slots__ = ("_coordinator", "_ended", "_list", "_waiting", "reply")

    def __init__(self, coordinator: Coordinator) -> None:
        self.reply: Reply | None = None
        self._coordinator = coordinator
        self._ended = coordinator.ended
        self._list: WaitList | None = None
        self._waiting: Waiting | None = None

    @property
    def is_gone(self) -> bool:
        waiting = self._waiting
        return waiting is not None and waiting.timer is not None and waiting.done is None

    def answer(self, reply: Reply) -> None:
        """Set the reply, and wake who waits for it."""
        self.reply = reply
        if self._list is not None:
            self._coordinator.tools.purgatory.touch(self._list)

    def park(self) -> Waiting:
        """Wait for the reply, or for the end of this coordinator. Raises KafkaError if that came while deciding."""
        if self._ended is not self._coordinator.ended:
            self.expire()
        self._list = WaitList()
        self._waiting = Waiting((self._list, self._ended), NEVER, self._attempt, self.expire)
        return self._waiting

    def _attempt(self, _: WaitList) -> Any:
        self._coordinator.tools.appends.commit()  # what the reply tells of may be among it
        if self._ended is not self._coordinator.ended:
            self.reply = None
        elif self.reply is None:
            return None
        return self.expire()

    def expire(self) -> Any:
        """The reply there is; raises KafkaError(NOT_COORDINATOR) if there is none: clients look for it again."""
        if self.reply is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "the coordinator of the group is stopped, or moved")
        if isinstance(self.reply, KafkaError):
            raise self.reply
        return self.reply


class _Promise:
    """A response that tells of a staged write; `WriteBatcher` calls `refuse` if that fails."""

    __slots__ = ("_coordinator", "_lost", "_response")

    def __init__(self, coordinator: Coordinator, response: Struct, lost: Lost) -> None:
        self._coordinator = coordinator
        self._response = response
        self._lost = lost

    def refuse(self, error: ErrorCode, message: str | None) -> None:
        """The write failed: what was replayed is not there."""
        told = translated(KafkaError(error, message))
        refused = self._lost(told.code)
        for field in type(refused).fields:
            setattr(self._response, field.name, getattr(refused, field.name))
        self._coordinator.reload(told.message)


class Coordinator:
    """Owns a shard, and the log that it is the replay of. `make_shard` gives an empty one."""

    def __init__(
        self,
        partition: Replica,
        tools: Tools,
        make_shard: Callable[[], Shard],
        loaded: Callable[[Coordinator], None] = lambda _: None,
    ) -> None:
        self.partition = partition
        partition.validate = OWN
        self.tools = tools
        self.ended = WaitList()
        """Touched, and replaced, when all that were asked of this shard have to be asked again."""
        self.shard: Shard | None = None
        self._make_shard = make_shard
        self._when_loaded = loaded
        self._is_closed = False
        self._is_writing = False
        self._is_going_on = False
        self._queue: deque[tuple[str, Decide, Request | None, Lost | None]] = deque()
        self._end_offset = 0  # of what was replayed
        self._is_outdated = False  # what is being loaded: the log was cut since
        self._timer: Timer | None = None
        self._load()

    # Requests

    def submit(self, group_id: str, decide: Decide, lost: Lost | None = None) -> Any:
        """What `decide` answers: the reply itself, or a `Waiting` for it.

        With `lost` the write may be left to the end of the turn, if the decision answers this request alone.
        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, and what is decided; COORDINATOR_NOT_AVAILABLE
        where too many wait for a slow disk.
        """
        if self.shard is None:
            raise self._absent()
        ticket = Request(self)
        if self._is_writing:
            if len(self._queue) >= MAX_QUEUED:
                message = f"{MAX_QUEUED} requests wait for the disk"
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
            self._queue.append((group_id, decide, ticket, None))
            return ticket.park()
        self._decide(group_id, decide, ticket, lost)
        return ticket.park() if ticket.reply is None else ticket.expire()

    def run(self, group_id: str, decide: Decide) -> None:
        """Decide something that nobody asked for, in its turn; nothing if the shard is not there."""
        if self._is_writing:
            self._queue.append((group_id, decide, None, None))
        elif self.shard is not None:
            self._decide(group_id, decide, None, None)

    def _absent(self) -> KafkaError:
        if self._is_closed:
            return KafkaError(ErrorCode.NOT_COORDINATOR, "the coordinator of the group moved")
        where = f"{self.partition.topic}-{self.partition.index}"
        return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{where} is being loaded")

    def _decide(self, group_id: str, decide: Decide, ticket: Request | None, lost: Lost | None) -> None:
        shard = self.shard
        assert shard is not None
        try:
            decision = decide(shard, ticket or _NOBODY)
        except KafkaError as error:
            decision = Decision(replies=[(ticket, error)] if ticket is not None else [])
        if decision.records:
            self._append(group_id, decision, ticket, lost)
        elif decision.replies:
            self._reply(decision)
        shard.note_due(group_id)
        if self._timer is None or shard.due_ms < self._timer.when_ms:
            self._arm()

    # Writing

    def _append(self, group_id: str, decision: Decision, ticket: Request | None, lost: Lost | None) -> None:
        now_ms = self.tools.clock.now_ms()
        partition = self.partition
        writer = partition.writer()
        try:
            partition.check_writable()
            data = self._encode(decision, now_ms)
            if writer is not None:
                self._is_writing = True
                writer.append(data, ACKS_ALL, now_ms, self._continuation(group_id, decision, now_ms, ticket is None))
                return
            if lost is None or not _answers_only(decision, ticket) or len(data) > GATHER_BYTES:
                info = partition.append(data, ACKS_ALL, now_ms)
            else:
                info = partition.stage(data, ACKS_ALL, now_ms)
                promise = _Promise(self, decision.replies[0][1], lost)  # type: ignore[arg-type]
                staged = partition.log.staged
                if staged is not None:
                    self.tools.appends.promise(partition, staged, promise.refuse)
        except KafkaError as error:
            self._failed(group_id, decision, error, is_tick=ticket is None)
            return
        self._replay(decision, info, now_ms)

    def _encode(self, decision: Decision, now_ms: int) -> memoryview:
        try:
            return memoryview(encode(decision.records, now_ms, self.tools.codec, decision.is_atomic))
        except Exception as error:
            logger.exception("%r: what was decided is no record", self.partition)
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"no record can hold it: {error}") from error

    def _continuation(self, group_id: str, decision: Decision, now_ms: int, is_tick: bool) -> Done:
        """What happens when a thread has written."""
        ended = self.ended

        def written(result: AppendInfo | KafkaError) -> None:
            if ended is not self.ended:  # who waited was told to ask again
                return
            self._is_writing = False
            if isinstance(result, KafkaError):
                self._failed(group_id, decision, result, is_tick)
            else:
                self._replay(decision, result, now_ms)
            if self.shard is not None:
                self.shard.note_due(group_id)
            self._go_on()

        return written

    def _go_on(self) -> None:
        """Decide what came while a thread wrote, until one has to write again."""
        if self._is_going_on:  # the writer refused at once, and whoever asked it goes on
            return
        self._is_going_on = True
        while self._queue and not self._is_writing and self.shard is not None:
            group_id, decide, ticket, lost = self._queue.popleft()
            try:
                self._decide(group_id, decide, ticket, lost)
            except Exception:
                logger.exception("a request or a tick of group %r failed", group_id)
                if ticket is not None:
                    ticket.answer(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        self._is_going_on = False
        if not self._is_writing:
            self._arm()

    def _replay(self, decision: Decision, info: AppendInfo, now_ms: int) -> None:
        shard = self.shard
        assert shard is not None
        self._end_offset = info.last_offset + 1
        try:
            for key, value in decision.records:
                shard.replay(key, value, now_ms)
        except Exception:
            logger.exception("%r: what was decided cannot be replayed", self.partition)
            self.reload("a fault of the broker, see its log")
            return
        if decision.replies:
            self._reply(decision)

    def _failed(self, group_id: str, decision: Decision, error: KafkaError, is_tick: bool) -> None:
        """Nothing was replayed. Soft state is put right, the clients try again; so does a tick."""
        error = translated(error)
        if decision.failed is not None:
            decision.failed()
        for ticket, _ in decision.replies:
            ticket.answer(error)  # type: ignore[attr-defined]
        if self.partition.log.end_offset != self._end_offset:
            self.reload(error.message)
        elif is_tick:
            logger.error("what was to be written of group %r is tried again: %s", group_id, error.message)
            self.tools.scheduler.call_after(TICK_RETRY_MS, lambda: self._tick_group(group_id))

    # Replies

    def _reply(self, decision: Decision) -> None:
        """Send the replies once everything that was written before is below the high watermark.

        A reply that promises what is staged is kept back until that is written; see
        `gateway.replication.write_batcher`.
        """
        if not self.partition.fsync_before_commit or self.partition.high_watermark >= self._end_offset:
            for ticket, reply in decision.replies:
                ticket.answer(reply)  # type: ignore[attr-defined]
            return
        partition, end_offset, ended = self.partition, self._end_offset, self.ended

        def committed(append: Append) -> None:
            if append.state is COMMITTED:
                self.tools.purgatory.complete(waiting)

        def done(is_there: Any) -> None:
            message = f"it was not written to every in-sync replica within {self.tools.commit_timeout_ms} ms"
            late = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
            if ended is self.ended:
                for ticket, reply in decision.replies:
                    ticket.answer(reply if is_there is True else late)  # type: ignore[attr-defined]

        deadline_ms = self.tools.clock.monotonic_ms() + self.tools.commit_timeout_ms
        waiting = Waiting((ended,), deadline_ms, lambda _: True, lambda: partition.high_watermark >= end_offset)
        await_offset(partition, end_offset, committed)
        self.tools.purgatory.park(waiting, done)

    # Time

    def _arm(self) -> None:
        """Have one timer, on the group that is due first."""
        shard = self.shard
        # Not in the past: what the scheduler finds there it runs in the same turn, and nobody else has one
        when_ms = NEVER if shard is None else max(shard.due_ms, self.tools.clock.monotonic_ms())
        if self._timer is not None:
            if self._timer.when_ms <= when_ms and self._timer.callback is not None:
                return  # it may be too early
            self._timer.cancel()
        self._timer = None if when_ms == NEVER else self.tools.scheduler.call_at(when_ms, self._tick)

    def _tick(self) -> None:
        """Tick the groups that are due, for about a millisecond."""
        self._timer = None
        now_ms = self.tools.clock.monotonic_ms()
        while self.shard is not None and not self._is_writing:
            group_id = self.shard.take_due(now_ms)
            if group_id is None:
                break
            self._tick_group(group_id)
            if self.tools.clock.monotonic_ms() - now_ms > SLICE_MS:
                break
        if not self._is_writing:
            self._arm()

    def _tick_group(self, group_id: str) -> None:
        try:
            self.run(group_id, lambda shard, _: _tick(shard, group_id, self.tools.clock.monotonic_ms()))
        except Exception:
            logger.exception("group %r cannot be ticked; it is tried again in %d ms", group_id, TICK_RETRY_MS)
            self.tools.scheduler.call_after(TICK_RETRY_MS, lambda: self._tick_group(group_id))

    # Loading and unloading

    def close(self) -> None:
        """Coordinate no more: who waits hears NOT_COORDINATOR."""
        self._is_closed = True
        self._end()

    def reload(self, why: str) -> None:
        """The log does not hold what was replayed: begin anew from what it holds."""
        if self.shard is not None:
            logger.error("%r is loaded anew: %s", self.partition, why)
            self._end()
            self.tools.scheduler.call_soon(self._load)

    def log_was_truncated(self) -> None:
        """The log ends earlier than it did: groups are what is left of it says, and their members are told so."""
        self._is_outdated = True
        self.reload("its log was cut")

    def _end(self) -> None:
        self.shard = None
        self._is_writing = False
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ended, self.ended = self.ended, WaitList()
        self.tools.purgatory.touch(ended)

    def _load(self) -> None:
        if self._is_closed or self.shard is not None:
            return
        self._is_outdated = False
        self.tools.appends.commit()  # what is staged has to be in the file
        log = self.partition.log
        loading = Loading(self._make_shard(), log.start_offset)
        if log.end_offset == log.start_offset:
            self._loaded(loading, 0.0)
        else:
            _Load(self, loading, self._loaded).start()

    def load_failed(self, error: BaseException) -> None:
        """It cannot be read; until it can, clients are told to come again."""
        logger.error("%r cannot be loaded, and is tried again: %s", self.partition, error)
        self.tools.scheduler.call_after(LOAD_RETRY_MS, self._load)

    def _loaded(self, loading: Loading, began_ms: float) -> None:
        if self._is_closed:
            return
        if self._is_outdated:
            self._load()
            return
        now_ms = self.tools.clock.monotonic_ms()
        self.shard = loading.shard
        self._end_offset = self.partition.log.end_offset
        if loading.replayed:
            count, took_ms = loading.replayed, now_ms - began_ms
            where = self.partition.topic, self.partition.index
            logger.info("%s-%d: %d records loaded in %d ms", *where, count, took_ms)
        if loading.skipped:
            logger.error("%r: %d records skipped; %s", self.partition, loading.skipped, loading.problem)
        if loading.unknown:
            logger.warning("%r: %d records are of kinds that are not served", self.partition, loading.unknown)
        self._arm()
        self._when_loaded(self)


class _Load:
    """One way through a log: pieces are read, by a thread if they are not in memory, and replayed in slices."""

    def __init__(self, coordinator: Coordinator, loading: Loading, done: Callable[[Loading, float], None]) -> None:
        self._coordinator = coordinator
        self._tools = coordinator.tools
        self._loading = loading
        self._done = done
        self._began_ms = self._tools.clock.monotonic_ms()
        log = coordinator.partition.log
        self._segments = deque((segment, segment.size) for segment in log.segments if segment.size)
        self._slice: FileSlice | None = None
        self._position = 0

    def start(self) -> None:
        """Read the next piece and replay it, and so on; at the end of the log, be done."""
        if self._slice is None and not self._segments:
            clocks = self._loading.shard.start_clocks(self._tools.clock.monotonic_ms())
            self._tools.slices.add(clocks, lambda: self._done(self._loading, self._began_ms))
            return
        try:
            self._read()
        except (OSError, KafkaError) as error:
            self._has_read(error)

    def _read(self) -> None:
        if self._slice is None:
            segment, size = self._segments.popleft()
            self._slice, self._position = segment.slice(0, size), 0
            self._loading.forget_rest()
        piece, position, wanted = self._slice, self._position, self._loading.wanted()
        if isinstance(piece, MessagesSlice):
            convert = legacy_messages.batches_steps(piece, position, self._tools.load_bytes)
            self._tools.scheduler.reads(piece.disk).in_thread(lambda: finish(convert), self._has_converted)
            return
        left = piece.length - position
        data = piece.read_cached(position, min(left, max(CACHED_BYTES, wanted)))
        if data is None:
            length = max(self._tools.load_bytes, wanted)
            self._tools.scheduler.reads(piece.disk).in_thread(lambda: piece.read(position, length), self._has_read)
        else:
            self._has_read(bytes(data))

    def _has_converted(self, made: tuple[bytearray, int] | BaseException) -> None:
        if isinstance(made, BaseException):
            self._has_read(made)
            return
        data, end = made
        self._position = end - len(data)  # as if so many bytes had been read up to there
        self._has_read(bytes(data))

    def _has_read(self, data: bytes | BaseException) -> None:
        if isinstance(data, BaseException) or not data:
            if self._slice is not None:
                self._slice.release()
            self._coordinator.load_failed(data or OSError("a segment file is shorter than it was"))
            return
        assert self._slice is not None
        self._position += len(data)
        if self._position >= self._slice.length:
            self._slice.release()
            self._slice = None
        self._tools.slices.add(self._loading.replay(data), self.start)


class _Nobody(Request):
    """The ticket of what nobody asked for."""

    __slots__ = ()

    def __init__(self) -> None:
        """Without a coordinator: no machine keeps it."""

    def answer(self, reply: Reply) -> None:
        pass


_NOBODY = _Nobody()
_NOTHING = Decision()


def _tick(shard: Shard, group_id: str, now_ms: float) -> Decision:
    group: Group | None = shard.groups.get(group_id)
    return _NOTHING if group is None else group.tick(shard, now_ms)


def _answers_only(decision: Decision, ticket: Request | None) -> bool:
    replies = decision.replies
    return len(replies) == 1 and replies[0][0] is ticket and not isinstance(replies[0][1], KafkaError)


def translated(error: KafkaError) -> KafkaError:
    """What a client hears if the log refuses, as in Kafka: it looks for the coordinator again, or gives up.

    Source: org.apache.kafka.coordinator.common.runtime.CoordinatorOperationExceptionHelper.
    """
    return KafkaError(_TRANSLATED.get(error.code, ErrorCode.COORDINATOR_NOT_AVAILABLE), error.message)


def encode(records: Records, now_ms: int, codec: int, is_atomic: bool = True) -> bytearray:
    """One batch of magic 2, without a producer; several if they are many and need not stay together."""
    rows: list[Record] = []
    out, size = bytearray(), 0
    for key, value in records:
        row = Record(-1, now_ms, encode_key(key), None if value is None else encode_value(value))
        size += len(row.key or b"") + len(row.value or b"")
        rows.append(row)
        if size > SPLIT_BYTES and not is_atomic:
            out += batch.build(rows, compression=codec)
            rows, size = [], 0
    if rows:
        out += batch.build(rows, compression=codec)
    return out
