"""The follower's fetches from one leader: a pure machine. Positions in, the next request out; an answer in, work out.

    for work in fetcher.resume(now_ms): ...            # of partitions whose wait after an error is over
    question = fetcher.next_question(now_ms)           # a Fetch for all partitions, or ListOffsets for some
    for work in fetcher.take(answer, now_ms): ...      # the caller does each work on a log, and reports its end
    work.partition.end_work(now_ms)                    # or its error; more work may follow

A partition is in one state:

    state     the partition                                           next states
    FETCHING  is in each fetch                                        WORKING, DELAYED, EARLIEST, FENCED
    WORKING   takes over an answer: its log changes                   FETCHING, DELAYED; WORKING again after an order
    DELAYED   waits after an error                                    FETCHING; WORKING, if its records are not durable
    EARLIEST  was out of range: asks for the start of the leader      LATEST, WORKING, DELAYED, FENCED
    LATEST    is not before that start: asks for the leader's end     WORKING, DELAYED, FENCED
    FENCED    waits for an order with a newer leader epoch
    STOPPED   has no fetcher

The position of a fetch is the end of the log, and is never kept elsewhere: a request cannot claim records that the log
has lost. The leader takes a position for acknowledged. So while a log changes, and with `headgate.flush=commit` until
its records are on the disk, its partition is in no request, also where another leader is followed meanwhile. An answer
counts only if the partition still has the position and the leader epoch that the session has of it.

Histories part where another leader was elected before all records were replicated. The fetch carries the epoch of the
last record; the leader answers with the last common epoch and its end, and the follower cuts its log there (KIP-595).
A log without epochs is cut to its high watermark before the first fetch, as Kafka does.

Every wait is bounded: a partition after an error by `replica.fetch.backoff.ms`, the others by `GRACE_MS` for those that
work. Then the others are fetched alone, in short polls, and the slow ones come back once they are ready.

Sources: Kafka's `AbstractFetcherThread` and `ReplicaFetcherThread`, KIP-101, KIP-279, KIP-320, KIP-595.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterator
from enum import Enum, auto
from itertools import islice
from typing import NamedTuple, Protocol, cast

from headgate.gateway.runtime.backoff import Backoff
from headgate.protocol.client.fetch_session import FetchKey, FetchSession
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData, ReplicaState
from headgate.protocol.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

logger = logging.getLogger("headgate.replication")

NO_EPOCH = -1
NO_TOPIC_ID = bytes(16)
LAST_VERSION_WITH_NAMES = 12
FIRST_DELAY_MS = 50.0
"""The wait after a first error, which an election explains: the leader may get its order later than the follower."""
GRACE_MS = 50.0
"""The time for which a fetch waits for partitions that work; without them, it polls for this time."""
LINE_EVERY_MS = 60_000.0
"""The least time between two log lines about partitions that the leader refuses."""
MAX_ADDED = 500
"""The partitions that one request adds to a session: ten thousand in one request would hold up the loop."""


class FollowerLog(Protocol):
    """The facts about a follower's log that decide its fetches. Offsets: start <= high watermark <= end."""

    @property
    def start_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def is_durable(self) -> bool:
        """Whether the leader may take all records for acknowledged: with headgate.flush=commit, once on the disk.

        Never while the log refuses records after a failed sync.
        """

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last record; -1 for none."""

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest epoch of the log at most `epoch`, and its end offset; (-1, -1) if unknown."""


class FetchSettings(Protocol):
    """The settings of a follower's fetches. They are read for each request."""

    @property
    def replica_fetch_max_bytes(self) -> int: ...
    @property
    def replica_fetch_response_max_bytes(self) -> int: ...
    @property
    def replica_fetch_wait_max_ms(self) -> int: ...
    @property
    def replica_fetch_min_bytes(self) -> int: ...
    @property
    def replica_fetch_backoff_ms(self) -> int: ...
    @property
    def replica_socket_timeout_ms(self) -> int: ...


class FetchState(Enum):
    """The state of a followed partition. The head of the module has all moves."""

    FETCHING = auto()
    WORKING = auto()
    DELAYED = auto()
    EARLIEST = auto()
    LATEST = auto()
    FENCED = auto()
    STOPPED = auto()

    __hash__ = object.__hash__  # Enum's is Python code, and a fetch counts states a dozen times


