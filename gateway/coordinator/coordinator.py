"""The coordinator of one partition of an internal topic: decide -> append -> replay -> commit -> reply.

    submit ──> decide(shard, ticket) ──> records? ──no──────────────────────────────────────┐
                                            │ yes                                            v
                                         append ──> replay ──> high watermark ──> replies, then effects
                                            │ failed: nothing is replayed, the replies become an error

Decisions run one at a time. While a thread writes to a slow disk, later requests wait in a queue. Records above the
high watermark hold back every later reply, replies to reads too: no client sees state that may be lost.

A small write may be staged with others of the same turn. The coordinator replays the staged write; the
`gateway.replication.write_batcher` writes the group before any reply of the turn leaves. If that write fails, or the
log differs from the replayed records for another reason, the shard is loaded again from its log. During a load requests
get COORDINATOR_LOAD_IN_PROGRESS, and clients retry.

The shard ends with the lead: the client looks for its coordinator again. A later leader epoch of the same lead changes
nothing: the set has lost or found a follower, and the log is the same. Effects have the epoch of their own time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, Generic, TypeVar

from headgate.gateway.coordinator.decision import NEVER, Decision, Reply, Ticket
from headgate.gateway.coordinator.internal_topic import InternalTopic
from headgate.gateway.coordinator.log_replay import LogReplay
from headgate.gateway.coordinator.shard import CoordinatorShard
from headgate.gateway.coordinator.shard_loader import CoordinatorServices, load
from headgate.gateway.replication.append import ACKS_ALL, await_offset
from headgate.gateway.replication.replica import GATHER_BYTES, Replica
from headgate.gateway.runtime.scheduler import Timer
from headgate.gateway.runtime.tasks import (
    SLICE_MS,
    Ask,
    Changes,
    Outcome,
    Running,
    Task,
    WaitList,
    next_turn,
    sleep,
    value_of,
)
from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.protocol.schema import Struct
from headgate.storage.log.pending_write import AppendInfo
from headgate.storage.log.validation import BROKER, BatchFacts

S = TypeVar("S", bound=CoordinatorShard)
R = TypeVar("R", bound=Struct)

FailureResponse = Callable[[ErrorCode], Struct]
"""The response of a request that failed as a whole."""
Ended = Callable[[Any], None]
Perform = Callable[[Sequence[object], int], None]
"""(effects of one decision, the present leader epoch): carry the effects out."""

TICK_RETRY_MS = 500.0
"""The pause before the retry of a tick whose write failed, as for Kafka's timers."""
LOAD_RETRY_MS = 1_000.0
MAX_QUEUED = 10_000
"""The limit of requests that wait for a thread's write. A client waits for one request, but a client that gives up and
reconnects leaves its first request in the queue."""

_MORE: Any = object()
_END: Any = object()
"""Replies to `run_each`: a decision of many, and the end of them."""

_TRANSLATED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    # The log fences producers and coordinators of their transactions: the client has to see these errors
    **{
        code: code
        for code in (
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        )
    },
}


class RequestTicket(Ticket):
    """The ticket of one request: its reply once decided, and the wait for it."""

    __slots__ = ("_coordinator", "_decided", "_ended", "is_gone", "reply")

    def __init__(self, coordinator: Coordinator[Any]) -> None:
        self.reply: Reply | None = None
        self.is_gone = False
        self._coordinator = coordinator
        self._ended = coordinator.ended
        self._decided: WaitList | None = None

    def answer(self, reply: Reply) -> None:
        """Set the reply, and continue the request that waits for it."""
        self.reply = reply
        if self._decided is not None:
            self._coordinator.services.tasks.touch(self._decided)

    def later(self) -> Task[Any]:
        """Wait for the reply or the end of the shard. Raises KafkaError if the shard ended while deciding."""
        if self._ended is not self._coordinator.ended:
            self.value()
        self._decided = WaitList()
        return self._wait(Changes((self._decided, self._ended)))

    def _wait(self, changes: Changes) -> Task[Any]:
        coordinator = self._coordinator
        try:
            while self.reply is None and (yield changes) is not None:
                coordinator.services.batcher.write_all()  # the reply may depend on a staged write
                if self._ended is not coordinator.ended:
                    self.reply = None
                    break
        finally:
            self.is_gone = True
        return self.value()

    def value(self) -> Any:
        """Return the reply, or raise it if it is a KafkaError.

        Raises KafkaError(NOT_COORDINATOR) without a reply: the client looks for its coordinator again.
        """
        if self.reply is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "the coordinator is stopped, or moved")
        if isinstance(self.reply, KafkaError):
            raise self.reply
        return self.reply


