"""Incremental fetch sessions (KIP-227; topic ids KIP-516): a consumer of many partitions names only the changed ones.

A fetch of epoch 0 names all partitions and opens a session; epochs 1, 2, 3 ... change it; epoch -1 ends it, or wants
none. The session remembers the last sent state of each partition, so that a response has only the partitions with news.

An incremental fetch plans only the *dirty* partitions. A partition becomes dirty when a fetch names it, or when it
changes. A plan that finds nothing to read makes the partition clean: the session then watches the partition's wait list
(`gateway.runtime.tasks.Watch`). The next change marks the partition dirty and ends the watch, so that a change
costs each session one mark, however long the session sleeps. A parked fetch waits on one list of its session.

While a fetch is in progress, its `FetchTurn` has the partitions that were dirty at its beginning; later marks make them
dirty again. A turn that ends without a response returns its partitions to the session's next fetch.

Pure: time is passed in, in milliseconds of any clock that never goes back.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import attrgetter
from random import Random
from typing import NoReturn

from headgate.gateway.runtime.tasks import WaitList
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData
from headgate.protocol.steps import Steps, finish

TopicKey = str | bytes
"""A topic as in fetches: its name, or from version 13 its id."""

NO_SESSION = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
FIRST_TOPIC_ID_VERSION = 13
LAST_EPOCH = 0x7FFF_FFFF

# As in Kafka: another session may replace a session only after this age, or this idle time.
EVICTION_MS = 120_000
# Kafka has no such limits. A partition takes about 470 bytes; a client with more partitions fetches without a session.
MAX_SESSION_PARTITIONS = 20_000
MAX_TOTAL_PARTITIONS = 250_000
FEW = 64
"""A fetch that names, or plans, more partitions goes through them in slices."""


class FetchSessions:
    """The sessions of one broker, at most `max_slots` of them."""

    def __init__(
        self,
        max_slots: int,
        random: Random,
        max_total_partitions: int = MAX_TOTAL_PARTITIONS,
        touch: Callable[[WaitList], None] = lambda _: None,
        run_in_slices: Callable[[Steps[None]], object] = finish,
    ) -> None:
        """`touch`: `Tasks.touch`, which wakes a parked fetch whose session was closed or continued elsewhere.

        `run_in_slices`: `Tasks.start_later`.
        """
        self._run_in_slices = run_in_slices
        self._touch_list = touch
        self._max_slots = max_slots
        self._max_total_partitions = max_total_partitions
        self._random = random
        self._sessions: dict[int, _Session] = {}  # the least recently used first
        self._evictable: list[tuple[bool, int, int]] = []
        """(is a follower's, size, session id) of sessions old enough to be replaced, the least valuable first."""
        self.total_partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, version: int, now_ms: float) -> FetchTurn:
        """Begin one fetch, with or without a session.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        uses_topic_ids = version >= FIRST_TOPIC_ID_VERSION
        wanted = _wanted(request.topics, uses_topic_ids)
        if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._continue(request, wanted, uses_topic_ids, now_ms)
        if request.session_id != NO_SESSION:
            self._remove(self._sessions.get(request.session_id))
        session = None
        if request.session_epoch == INITIAL_EPOCH and wanted:
            is_follower = max(request.replica_id, request.replica_state.replica_id) >= 0
            session = self._open(len(wanted), uses_topic_ids, is_follower, now_ms)
        if session is None:
            return FetchTurn(wanted)
        session.isolation_level = request.isolation_level
        turn = session.turn = SessionTurn(session, wanted, is_incremental=False)
        return self._update(turn, session, wanted, (), now_ms)

    def _continue(self, request: FetchRequest, wanted: Wanted, uses_topic_ids: bool, now_ms: float) -> FetchTurn:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {request.session_id} does not exist")
        if session.epoch != request.session_epoch:
            message = f"fetch session {session.id} is at epoch {session.epoch}, not {request.session_epoch}"
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, message)
        if session.uses_topic_ids != uses_topic_ids:
            form = "ids" if session.uses_topic_ids else "names"
            message = f"fetch session {session.id} uses topic {form}, unlike this version"
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, message)
        if session.turn is not None:
            session.turn.return_partitions()
            self._touch_list(session.changed)
        session.epoch = session.epoch + 1 if session.epoch < LAST_EPOCH else INITIAL_EPOCH + 1
        if session.isolation_level != request.isolation_level:  # each partition may have another readable end
            session.isolation_level = request.isolation_level
            session.dirty.update(dict.fromkeys(session.partitions.values()))
        turn = session.turn = SessionTurn(session, [], is_incremental=True)
        return self._update(turn, session, wanted, request.forgotten_topics_data, now_ms)

    def _update(
        self,
        turn: SessionTurn,
        session: _Session,
        wanted: Wanted,
        forgotten: Sequence[ForgottenTopic],
        now_ms: float,
    ) -> SessionTurn:
        """Apply the partitions that a fetch names: at once if they are few, else in the steps of `pending_update`."""
        if len(wanted) <= FEW and not forgotten:
            session.name(wanted, turn)
            self._end_update(turn, session, now_ms)
        else:
            turn.pending_update = self._update_steps(turn, session, wanted, forgotten, now_ms)
            if len(wanted) + len(forgotten) <= FEW >= sum(len(topic.partitions) for topic in forgotten):
                turn.finish_update()
        return turn

    def _update_steps(
        self, turn: SessionTurn, session: _Session, wanted: Wanted, forgotten: Iterable[ForgottenTopic], now_ms: float
    ) -> Steps[None]:
        for first in range(0, len(wanted), FEW):
            session.name(wanted[first : first + FEW], turn)
            yield
        for topic in forgotten:
            topic_key = topic.topic_id if session.uses_topic_ids else topic.topic
            for number, index in enumerate(topic.partitions):
                session.forget((topic_key, index))
                if number % FEW == FEW - 1:
                    yield
            yield
        self._end_update(turn, session, now_ms)

    def _end_update(self, turn: SessionTurn, session: _Session, now_ms: float) -> None:
        """Raises KafkaError(FETCH_SESSION_ID_NOT_FOUND) for a session that outgrew its limit."""
        turn.pending_update = None
        if not session.is_closed:
            size = len(session.partitions)
            if size != session.size and not self._resize(session, size):
                turn.leave()
                return
            self._touch(session, now_ms)
        turn.gather()

    def _resize(self, session: _Session, size: int) -> bool:
        """Update the count of a session's partitions. False if none are left, which ends the session."""
        self.total_partitions += size - session.size
        session.size = size
        if not size:
            self._remove(session)
        elif size > MAX_SESSION_PARTITIONS or self.total_partitions > self._max_total_partitions:
            self._refuse_large(session)
        return size > 0

    def _refuse_large(self, session: _Session) -> NoReturn:
        """Close a session that outgrew its limit: the client starts again, and then gets no session."""
        self._remove(session)
        raise KafkaError(
            ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {session.id} has grown too large and was closed"
        )

    def _open(self, size: int, uses_topic_ids: bool, is_follower: bool, now_ms: float) -> _Session | None:
        if size > MAX_SESSION_PARTITIONS or not self._make_room(size, is_follower, now_ms):
            return None
        session = _Session(self._new_id(), uses_topic_ids, is_follower, size, now_ms)
        self._sessions[session.id] = session
        self.total_partitions += size
        return session

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randrange(1, 0x7FFF_FFFF)
            if session_id not in self._sessions:
                return session_id

    def _make_room(self, size: int, is_follower: bool, now_ms: float) -> bool:
        while len(self._sessions) >= self._max_slots or self.total_partitions + size > self._max_total_partitions:
            if not self._evict((is_follower, size, 0), now_ms):
                return False
        return True

    def _evict(self, rank: tuple[bool, int, int], now_ms: float) -> bool:
        """Close one idle session, or else an old session of a lower rank. No consumer outranks a follower."""
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None:
            return False
        if now_ms - stalest.used_ms > EVICTION_MS:
            self._remove(stalest)
            return True
        if not self._evictable or self._evictable[0] > rank:
            return False
        self._remove(self._sessions[self._evictable[0][-1]])
        return True

    def _touch(self, session: _Session, now_ms: float) -> None:
        self._sessions.pop(session.id, None)
        self._sessions[session.id] = session
        session.used_ms = now_ms
        rank = (session.is_follower, session.size, session.id)
        if session.rank != rank and now_ms - session.created_ms > EVICTION_MS:
            self._forget_rank(session)
            session.rank = rank
            insort(self._evictable, rank)

    def withhold(self, turn: FetchTurn) -> int:
        """End a turn whose rows are not sent. Returns the session id of the response.

        An incremental turn leaves its partitions to the session's next fetch. A full one closes the session that it
        has opened, as the client opens another one.
        """
        if not isinstance(turn, SessionTurn):
            return NO_SESSION
        if not turn.is_incremental:
            self._remove(self._sessions.get(turn.session_id))
            return NO_SESSION
        turn.return_partitions()
        turn.end()
        return turn.session_id

    def _remove(self, session: _Session | None) -> None:
        if session is not None:
            del self._sessions[session.id]
            self.total_partitions -= session.size
            self._forget_rank(session)
            session.is_closed = True
            self._touch_list(session.changed)
            self._run_in_slices(session.end_watches())

    def _forget_rank(self, session: _Session) -> None:
        if session.rank is not None:
            del self._evictable[bisect_left(self._evictable, session.rank)]
            session.rank = None