class FollowedPartition:
    """A partition that this broker follows. The object stays the same when another leader is followed."""

    __slots__ = (
        "appends_at",
        "backoff",
        "fetcher",
        "has_new_order",
        "held_bytes",
        "key",
        "leader_epoch",
        "leader_high_watermark",
        "log",
        "row",
        "state",
    )

    def __init__(self, key: FetchKey, log: FollowerLog) -> None:
        self.key = key
        self.log = log
        self.leader_epoch = NO_EPOCH
        self.state = FetchState.STOPPED
        self.fetcher: ReplicaFetcher | None = None
        self.row: FetchPartition | None = None
        """The position that the leader's session has."""
        self.backoff: Backoff | None = None  # most partitions never fail
        self.has_new_order = False
        """Whether an order came while the partition worked."""
        self.held_bytes = 0
        """The size of the records that are being appended."""
        self.appends_at = -1
        """The end of the log before them."""
        self.leader_high_watermark = 0

    def __repr__(self) -> str:
        return f"FollowedPartition({self.key.topic}-{self.key.number}, {self.state.name}, epoch {self.leader_epoch})"

    @property
    def lag(self) -> int:
        """The committed records of the leader that the log lacks."""
        return max(0, self.leader_high_watermark - self.log.end_offset)

    @property
    def is_at_row(self) -> bool:
        """Whether the log and the order are as the leader's session has them: an answer fits."""
        row, log = self.row, self.log
        return (
            row is not None
            and row.fetch_offset == log.end_offset
            and row.current_leader_epoch == self.leader_epoch
            and row.last_fetched_epoch == log.last_epoch
        )

    def end_work(self, now_ms: float, error: Exception | None = None) -> FollowerWork | None:
        """The work is done, or has failed: the partition is fetched again at once, or after a wait, or after a work."""
        if error is None and self.held_bytes and self.log.end_offset == self.appends_at:
            error = KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the leader sent no whole batch at {self.appends_at}")
        if self.fetcher is not None:
            return self.fetcher.end_work(self, error, now_ms)
        self.held_bytes, self.state = 0, FetchState.STOPPED
        return None


ReceivedRecords = memoryview | bytes | bytearray


class AppendRecords(NamedTuple):
    """Append the records as they are, if any; then take over the high watermark and the start of the log."""

    partition: FollowedPartition
    records: ReceivedRecords | None
    high_watermark: int
    start_offset: int


class SyncRecords(NamedTuple):
    """Wait until the records of the log are durable."""

    partition: FollowedPartition


class Truncate(NamedTuple):
    """Remove all records from `offset` on."""

    partition: FollowedPartition
    offset: int


class RestartAt(NamedTuple):
    """Remove all records, and continue at `offset`."""

    partition: FollowedPartition
    offset: int


FollowerWork = AppendRecords | SyncRecords | Truncate | RestartAt


def common_end(log: FollowerLog, epoch: int, end_offset: int) -> int:
    """The end of the history that the log may share with the leader's, which has `epoch` up to `end_offset`.

    If the log lacks that epoch, the end of its last earlier one: the next fetch asks about that epoch (KIP-279).
    """
    own_epoch, own_end = log.end_offset_for(epoch)
    if own_end >= 0:
        end_offset = min(own_end, end_offset) if own_epoch == epoch else own_end
    return min(end_offset, log.end_offset)


def progress(log: FollowerLog, append: AppendRecords) -> tuple[int, int]:
    """The high watermark and the start of the log after an append. Neither goes back.

    A new leader may know a lower high watermark than its followers for a moment.
    """
    high_watermark = max(log.high_watermark, min(append.high_watermark, log.end_offset))
    return high_watermark, max(log.start_offset, min(append.start_offset, high_watermark))


class Question(NamedTuple):
    """A request for the leader. `version`: None for the latest one that both sides have."""

    message: FetchRequest | ListOffsetsRequest
    version: int | None = None