class _StagedReply:
    """A response that depends on a staged write; `WriteBatcher` calls `refuse` if that write fails."""

    __slots__ = ("_coordinator", "_failure_response", "_response")

    def __init__(self, coordinator: Coordinator[Any], response: Struct, failure_response: FailureResponse) -> None:
        self._coordinator = coordinator
        self._response = response
        self._failure_response = failure_response

    def refuse(self, error: ErrorCode, message: str | None) -> None:
        """Replace the response by an error: the write failed, so the log lacks the replayed records."""
        failure = translated(KafkaError(error, message))
        refused = self._failure_response(failure.code)
        for field in type(refused).fields:
            setattr(self._response, field.name, getattr(refused, field.name))
        self._coordinator.reload(failure.message)


class _State(Enum):
    """The states of a coordinator; it has a shard in the last two."""

    CLOSED = auto()
    UNLOADED = auto()
    LOADING = auto()
    OUTDATED = auto()
    """Loading, but the log was truncated since the load began."""
    ACTIVE = auto()
    WRITING = auto()
    """A thread writes for the shard; requests wait in the queue."""


_CLOSED, _UNLOADED, _LOADING, _OUTDATED, _ACTIVE, _WRITING = _State


class Coordinator(Generic[S]):
    """Owns a shard and the log from which the shard is replayed.

    make_shard  returns an empty shard
    loaded      is called after each load
    perform     carries out the effects of decisions
    """

    def __init__(
        self,
        replica: Replica,
        services: CoordinatorServices,
        topic: InternalTopic,
        make_shard: Callable[[], S],
        loaded: Callable[[Coordinator[S]], None] = lambda _: None,
        perform: Perform = lambda _, __: None,
    ) -> None:
        self.replica = replica
        self.services = services
        self.ended = WaitList()
        """Touched and replaced when the shard ends: clients have to send all its requests again."""
        self.shard: S | None = None
        self._topic = topic
        self._make_shard = make_shard
        self._when_loaded = loaded
        self._perform = perform
        self._state = _UNLOADED
        self._unfinished_writes = 0  # writes of threads, also for a shard that has ended
        self._queue: deque[tuple[str, Callable[[S, Ticket], Decision], RequestTicket | None]] = deque()
        self._effects: deque[tuple[int, Decision]] = deque()  # (end offset that must be committed, decision)
        self._performing: Running[None] | None = None
        self._end_offset = 0  # the end of the replayed records
        self._timer: Timer | None = None
        self._timer_ms = NEVER
        self._load()

    @property
    def committed_shard(self) -> S | None:
        """The shard, if all that it has replayed is below the high watermark, and nothing more is being written."""
        return None if self._state is _WRITING or self.replica.high_watermark < self._end_offset else self.shard

    # Requests

    def submit(
        self,
        key: str,
        decide: Callable[[S, Ticket], Decision],
        failure_response: Callable[[ErrorCode], R] | None = None,
    ) -> Outcome[R]:
        """Return the reply that `decide` decides, or a task that waits for the reply.

        With `failure_response` the write may wait for the end of the turn, if the decision answers this request alone.

        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS; NOT_COORDINATOR; COORDINATOR_NOT_AVAILABLE if too many requests
        wait for a slow disk; and the decided error.
        """
        if self.shard is None:
            raise self._absent()
        ticket = RequestTicket(self)
        if self._state is _WRITING:
            if len(self._queue) >= MAX_QUEUED:
                message = f"{MAX_QUEUED} requests wait for the disk"
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
            self._queue.append((key, decide, ticket))
            return ticket.later()
        self._start(self._decide(key, decide, ticket, failure_response))
        outcome: Outcome[R] = ticket.later() if ticket.reply is None else ticket.value()
        return outcome

    def decide_alone(self, key: str, decide: Callable[[S, Ticket], Decision]) -> None:
        """Decide without a request, after the requests in the queue; do nothing without a shard."""
        if self._state is _WRITING:
            self._queue.append((key, decide, None))
        elif self.shard is not None:
            self._start(self._decide(key, decide, None))

    def run_each(self, shard: S, decisions: Iterator[Decision], resume: Ended | None = None) -> None:
        """Run decisions of a shard one after another; requests get a turn between any two of them.

        `resume` is called once all of them are committed, or with the first error: the log has refused one of them, or
        the shard has ended before the last one. Without it the error is logged.
        """
        self.services.tasks.start(self._run_each(shard, decisions), resume or self._log_failure)

    def _run_each(self, shard: S, decisions: Iterator[Decision]) -> Task[None]:
        failure: KafkaError | None = None

        def decide(_: S, ticket: Ticket) -> Decision:
            decision = next(decisions, None)
            if decision is None:
                return Decision(replies=[(ticket, _END)])
            decision.replies = [*decision.replies, (ticket, _MORE)]
            return decision

        while self.shard is shard:
            pause_ms = 0.0
            try:
                if (yield from value_of(self.submit("", decide))) is _END:
                    break
            except KafkaError as error:
                failure, pause_ms = failure or without_frames(error), TICK_RETRY_MS
            yield sleep(self.services.scheduler, pause_ms)
        else:
            failure = failure or self._absent()
        if failure is not None:
            raise failure

    def _log_failure(self, error: Exception | None) -> None:
        if error is not None:
            message = "%r: a write of the broker itself failed, and follows with a later one: %s"
            self._topic.logger.error(message, self.replica, error)

    def _absent(self) -> KafkaError:
        if self._state is _CLOSED:
            return KafkaError(ErrorCode.NOT_COORDINATOR, f"the coordinator of the {self._topic.key_name} moved")
        where = f"{self.replica.topic}-{self.replica.index}"
        return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{where} is being loaded")

    def _decide(
        self,
        key: str,
        decide: Callable[[S, Ticket], Decision],
        ticket: RequestTicket | None,
        failure_response: FailureResponse | None = None,
    ) -> Task[None] | None:
        """Decide, write and answer; return the rest as a task if a thread has to write."""
        shard = self.shard
        assert shard is not None
        try:
            decision = decide(shard, ticket or _NOBODY)
        except KafkaError as error:
            decision = Decision(replies=[(ticket, without_frames(error))] if ticket is not None else [])
        write = None
        if decision.records or decision.marker:
            write = self._append(key, decision, ticket, failure_response)
        else:
            if decision.replies:
                self._reply(decision)
            if decision.effects:
                self._defer_effects(decision)
        shard.note_due(key)
        if shard.timers.due_ms < self._timer_ms:
            self._arm()
        return write

    # Writing

    def _append(
        self, key: str, decision: Decision, ticket: RequestTicket | None, failure_response: FailureResponse | None
    ) -> Task[None] | None:
        now_ms = self.services.clock.now_ms()
        replica = self.replica
        writer = replica.writer()
        try:
            replica.check_writable()
            data = self._encode(decision, now_ms)
            facts = BatchFacts(decision.marker, decision.has_raised_epoch)
            if writer is not None:
                write = partial(writer.append, data, ACKS_ALL, now_ms, origin=BROKER, facts=facts)
                return self._write_by_thread(key, decision, now_ms, write, is_tick=ticket is None)
            if failure_response is None or not _answers_only(decision, ticket) or len(data) > GATHER_BYTES:
                info = replica.append(data, ACKS_ALL, now_ms, BROKER, facts)
            else:
                info = replica.stage_fresh(data, facts, now_ms)
                staged = replica.log.staged
                if staged is not None:
                    response: Any = decision.replies[0][1]
                    promise = _StagedReply(self, response, failure_response)
                    self.services.batcher.promise(replica, staged, promise.refuse)
        except KafkaError as error:
            self._failed(key, decision, without_frames(error), is_tick=ticket is None)
            return None
        self._replay(decision, info, now_ms)
        return None

    def _encode(self, decision: Decision, now_ms: int) -> memoryview:
        try:
            return memoryview(self._topic.encode(decision, now_ms))
        except Exception as error:
            self._topic.logger.exception("%r: a decision has no encoding", self.replica)
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"no record can hold it: {error}") from error

    def _write_by_thread(self, key: str, decision: Decision, now_ms: int, write: Ask, *, is_tick: bool) -> Task[None]:
        """Replay a decision once a thread has written it."""
        ended = self.ended
        self._unfinished_writes += 1
        try:
            result: AppendInfo | KafkaError = yield write
        except KafkaError as error:
            result = without_frames(error)
        self._unfinished_writes -= 1
        if ended is not self.ended:  # the clients have the answer to retry
            self.services.scheduler.call_soon(self._load)
            return
        if isinstance(result, KafkaError):
            self._failed(key, decision, result, is_tick)
        else:
            refusal = self._too_few_in_sync(decision)
            if refusal is not None:
                decision.replies = [(ticket, refusal) for ticket, _ in decision.replies]
            self._replay(decision, result, now_ms)
        if self.shard is not None:
            self.shard.note_due(key)

    def _start(self, write: Task[None] | None) -> None:
        """Have a thread write a decision; the requests that come meanwhile wait in the queue."""
        if write is not None:
            self._state = _WRITING
            self.services.tasks.start(self._write_queued(write))

    def _write_queued(self, write: Task[None] | None) -> Task[None]:
        ended = self.ended
        try:
            while write is not None or (self._queue and ended is self.ended):
                if write is not None:
                    yield from write
                    write = None
                else:
                    write = self._decide_next()
        finally:
            if ended is self.ended:
                self._state = _ACTIVE
                self._arm()

    def _decide_next(self) -> Task[None] | None:
        key, decide, ticket = self._queue.popleft()
        try:
            return self._decide(key, decide, ticket)
        except Exception:
            self._topic.logger.exception("a request or a tick of %s %r failed", self._topic.key_name, key)
            if ticket is not None:
                ticket.answer(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            return None

    def _replay(self, decision: Decision, info: AppendInfo, now_ms: int) -> None:
        shard = self.shard
        assert shard is not None
        self._end_offset = info.last_offset + 1
        producer = decision.producer
        try:
            for key, value in decision.records:
                shard.replay(key, value, now_ms, producer)
            if producer is not None and decision.marker is not None:
                shard.replay_marker(producer, decision.marker.is_commit)
        except Exception:
            self._topic.logger.exception("%r: a decision cannot be replayed", self.replica)
            self.reload("a fault of the broker, see its log")
            return
        if decision.replies:
            self._reply(decision)
        if decision.effects:
            self._defer_effects(decision)

    def _failed(self, key: str, decision: Decision, error: KafkaError, is_tick: bool) -> None:
        """Answer with the error: nothing was replayed. `Decision.failed` corrects soft state; a tick is retried."""
        error = translated(error)
        if decision.failed is not None:
            decision.failed()
        for ticket, _ in decision.replies:
            ticket.answer(error)  # type: ignore[attr-defined]
        if self.replica.log.end_offset != self._end_offset:
            self.reload(error.message)
        elif is_tick:
            message = "the write of a tick of %s %r failed; the broker retries it: %s"
            self._topic.logger.error(message, self._topic.key_name, key, error.message)
            self.services.scheduler.call_after(TICK_RETRY_MS, lambda: self._tick_key(key))

    # Replies and effects

    def _reply(self, decision: Decision) -> None:
        """Send the replies once everything written so far is below the high watermark.

        The `WriteBatcher` holds back a reply that depends on a staged write.
        """
        if self.replica.commits_at_write or self.replica.high_watermark >= self._end_offset:
            for ticket, reply in decision.replies:
                ticket.answer(reply)  # type: ignore[attr-defined]
            return
        self.services.tasks.start(self._reply_committed(decision))

    def _reply_committed(self, decision: Decision) -> Task[None]:
        """Send the replies once the records are below the high watermark, or the wait has timed out."""
        deadline_ms = self.services.clock.monotonic_ms() + self._topic.write_timeout_ms
        ended = self.ended
        is_in_time = yield from self._await_high_watermark(self._end_offset, deadline_ms)
        if ended is not self.ended:
            return
        error = self._too_few_in_sync(decision)
        if not is_in_time:
            message = f"not every in-sync replica has it; the longest wait is {self._topic.write_timeout_ms} ms"
            error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
        for ticket, reply in decision.replies:
            ticket.answer(error or reply)  # type: ignore[attr-defined]

    def _too_few_in_sync(self, decision: Decision) -> KafkaError | None:
        """The error of a write that too few replicas have (min.insync.replicas): the client sends the request again.

        The records stay, in the log as in the shard.
        """
        if not decision.records and decision.marker is None:
            return None
        try:
            self.replica.check_in_sync(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        except KafkaError as error:
            return translated(error)
        return None

    def _await_high_watermark(self, end_offset: int, deadline_ms: float) -> Task[bool]:
        """Whether the high watermark reaches the offset before the deadline, and before the shard ends.

        False as well if appends that wait are failed: the set cannot be changed, and its followers are gone.
        """
        replica, ended, passed = self.replica, self.ended, WaitList()
        changes = Changes((passed, ended), deadline_ms)
        append = await_offset(replica, end_offset, lambda _: self.services.tasks.touch(passed))
        if not append.has_ended:
            yield changes
        return ended is self.ended and replica.high_watermark >= end_offset

    def _defer_effects(self, decision: Decision) -> None:
        """Perform the effects after all earlier ones, once everything written so far is below the high watermark."""
        self._effects.append((self._end_offset, decision))
        if self._performing is None:
            is_staged = self.replica.log.staged is not None
            self._performing = self.services.tasks.start(self._perform_effects(is_staged=is_staged), self._performed)

    def _perform_effects(self, *, is_staged: bool) -> Task[None]:
        """Perform the committed effects in the order of their decisions. A failed effect does not stop later ones.

        Effects never run in the turn of the decision: a request that an effect submits must not meet a decision that is
        half done. `is_staged`: the end of the turn writes what the first effect waits for.
        """
        ended = self.ended
        while self._effects:
            end_offset = self._effects[0][0]
            if is_staged or self.replica.high_watermark >= end_offset:
                is_staged = False
                yield next_turn(self.services.scheduler)
            elif not (yield from self._await_high_watermark(end_offset, NEVER)):
                if ended is not self.ended or self.services.scheduler.is_over:
                    return
                yield sleep(self.services.scheduler, TICK_RETRY_MS)
                continue
            self.services.batcher.write_all()  # the first effect may wait for nothing else
            while ended is self.ended and self._effects and self.replica.high_watermark >= self._effects[0][0]:
                _, decision = self._effects.popleft()
                try:
                    self._perform(decision.effects, self.replica.leader_epoch)
                except Exception:
                    self._topic.logger.exception("%r: an effect failed", self.replica)
            if ended is not self.ended:
                return

    def _performed(self, _: object) -> None:
        self._performing = None

    # Time

    def _arm(self) -> None:
        """Set one timer, for the key that is due first."""
        shard = self.shard
        # Not in the past: the scheduler would run such a timer in the same turn, before any other work
        when_ms = NEVER if shard is None else max(shard.timers.due_ms, self.services.clock.monotonic_ms())
        if self._timer is not None:
            if self._timer.when_ms <= when_ms and self._timer.callback is not None:
                return  # the timer may fire too early
            self._timer.cancel()
        self._timer_ms = when_ms
        self._timer = None if when_ms == NEVER else self.services.scheduler.call_at(when_ms, self._tick)

    def _tick(self) -> None:
        """Tick the keys that are due, for about a millisecond."""
        self._timer, self._timer_ms = None, NEVER
        now_ms = self.services.clock.monotonic_ms()
        while self.shard is not None and self._state is not _WRITING:
            key = self.shard.take_due(now_ms)
            if key is None:
                break
            self._tick_key(key)
            if self.services.clock.monotonic_ms() - now_ms > SLICE_MS:
                break
        if self._state is not _WRITING:
            self._arm()

    def _tick_key(self, key: str) -> None:
        try:
            self.decide_alone(key, lambda shard, _: shard.tick(key, self.services.clock.monotonic_ms()))
        except Exception:
            message = "the tick of %s %r failed; the broker retries it in %d ms"
            self._topic.logger.exception(message, self._topic.key_name, key, TICK_RETRY_MS)
            self.services.scheduler.call_after(TICK_RETRY_MS, lambda: self._tick_key(key))

    # Loading and unloading

    def close(self) -> None:
        """End the shard: waiting clients get NOT_COORDINATOR."""
        self._end(_CLOSED)

    def reload(self, why: str) -> None:
        """Load the shard again: the log differs from the replayed records."""
        if self.shard is not None:
            self._topic.logger.error("%r is loaded again: %s", self.replica, why)
            self._end(_UNLOADED)
            self.services.scheduler.call_soon(self._load)

    def log_was_truncated(self) -> None:
        """Load the shard again from the rest of the truncated log; clients get an error and retry."""
        if self._state is _LOADING:
            self._state = _OUTDATED
        self.reload("its log was truncated")

    def _end(self, state: _State) -> None:
        self._state, self.shard = state, None
        self._queue.clear()
        self._effects.clear()
        if self._performing is not None:
            self._performing.cancel()
            self._performing = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_ms = None, NEVER
        ended, self.ended = self.ended, WaitList()
        self.services.tasks.touch(ended)

    def _load(self) -> None:
        # The shard would miss a batch that lands after the load: so the end of that write calls this again
        if self._state is not _UNLOADED or self._unfinished_writes:
            return
        self._state = _LOADING
        self.services.batcher.write_all()  # staged batches have to be in the file
        log, began_ms = self.replica.log, self.services.clock.monotonic_ms()
        replay = LogReplay(self._make_shard(), log.start_offset)
        if log.end_offset == log.start_offset:
            self._loaded(replay, 0.0)
        else:
            loading = load(log, replay, self.services, self._topic.load_buffer_bytes)
            self.services.tasks.start_later(loading, partial(self._ended_load, replay, began_ms))

    def _ended_load(self, replay: LogReplay[S], began_ms: float, error: Exception | None) -> None:
        if error is None:
            self._loaded(replay, began_ms)
            return
        if self._state is not _CLOSED:
            self._state = _UNLOADED
        self._topic.logger.error("%r cannot be loaded; the broker retries: %s", self.replica, error)
        self.services.scheduler.call_after(LOAD_RETRY_MS, self._load)

    def _loaded(self, replay: LogReplay[S], began_ms: float) -> None:
        if self._state is _CLOSED:
            return
        if self._state is _OUTDATED:
            self._state = _UNLOADED
            self._load()
            return
        now_ms, logger = self.services.clock.monotonic_ms(), self._topic.logger
        self._state, self.shard = _ACTIVE, replay.shard
        self._end_offset = self.replica.log.end_offset
        if replay.replayed:
            where = self.replica.topic, self.replica.index
            logger.info("%s-%d: %d records loaded in %d ms", *where, replay.replayed, now_ms - began_ms)
        if replay.skipped:
            logger.error("%r: %d records skipped; %s", self.replica, replay.skipped, replay.problem)
        if replay.unknown:
            logger.warning("%r: %d records have types that this broker does not serve", self.replica, replay.unknown)
        self._arm()
        self._when_loaded(self)


class _Nobody(RequestTicket):
    """The ticket of a decision without a request."""

    __slots__ = ()

    def __init__(self) -> None:
        """No coordinator is needed: no shard keeps this ticket."""

    def answer(self, reply: Reply) -> None:
        pass


_NOBODY = _Nobody()


def _answers_only(decision: Decision, ticket: RequestTicket | None) -> bool:
    replies = decision.replies
    return len(replies) == 1 and replies[0][0] is ticket and not isinstance(replies[0][1], KafkaError)


def translated(error: KafkaError) -> KafkaError:
    """The client's error for a refusal of the log: the client looks for its coordinator again, or gives up.

    Source: org.apache.kafka.coordinator.common.runtime.CoordinatorOperationExceptionHelper.
    """
    return KafkaError(_TRANSLATED.get(error.code, ErrorCode.COORDINATOR_NOT_AVAILABLE), error.message)