Wanted = list[tuple[TopicKey, FetchPartition]]


class FetchTurn:
    """One fetch: the partitions to plan, in the order of fairness, and the choice of rows for the response.

    This class is a fetch without a session, which plans what it names and sends every row; `SessionTurn` has a session.
    """

    __slots__ = ("items", "partitions", "session_id")

    changed: WaitList | None = None
    """The list that is touched when a partition of the session becomes dirty; None without a session."""
    pending_update: Steps[None] | None = None
    """The steps that apply the named partitions to the session. They come before anything else."""

    def __init__(self, wanted: Wanted) -> None:
        self.partitions = wanted
        self.session_id = NO_SESSION
        self.items: list[CachedPartition] | None = None
        """The session's state of each of `partitions`."""

    def gather(self) -> None:
        """Add the partitions that are dirty now, and sort all into the order of the session."""

    def select(self, number: int, data: PartitionData) -> bool:
        """Whether to send the row; a sent row is remembered. An incremental response has only rows with news.

        Call this once for every row, in order. A partition that returns records moves to the end of the session, so
        that other partitions come first in the next turn.
        """
        return True

    def keep(self, item: CachedPartition, data: PartitionData) -> bool:
        """Whether a partition has something to send; if so, the parked turn keeps it."""
        return True

    def end(self) -> None:
        """The response is complete."""