class ReplicaFetcher:
    """The partitions that this broker follows from one leader; one request is in flight at a time."""

    def __init__(self, node_id: int, config: FetchSettings, broker_epoch: Callable[[], int]) -> None:
        """`broker_epoch`: the epoch of this broker's registration; the leader refuses an older one (KIP-903)."""
        self._node_id = node_id
        self._config = config
        self._broker_epoch = broker_epoch
        self._session = FetchSession()
        self._followed: dict[tuple[str | bytes, int], FollowedPartition] = {}
        """By the topic's name, and by its id: an answer has one of them."""
        self._counts = dict.fromkeys(FetchState, 0)
        self._changed: dict[FetchKey, FollowedPartition] = {}
        """Partitions of the session whose position has changed."""
        self._added: dict[FetchKey, FollowedPartition] = {}
        """Partitions that the session lacks."""
        self._gone: dict[FetchKey, None] = {}
        """Partitions of the session that are not to be fetched now."""
        self._without_id: dict[FetchKey, None] = {}
        self._delayed: list[tuple[float, int, FollowedPartition]] = []
        self._number = 0
        self._lookups: dict[FollowedPartition, None] = {}
        """The partitions that are out of range."""
        self._held_bytes = 0
        self._grace_end_ms = 0.0
        self._retry = Backoff(FIRST_DELAY_MS, FIRST_DELAY_MS)
        self._refused: dict[FollowedPartition, str] = {}
        """The partitions that the last answer refused, as the ones before did, with the reasons."""
        self._next_line_ms = 0.0
        self._names_all = False
        """Whether the leader refused a session: the next request names all partitions, however many there are."""
        self._asked: Question | None = None

    def __len__(self) -> int:
        return sum(self._counts.values())

    # Orders

    def follow(self, partition: FollowedPartition, leader_epoch: int) -> FollowerWork | None:
        """Follow a partition from now on, or in a newer leader epoch. Returns the work before its first fetch, if any.

        Work in progress ends first.
        """
        key = partition.key
        if partition.fetcher is None:
            partition.fetcher = self
            self._followed[key.topic, key.number] = self._followed[key.topic_id, key.number] = partition
            self._counts[partition.state] += 1
            self._held_bytes += partition.held_bytes
            if key.topic_id == NO_TOPIC_ID:
                self._without_id[key] = None
        assert partition.fetcher is self, f"{partition} is followed from another leader"
        partition.leader_epoch, partition.backoff = leader_epoch, None
        if partition.state is FetchState.WORKING:
            partition.has_new_order = True
            return None
        self._leave(partition)
        return self.begin(partition)

    def unfollow(self, partition: FollowedPartition) -> None:
        """Stop the fetches of the partition. A partition that works does so to its end, and is WORKING until then."""
        if partition.fetcher is not self:
            return
        key = partition.key
        self._leave(partition)
        self._counts[partition.state] -= 1
        self._held_bytes -= partition.held_bytes
        for topic in (key.topic, key.topic_id):
            if self._followed.get((topic, key.number)) is partition:
                del self._followed[topic, key.number]
        self._without_id.pop(key, None)
        partition.fetcher = None
        if partition.state is not FetchState.WORKING:
            partition.state = FetchState.STOPPED

    def renew(self, partition: FollowedPartition) -> FollowerWork | None:
        """Send the leader the start of the log, which retention has moved.

        A log that is no longer durable, since a sync has failed, leaves the requests. Returns the work before the next.
        """
        if partition.fetcher is not self or partition.state is not FetchState.FETCHING:
            return None
        if not partition.log.is_durable:
            self._leave(partition)
            return self.begin(partition)
        self.name(partition)
        return None

    def begin(self, partition: FollowedPartition) -> FollowerWork | None:
        """Begin to fetch, or return the work that comes before."""
        log, partition.has_new_order = partition.log, False
        if log.last_epoch == NO_EPOCH and log.high_watermark < log.end_offset:
            self._move(partition, FetchState.WORKING)
            return Truncate(partition, log.high_watermark)
        if not log.is_durable:
            self._move(partition, FetchState.WORKING)
            return SyncRecords(partition)
        self._fetch(partition)
        return None

    def resume(self, now_ms: float) -> Iterator[FollowerWork]:
        """Fetch partitions again whose wait is over. Yields the work before: a sync may be what has failed."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            due_ms, _, partition = heapq.heappop(self._delayed)
            backoff = partition.backoff
            is_delayed = partition.state is FetchState.DELAYED and partition.fetcher is self
            if is_delayed and backoff is not None and backoff.due_ms == due_ms:
                work = self.begin(partition)
                if work is not None:
                    yield work

    # Requests

    def next_question(self, now_ms: float) -> Question | None:
        """The next request; None while there is nothing to ask, until `wake_ms` at the latest."""
        if self._asked is not None or now_ms < self._retry.due_ms:
            return None
        question = self._lookup() if self._lookups else None
        if question is None and self._counts[FetchState.FETCHING] and not self._is_in_grace(now_ms):
            question = self._fetch_request(now_ms)
        self._asked = question
        return question

    def wake_ms(self, now_ms: float) -> float:
        """The time at which `resume` or `next_question` may have something, if nothing else happens."""
        times = [self._delayed[0][0]] if self._delayed else []
        if self._is_in_grace(now_ms):
            times.append(self._grace_end_ms)
        if now_ms < self._retry.due_ms:
            times.append(self._retry.due_ms)
        return min(times, default=float("inf"))

    def _is_in_grace(self, now_ms: float) -> bool:
        return self._counts[FetchState.WORKING] > 0 and now_ms < self._grace_end_ms

    def _fetch_request(self, now_ms: float) -> Question:
        most_added = None if self._names_all else MAX_ADDED
        added = dict(islice(self._added.items(), most_added))
        named = self._changed | added
        for key in added:
            del self._added[key]
        self._changed = {}
        gone, self._gone = self._gone, {}
        rows = {key: self.position(key, partition) for key, partition in named.items()}
        for key, partition in named.items():
            partition.row = rows[key]
        config = self._config
        message = self._session.request(
            rows,
            gone,
            replica_id=self._node_id,
            replica_state=ReplicaState(replica_id=self._node_id, replica_epoch=self._broker_epoch()),
            max_wait_ms=self._max_wait_ms(now_ms),
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=max(1, config.replica_fetch_response_max_bytes - self._held_bytes),
        )
        return Question(message, LAST_VERSION_WITH_NAMES if self._without_id else None)

    def position(self, key: FetchKey, partition: FollowedPartition) -> FetchPartition:
        """The present position of a partition, as a request names it."""
        log = partition.log
        return FetchPartition(
            partition=key.number,
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=log.end_offset,
            last_fetched_epoch=log.last_epoch,
            log_start_offset=log.start_offset,
            partition_max_bytes=self._config.replica_fetch_max_bytes,
        )

    def _max_wait_ms(self, now_ms: float) -> int:
        if self._added:
            return 0
        wait_ms: float = self._config.replica_fetch_wait_max_ms
        if self._counts[FetchState.WORKING]:
            wait_ms = min(wait_ms, GRACE_MS)
        if self._delayed:
            wait_ms = min(wait_ms, max(0.0, self._delayed[0][0] - now_ms))
        return int(wait_ms)

    def _lookup(self) -> Question | None:
        """The look-up for partitions that are out of range: of starts first, since most of these logs are behind."""
        for state, timestamp in ((FetchState.EARLIEST, EARLIEST), (FetchState.LATEST, LATEST)):
            if self._counts[state]:
                topics: dict[str, list[ListOffsetsPartition]] = {}
                for partition in self._lookups:
                    if partition.state is state:
                        row = ListOffsetsPartition(
                            partition_index=partition.key.number,
                            current_leader_epoch=partition.leader_epoch,
                            timestamp=timestamp,
                        )
                        topics.setdefault(partition.key.topic, []).append(row)
                rows = [ListOffsetsTopic(name=topic, partitions=rows) for topic, rows in topics.items()]
                return Question(ListOffsetsRequest(replica_id=self._node_id, topics=rows))
        return None

    # Answers

    def lost(self, now_ms: float) -> None:
        """The request got no answer, or a refusal as a whole: ask again after a wait."""
        self._asked = None
        self._retry = self._retry if self._retry.due_ms else self._new_backoff()
        self._retry.postpone(now_ms)
        self._restart_session()

    def take(self, answer: FetchResponse | ListOffsetsResponse, now_ms: float) -> Iterator[FollowerWork]:
        """The work that an answer brings, one partition after another. Orders may come in between."""
        question, self._asked = self._asked, None
        if isinstance(answer, ListOffsetsResponse):
            self._retry.reset()
            yield from self._take_offsets(answer, question, now_ms)
            return
        if answer.error_code != ErrorCode.NONE:
            self._refused_as_a_whole(answer, now_ms)
            return
        self._retry.reset()
        continues = self._session.accept(answer)
        self._grace_end_ms = now_ms + GRACE_MS
        for topic in answer.responses:
            for row in topic.partitions:
                partition = self._followed.get((topic.topic or topic.topic_id, row.partition_index))
                if partition is not None and partition.state is FetchState.FETCHING and partition.is_at_row:
                    work = self._take_row(partition, row, now_ms)
                    if work is not None:
                        yield work
        if self._refused:
            self._log_refused(now_ms)
        self._names_all = not continues
        if not continues:
            self._restart_session()

    def _log_refused(self, now_ms: float) -> None:
        """Log the partitions that the leader still refuses after the time of an election, all in one line."""
        refused, self._refused = self._refused, {}
        if now_ms >= self._next_line_ms:
            self._next_line_ms = now_ms + LINE_EVERY_MS
            partition, reason = next(iter(refused.items()))
            message = "a leader still refuses fetches of %d partitions, such as %s-%d: %s"
            logger.warning(message, len(refused), partition.key.topic, partition.key.number, reason)

    def _refused_as_a_whole(self, answer: FetchResponse, now_ms: float) -> None:
        is_first = not self._retry.due_ms
        if is_first:
            logger.info("a leader refuses a fetch: %s", _name_of(answer.error_code))
        self._names_all = answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._session.accept(answer)
        self.lost(now_ms)
        if is_first and self._names_all:
            self._retry.due_ms = now_ms  # an evicted session is usual; a second refusal waits

    def _take_row(self, partition: FollowedPartition, row: PartitionData, now_ms: float) -> FollowerWork | None:
        code = row.error_code
        if code == ErrorCode.NONE:
            partition.leader_high_watermark = row.high_watermark
            diverging = row.diverging_epoch
            if diverging.epoch >= 0:
                return self._diverged(partition, diverging.epoch, diverging.end_offset, now_ms)
            records = cast("ReceivedRecords | None", row.records)  # only what is sent may be a splice
            if records:
                self._hold(partition, len(records))
                partition.appends_at = partition.log.end_offset
                self._leave(partition)
                self._move(partition, FetchState.WORKING)
            return AppendRecords(partition, records, row.high_watermark, row.log_start_offset)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._leave(partition)
            self._move(partition, FetchState.EARLIEST)
            self._lookups[partition] = None
        else:
            self._refuse_partition(partition, code, now_ms)
        return None

    def _diverged(
        self, partition: FollowedPartition, epoch: int, end_offset: int, now_ms: float
    ) -> FollowerWork | None:
        log = partition.log
        offset = common_end(log, epoch, end_offset)
        if offset >= log.end_offset:
            self._delay(
                partition, f"the leader's log parts at {end_offset} of epoch {epoch}, and no record is there", now_ms
            )
            return None
        return self._cut(partition, offset)

    def _cut(self, partition: FollowedPartition, offset: int) -> FollowerWork:
        self._leave(partition)
        self._move(partition, FetchState.WORKING)
        is_before = offset < partition.log.start_offset
        return RestartAt(partition, offset) if is_before else Truncate(partition, offset)

    def _take_offsets(
        self, answer: ListOffsetsResponse, question: Question | None, now_ms: float
    ) -> Iterator[FollowerWork]:
        asked = {
            (topic.name, row.partition_index): row
            for topic in (question.message.topics if question is not None else ())
            if isinstance(topic, ListOffsetsTopic)
            for row in topic.partitions
        }
        for topic in answer.topics:
            for row in topic.partitions:
                partition = self._followed.get((topic.name, row.partition_index))
                wanted = asked.pop((topic.name, row.partition_index), None)
                if partition is not None and wanted is not None and _is_awaited(partition, wanted):
                    work = self._take_offset(partition, row, now_ms)
                    if work is not None:
                        yield work
        for (topic_name, index), wanted in asked.items():
            partition = self._followed.get((topic_name, index))
            if partition is not None and _is_awaited(partition, wanted):
                self._delay(partition, "the leader's answer has no offset", now_ms)

    def _take_offset(
        self, partition: FollowedPartition, row: ListOffsetsPartitionResponse, now_ms: float
    ) -> FollowerWork | None:
        """Decide as Kafka does: behind the leader's start, begin again there; ahead of its end, cut; else try again."""
        end_offset = partition.log.end_offset
        if row.error_code != ErrorCode.NONE:
            self._refuse_partition(partition, row.error_code, now_ms)
            return None
        if partition.state is FetchState.EARLIEST:
            if row.offset <= end_offset:
                self._move(partition, FetchState.LATEST)
                return None
            self._leave(partition)
            self._move(partition, FetchState.WORKING)
            return RestartAt(partition, row.offset)
        if 0 <= row.offset < end_offset:
            return self._cut(partition, row.offset)
        self._delay(partition, f"the leader refuses offset {end_offset}, which its log has", now_ms)
        return None

    def _refuse_partition(self, partition: FollowedPartition, code: int, now_ms: float) -> None:
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            self._leave(partition)
            self._move(partition, FetchState.FENCED)
        else:
            self._delay(partition, _name_of(code), now_ms, is_usual=code in _OF_ELECTIONS)

    # Work

    def _delay(self, partition: FollowedPartition, reason: str, now_ms: float, *, is_usual: bool = False) -> None:
        key, is_first = partition.key, partition.backoff is None
        backoff = partition.backoff = partition.backoff or self._new_backoff()
        self._leave(partition)
        self._move(partition, FetchState.DELAYED)
        wait_ms = backoff.postpone(now_ms)
        if not is_usual and is_first:
            logger.warning("%s-%d cannot be replicated for now: %s", key.topic, key.number, reason)
        elif is_usual and wait_ms >= self._config.replica_fetch_backoff_ms:
            self._refused[partition] = reason
        self._number += 1
        heapq.heappush(self._delayed, (backoff.due_ms, self._number, partition))

    def _new_backoff(self) -> Backoff:
        most_ms = float(self._config.replica_fetch_backoff_ms)
        return Backoff(min(FIRST_DELAY_MS, most_ms), most_ms)

    def _hold(self, partition: FollowedPartition, size: int) -> None:
        self._held_bytes += size - partition.held_bytes
        partition.held_bytes = size

    def end_work(self, partition: FollowedPartition, error: Exception | None, now_ms: float) -> FollowerWork | None:
        """For `FollowedPartition`."""
        self._hold(partition, 0)
        if partition.has_new_order:
            return self.begin(partition)
        if error is not None:
            self._delay(partition, str(error), now_ms)
        else:
            partition.backoff = None
            self._fetch(partition)
        return None

    # States

    def _move(self, partition: FollowedPartition, state: FetchState) -> None:
        self._counts[partition.state] -= 1
        partition.state = state
        self._counts[state] += 1

    def _fetch(self, partition: FollowedPartition) -> None:
        self._move(partition, FetchState.FETCHING)
        self._gone.pop(partition.key, None)
        self.name(partition)

    def name(self, partition: FollowedPartition) -> None:
        """Name a partition in the next request, if the session has another position of it, or none."""
        key, row = partition.key, partition.row
        if key not in self._session.members:
            self._added[key] = partition
        elif row is None or not partition.is_at_row or row.log_start_offset != partition.log.start_offset:
            self._changed[key] = partition

    def _leave(self, partition: FollowedPartition) -> None:
        """Take a partition out of the next request."""
        key, partition.row = partition.key, None
        self._lookups.pop(partition, None)
        self._added.pop(key, None)
        self._changed.pop(key, None)
        if partition.state is FetchState.FETCHING and key in self._session.members:
            self._gone[key] = None

    def _restart_session(self) -> None:
        self._session.restart()
        self._gone.clear()
        self._changed.clear()
        for partition in self._followed.values():
            partition.row = None
            if partition.state is FetchState.FETCHING:
                self._added[partition.key] = partition


_OF_ELECTIONS = (
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
"""The errors of a leader that gets its order later than the follower."""


def _is_awaited(partition: FollowedPartition, asked: ListOffsetsPartition) -> bool:
    """Whether no order has come since the look-up was sent."""
    return asked.timestamp == {FetchState.EARLIEST: EARLIEST, FetchState.LATEST: LATEST}.get(partition.state)


def _name_of(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
