"""A partition and its log as a coordinator sees them, in memory: a test says what the disk and the replicas do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from headgate.gateway.replication.append import Append, CommitQueue
from headgate.gateway.runtime.tasks import Tasks, WaitList
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import legacy
from headgate.protocol.records.batch import LOG_OVERHEAD, patch, read_header
from headgate.storage.files import File
from headgate.storage.log.pending_write import AppendInfo, PendingWrite
from headgate.storage.log.validation import BatchFacts, BatchOrigin
from headgate.storage.segment.file_slice import FileSlice, MessagesSlice

Done = Callable[[AppendInfo | KafkaError], None]
STORAGE_ERROR = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on device")


class _MemoryFile(File):
    """A segment's file. Without `is_cached` its bytes have to be read by a thread."""

    __slots__ = ("content", "is_warm")

    def __init__(self, content: bytes, is_warm: bool) -> None:
        super().__init__(-1)
        self.content = content
        self.is_warm = is_warm

    def read_at(self, length: int, position: int) -> bytes:
        return self.content[position : position + length]

    def read_cached(self, length: int, position: int) -> bytes | bytearray | None:
        return self.read_at(length, position) if self.is_warm else None


class ScriptedSegment:
    """One with messages of magic 0 or 1 where it begins so."""

    def __init__(self, content: bytes, is_warm: bool) -> None:
        self.size = len(content)
        self.file = _MemoryFile(content, is_warm)

    def slice(self, position: int, length: int) -> FileSlice:
        kind = MessagesSlice if legacy.is_legacy(self.file.content) else FileSlice
        return kind(self.file, position, length)


class ScriptedLog:
    """What was written, batch by batch, cut into segments of so many batches."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start_offset = 0
        self.end_offset = 0
        self.staged: PendingWrite | None = None
        self.batches_a_segment = 1_000_000
        self.is_warm = True

    @property
    def segments(self) -> list[ScriptedSegment]:
        size = self.batches_a_segment
        parts = [self.batches[start : start + size] for start in range(0, len(self.batches), size)]
        return [ScriptedSegment(b"".join(part), self.is_warm) for part in parts]

    def write(self, records: bytes) -> None:
        """Append what is there already, as a log of before."""
        self.batches += _split(bytearray(records), self.end_offset)
        self.end_offset = read_header(self.batches[-1]).last_offset + 1


class ScriptedPartition:
    """What a test sets says how it goes on.

    `fails`: the next appends are refused so. `tears`: they are in the log nevertheless, as after a failed flush.
    `holds`: the high watermark stays until `release`. `is_slow`: writes wait for `finish_write`. `is_short`: too few
    replicas are in sync.
    """

    def __init__(self, tasks: Tasks) -> None:
        self.topic, self.index = "__consumer_offsets", 0
        self.log = ScriptedLog()
        self.high_watermark = 0
        self.leader_epoch = 0
        self.waiters = WaitList()
        self._commits = CommitQueue()
        self.fails: KafkaError | None = None
        self.tears = False
        self.holds = False
        self.is_short = False
        self.is_slow = False
        self.appended = 0
        self.staged_batches: list[bytes] = []
        self.writes: deque[tuple[memoryview, Done]] = deque()
        self._tasks = tasks

    def __repr__(self) -> str:
        return "ScriptedPartition()"

    def restart(self, tasks: Tasks) -> None:
        """Another process has the log, as far as it was written."""
        self._tasks, self._commits = tasks, CommitQueue()
        self.writes.clear()
        self.log.staged, self.fails, self.is_slow, self.tears = None, None, False, False
        self.high_watermark = self.log.end_offset

    @property
    def commits_at_write(self) -> bool:
        return not self.holds

    def check_writable(self) -> None:
        """It always is."""

    def check_leads(self) -> None:
        """It always does."""

    def check_in_sync(self, code: ErrorCode) -> None:
        if self.is_short:
            raise KafkaError(code)

    def append(
        self,
        records: memoryview,
        required_acks: int,
        now_ms: int,
        origin: BatchOrigin | None = None,
        facts: BatchFacts | None = None,
    ) -> AppendInfo:
        self.write_staged()
        self.appended += 1
        if self.fails is not None:
            if self.tears:
                self.log.write(bytes(records))
                self.advance_high_watermark()
            raise self.fails
        first = self.log.end_offset
        self.log.write(bytes(records))
        self.advance_high_watermark()
        return AppendInfo(first, self.log.end_offset - 1, -1, 0, now_ms, False)

    def stage_fresh(self, records: memoryview, facts: BatchFacts, now_ms: int) -> AppendInfo:
        first = self.log.end_offset
        if self.log.staged is None:
            self.log.staged = PendingWrite(first, 0)
            self.staged_batches = []
        self.staged_batches += _split(bytearray(records), first)
        self.log.end_offset = read_header(self.staged_batches[-1]).last_offset + 1
        return AppendInfo(first, self.log.end_offset - 1, -1, 0, now_ms, False)

    def write_staged(self) -> None:
        staged, self.log.staged = self.log.staged, None
        if staged is None:
            return
        if self.fails is not None:
            staged.error = self.fails
            self.log.end_offset = staged.first_offset
            self.advance_high_watermark()
            raise self.fails
        self.log.batches += self.staged_batches
        self.advance_high_watermark()

    def writer(self) -> ScriptedPartition | _Writer | None:
        return _Writer(self.writes) if self.is_slow or self.writes else None

    def finish_write(self) -> None:
        """The thread has written, or failed to."""
        records, done = self.writes.popleft()
        try:
            info = self.append(records, -1, 0)
        except KafkaError as error:
            done(error)
        else:
            done(info)

    def fail_waiting_appends(self) -> None:
        """No follower sends a fetch, and the in-sync set cannot be changed."""
        self._commits.fail_all(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def release(self) -> None:
        """Every replica has everything."""
        self.holds = False
        self.advance_high_watermark()

    def advance_high_watermark(self) -> None:
        if not self.holds and self.high_watermark != self.log.end_offset:
            self.high_watermark = self.log.end_offset
            self._commits.advance(self.high_watermark)
            self._tasks.touch(self.waiters)

    def await_commit(self, append: Append) -> None:
        self._commits.add(append)


class _Writer:
    def __init__(self, writes: deque[tuple[memoryview, Done]]) -> None:
        self.writes = writes

    def append(
        self,
        records: memoryview,
        required_acks: int,
        now_ms: int,
        done: Done,
        origin: BatchOrigin | None = None,
        facts: BatchFacts | None = None,
    ) -> None:
        self.writes.append((records, done))


def _split(data: bytearray, offset: int) -> list[bytes]:
    batches = []
    position = 0
    while position < len(data):
        header = read_header(data, position)
        view = memoryview(data)[position : position + header.batch_length + LOG_OVERHEAD]
        patch(view, offset, 0)
        batches.append(bytes(view))
        offset += header.last_offset_delta + 1
        position += len(view)
    return batches