class SessionTurn(FetchTurn):
    """A fetch of a session."""

    __slots__ = ("_kept", "_session", "changed", "is_incremental", "pending_update")

    items: list[CachedPartition]

    def __init__(self, session: _Session, wanted: Wanted, *, is_incremental: bool) -> None:
        self.partitions = wanted
        self.session_id = session.id
        self.items = []
        self.is_incremental = is_incremental
        self.changed = session.changed
        self.pending_update = None
        self._session: _Session | None = session  # None after the session ended
        self._kept: dict[CachedPartition, None] = {}  # partitions for which a parked turn has something to send

    @property
    def is_over(self) -> bool:
        """Whether the session was closed, or continued by another fetch, so that no change wakes this turn."""
        session = self._session
        return session is not None and (session.is_closed or session.turn is not self)

    def finish_update(self) -> None:
        """Run all steps of `pending_update`. Raises KafkaError as `FetchSessions.begin` does."""
        if self.pending_update is not None:
            finish(self.pending_update)

    def leave(self) -> None:
        """The session is empty, and has ended."""
        self._session, self.changed, self.session_id = None, None, NO_SESSION

    def return_partitions(self) -> None:
        """Another fetch follows, and this turn may never be answered: return its partitions to the session."""
        self.finish_update()
        if self._session is not None:
            rest = (item for item in (*self._kept, *self.items) if item.is_known)
            self._session.dirty.update(dict.fromkeys(rest))

    # Looking at partitions

    def gather(self) -> None:
        """See `FetchTurn.gather`. A full fetch already names all partitions."""
        session, kept = self._session, self._kept
        if session is None or not (kept or (self.is_incremental and session.dirty)):
            return
        if not kept and not self.items and len(session.dirty) == 1:  # the usual case of most consumers
            (item,) = self.items = list(session.dirty)
            self.partitions = [item.wanted]
            session.dirty.clear()
            return
        self._kept = {}
        kept.update(dict.fromkeys(self.items))
        if not self.is_over:
            kept.update(session.dirty)
            session.dirty = {}
        self.items = sorted(kept, key=_BY_ORDER) if len(kept) > 1 else list(kept)
        self.partitions = [item.wanted for item in self.items]

    @property
    def marked(self) -> int:
        """How many partitions became dirty since `gather`."""
        return 0 if self._session is None else len(self._session.dirty)

    def take_marked(self) -> list[CachedPartition] | None:
        """Take the marked partitions; None if there are more than a few, which are left to `gather`."""
        session = self._session
        if session is None or len(session.dirty) > FEW:
            return None
        marked, session.dirty = session.dirty, {}
        return list(marked)

    def keep(self, item: CachedPartition, data: PartitionData) -> bool:
        """See `FetchTurn.keep`."""
        if self.is_incremental and item.is_clean and item.is_unchanged(data):
            return False
        self._kept[item] = None
        return True

    def park(self) -> None:
        """Keep only the partitions with something to send."""
        self.items, self.partitions = [], []

    def narrow(self) -> bool:
        """If a parked turn has something to send for only one partition, reduce the turn to that. False otherwise."""
        if len(self._kept) != 1:
            return False
        self.items, self._kept = list(self._kept), {}
        self.partitions = [self.items[0].wanted]
        return True

    # Answering

    def select(self, number: int, data: PartitionData) -> bool:
        """See `FetchTurn.select`."""
        session, item = self._session, self.items[number]
        if session is None or not item.is_known:  # a later fetch forgot the partition, while this one waited
            return True
        if not item.is_clean:
            session.dirty[item] = None
        if not data.records:
            return item.select(data) or not self.is_incremental
        item.note_sent(data)
        if self.is_incremental:
            session.move_to_end(item)
        return True

    def end(self) -> None:
        """See `FetchTurn.end`."""
        session = self._session
        if session is not None and session.turn is self:
            session.turn = None


