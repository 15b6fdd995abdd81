"""Incremental fetch sessions (KIP-227; topic ids KIP-516): a consumer of many partitions names only what changed.

A fetch of epoch 0 names all partitions and opens a session; epochs 1, 2, 3 ... change it; epoch -1 ends it or wants
none. The session remembers what was last told of each partition, so that a reply holds only the partitions that have
something new.

Pure: time is passed in, in milliseconds of any clock that never goes back.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from random import Random

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData

TopicKey = str | bytes
"""A topic as fetches name it: by name, from v13 by id."""

NO_SESSION = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
FIRST_TOPIC_ID_VERSION = 13
LAST_EPOCH = 0x7FFF_FFFF

# As in Kafka: a session must have lived, or been idle, for so long before another may take its place.
EVICTION_MS = 120_000
# Kafka has no such limits. About 400 bytes are kept for a partition; who has more of them fetches without a session.
MAX_SESSION_PARTITIONS = 20_000
MAX_TOTAL_PARTITIONS = 250_000


class FetchSessions:
    """The sessions of one broker, at most `max_slots` of them."""

    def __init__(self, max_slots: int, random: Random, max_total_partitions: int = MAX_TOTAL_PARTITIONS) -> None:
        self._max_slots = max_slots
        self._max_total_partitions = max_total_partitions
        self._random = random
        self._sessions: dict[int, _Session] = {}  # the least recently used first
        self._evictable: list[
            tuple[int, int]
        ] = []  # (size, session id) of those that are old enough; the least valuable first
        self._total_partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def total_partitions(self) -> int:
        """How many partitions are remembered, over all sessions."""
        return self._total_partitions

    def begin(self, request: FetchRequest, version: int, now_ms: float) -> FetchTurn:
        """What one fetch is about.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        uses_topic_ids = version >= FIRST_TOPIC_ID_VERSION
        if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._continue(request, uses_topic_ids, now_ms)
        if request.session_id != NO_SESSION:
            self._remove(self._sessions.get(request.session_id))
        wanted = _wanted(request.topics, uses_topic_ids)
        session = None
        if request.session_epoch == INITIAL_EPOCH and wanted:
            session = self._open(wanted, uses_topic_ids, now_ms)
        return FetchTurn(session, wanted, is_incremental=False)

    def _continue(self, request: FetchRequest, uses_topic_ids: bool, now_ms: float) -> FetchTurn:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {request.session_id}")
        if session.epoch != request.session_epoch:
            message = f"fetch session {session.id} is at epoch {session.epoch}, not {request.session_epoch}"
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, message)
        if session.uses_topic_ids != uses_topic_ids:
            message = f"fetch session {session.id} was opened by a version that names topics otherwise"
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, message)
        wanted = _wanted(request.topics, uses_topic_ids)
        size_before = len(session.partitions)
        session.change(wanted, request.forgotten_topics_data)
        self._total_partitions += len(session.partitions) - size_before
        if not session.partitions:
            self._remove(session)
            return FetchTurn(None, wanted, is_incremental=False)
        self._check_size(session)
        session.epoch = session.epoch + 1 if session.epoch < LAST_EPOCH else INITIAL_EPOCH + 1
        self._touch(session, now_ms)
        return FetchTurn(session, session.all_wanted(), is_incremental=True)

    def _check_size(self, session: _Session) -> None:
        """A session that outgrew its limit ends: the client starts anew, and is then answered without one."""
        if len(session.partitions) > MAX_SESSION_PARTITIONS or self._total_partitions > self._max_total_partitions:
            self._remove(session)
            raise KafkaError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {session.id} has grown too large and was closed"
            )

    def _open(self, wanted: Wanted, uses_topic_ids: bool, now_ms: float) -> _Session | None:
        if len(wanted) > MAX_SESSION_PARTITIONS or not self._make_room(len(wanted), now_ms):
            return None
        session = _Session(self._new_id(), uses_topic_ids, now_ms)
        session.change(wanted, ())
        self._total_partitions += len(session.partitions)
        self._touch(session, now_ms)
        return session

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randrange(1, 0x7FFF_FFFF)
            if session_id not in self._sessions:
                return session_id

    def _make_room(self, size: int, now_ms: float) -> bool:
        while len(self._sessions) >= self._max_slots or self._total_partitions + size > self._max_total_partitions:
            if not self._evict(size, now_ms):
                return False
        return True

    def _evict(self, size: int, now_ms: float) -> bool:
        """Close one session that is idle, or else one that is old and smaller than a new one of `size` would be."""
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None:
            return False
        if now_ms - stalest.used_ms > EVICTION_MS:
            self._remove(stalest)
            return True
        if not self._evictable or self._evictable[0] > (size, 0):
            return False
        self._remove(self._sessions[self._evictable[0][1]])
        return True

    def _touch(self, session: _Session, now_ms: float) -> None:
        self._sessions.pop(session.id, None)
        self._sessions[session.id] = session
        session.used_ms = now_ms
        rank = (len(session.partitions), session.id)
        if session.rank != rank and now_ms - session.created_ms > EVICTION_MS:
            self._forget_rank(session)
            session.rank = rank
            insort(self._evictable, rank)

    def _remove(self, session: _Session | None) -> None:
        if session is not None:
            del self._sessions[session.id]
            self._total_partitions -= len(session.partitions)
            self._forget_rank(session)

    def _forget_rank(self, session: _Session) -> None:
        if session.rank is not None:
            del self._evictable[bisect_left(self._evictable, session.rank)]
            session.rank = None