_NEVER = -1
_FORGOTTEN = -1


class CachedPartition:
    """A partition of a session: the fetched position, and the last sent state. A `gateway.runtime.tasks.Watch`."""

    __slots__ = (
        "_high_watermark",
        "_last_stable_offset",
        "_log_start_offset",
        "_watched",
        "is_clean",
        "order",
        "session",
        "wanted",
    )

    def __init__(self, session: _Session, wanted: tuple[TopicKey, FetchPartition], order: int) -> None:
        self.session = session
        self.wanted = wanted
        self.order = order
        """Lower numbers come first in a response."""
        self.is_clean = False
        """Whether the last plan found nothing to read, and nothing has changed since."""
        self._watched: WaitList | None = None
        self._forget_sent()

    def _forget_sent(self) -> None:
        self._high_watermark = self._last_stable_offset = self._log_start_offset = _NEVER

    @property
    def is_known(self) -> bool:
        """Whether the partition still belongs to its session, and the session is open."""
        return self.order != _FORGOTTEN and not self.session.is_closed

    def watch(self, partition: WaitList) -> None:
        """Let the next change of the partition mark this one."""
        if self._watched is not partition and self.is_known:
            self.unwatch()
            self._watched = partition
            partition.watches += (self,)

    def unwatch(self) -> None:
        if self._watched is not None:
            self._watched.watches = tuple([watch for watch in self._watched.watches if watch is not self])
            self._watched = None

    def mark(self) -> WaitList:
        """The partition has changed, which ended the watch."""
        self._watched = None
        self.is_clean = False
        self.session.dirty[self] = None
        return self.session.changed

    def note(self) -> None:
        """The high watermark has moved, which a response may say, and which is no reason to send one."""
        self.session.dirty[self] = None

    def is_unchanged(self, data: PartitionData) -> bool:
        """Whether a row without records has no news."""
        return (
            data.high_watermark == self._high_watermark
            and data.last_stable_offset == self._last_stable_offset
            and data.log_start_offset == self._log_start_offset
            and not data.error_code
            and data.preferred_read_replica < 0
            and data.diverging_epoch.epoch < 0
        )

    def note_sent(self, data: PartitionData) -> None:
        if data.error_code:
            self._forget_sent()  # so that the row is sent again after the error
        else:
            self._high_watermark = data.high_watermark
            self._last_stable_offset = data.last_stable_offset
            self._log_start_offset = data.log_start_offset

    def select(self, data: PartitionData) -> bool:
        """Remember a row without records. True if it has news."""
        if self.is_unchanged(data):
            return False
        self.note_sent(data)
        return True

    def forget(self) -> None:
        """The partition no longer belongs to its session."""
        self.unwatch()
        self.order = _FORGOTTEN


_BY_ORDER = attrgetter("order")


class _Session:
    __slots__ = (
        "_next_order",
        "changed",
        "created_ms",
        "dirty",
        "epoch",
        "id",
        "is_closed",
        "is_follower",
        "isolation_level",
        "partitions",
        "rank",
        "size",
        "turn",
        "used_ms",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, uses_topic_ids: bool, is_follower: bool, size: int, now_ms: float) -> None:
        self.id = session_id
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.size = size
        """The number of partitions, as counted in `FetchSessions.total_partitions`."""
        self.created_ms = self.used_ms = now_ms
        self.epoch = INITIAL_EPOCH + 1  # the epoch of the next fetch
        self.rank: tuple[bool, int, int] | None = None
        self.isolation_level = 0
        self.partitions: dict[tuple[TopicKey, int], CachedPartition] = {}
        self.dirty: dict[CachedPartition, None] = {}
        """The partitions that the next fetch plans."""
        self.changed = WaitList()
        self.turn: SessionTurn | None = None  # the fetch in progress
        self.is_closed = False
        self._next_order = 0

    def name(self, wanted: Wanted, turn: SessionTurn) -> None:
        """Add or update partitions that a fetch names, and make them dirty."""
        for named in wanted:
            key = named[0], named[1].partition
            item = self.partitions.get(key)
            if item is not None:
                item.wanted = named
            else:
                item = CachedPartition(self, named, self._next_order)
                self._next_order += 1
                if not self.is_closed:
                    self.partitions[key] = item
            if turn.is_incremental:
                self.dirty[item] = None
            else:
                turn.items.append(item)

    def forget(self, key: tuple[TopicKey, int]) -> None:
        """Forget a partition, if the session has it."""
        item = self.partitions.pop(key, None)
        if item is not None:
            item.forget()
            self.dirty.pop(item, None)

    def move_to_end(self, item: CachedPartition) -> None:
        """Let the other partitions come first next time."""
        item.order = self._next_order
        self._next_order += 1

    def end_watches(self) -> Steps[None]:
        """Release everything, in steps: the session is closed."""
        while self.partitions:
            for key in list(islice(self.partitions, FEW)):
                self.partitions.pop(key).unwatch()
            yield
        self.dirty.clear()


def _wanted(topics: list[FetchTopic], uses_topic_ids: bool) -> Wanted:
    if uses_topic_ids:
        return [(topic.topic_id, partition) for topic in topics for partition in topic.partitions]
    return [(topic.topic, partition) for topic in topics for partition in topic.partitions]