class FetchTurn:
    """One fetch: its session, the partitions wanted in the order of fairness, and which rows go into the reply."""

    __slots__ = ("_is_incremental", "_session", "partitions", "session_id")

    def __init__(self, session: _Session | None, wanted: Wanted, is_incremental: bool) -> None:
        self._session = session
        self._is_incremental = is_incremental
        self.session_id = NO_SESSION if session is None else session.id
        self.partitions = wanted

    def keep(self, topic_key: TopicKey, data: PartitionData) -> bool:
        """Whether the row must be sent, which is then remembered as told: of an incremental reply only what is news.

        Call it once for every row, in order. A partition that returns records goes to the end of the session, so that
        in the next turn others come before it.
        """
        session = self._session
        if session is None:
            return True
        remembered = session.partitions.get((topic_key, data.partition_index))
        if remembered is None:  # forgotten by a later fetch, while this one waited
            return True
        is_new = remembered.tell(data)
        if not self._is_incremental:
            return True
        if data.records:
            session.move_to_end((topic_key, data.partition_index))
            return True
        return is_new


Wanted = list[tuple[TopicKey, FetchPartition]]


class _Remembered:
    """A partition of a session: what is wanted of it, and what was last told."""

    __slots__ = ("told", "wanted")

    def __init__(self, wanted: tuple[TopicKey, FetchPartition]) -> None:
        self.wanted = wanted
        self.told = (-1, -1, -1)  # high watermark, last stable offset, log start offset

    def tell(self, data: PartitionData) -> bool:
        """Remember `data`; whether it says something new."""
        offsets = (data.high_watermark, data.last_stable_offset, data.log_start_offset)
        if data.error_code:
            self.told = (-1, -1, -1)  # so that the partition is told again when the error is over
            return True
        if offsets != self.told:
            self.told = offsets
            return True
        return data.preferred_read_replica >= 0 or data.diverging_epoch.epoch >= 0


class _Session:
    __slots__ = ("created_ms", "epoch", "id", "partitions", "rank", "used_ms", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: float) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.used_ms = now_ms
        self.epoch = INITIAL_EPOCH + 1  # of the next fetch
        self.rank: tuple[int, int] | None = None
        self.partitions: dict[tuple[TopicKey, int], _Remembered] = {}

    def change(self, wanted: Wanted, forgotten: Iterable[ForgottenTopic]) -> None:
        """Take what a fetch names: partitions that are new or wanted otherwise, and those to forget."""
        for item in wanted:
            key = item[0], item[1].partition
            remembered = self.partitions.get(key)
            if remembered is None:
                self.partitions[key] = _Remembered(item)
            else:
                remembered.wanted = item
        for topic in forgotten:
            topic_key = topic.topic_id if self.uses_topic_ids else topic.topic
            for index in topic.partitions:
                self.partitions.pop((topic_key, index), None)

    def all_wanted(self) -> Wanted:
        return [remembered.wanted for remembered in self.partitions.values()]

    def move_to_end(self, key: tuple[TopicKey, int]) -> None:
        """Let the other partitions come first next time."""
        self.partitions[key] = self.partitions.pop(key)


def _wanted(topics: list[FetchTopic], uses_topic_ids: bool) -> Wanted:
    if uses_topic_ids:
        return [(topic.topic_id, partition) for topic in topics for partition in topic.partitions]
    return [(topic.topic, partition) for topic in topics for partition in topic.partitions]
