"""What the tests of compaction build: logs with keys, and what a reader finds in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from headgate.protocol.records import control
from headgate.protocol.records.batch import BatchHeader, Record, build, iterate, patch, read_header
from headgate.protocol.records.control import Marker
from headgate.protocol.steps import finish
from headgate.storage.cleanup.compaction.compaction_job import Job, assess, plan
from headgate.storage.cleanup.compaction.computation import WRITE_BYTES, Computation
from headgate.storage.cleanup.compaction.log_compaction import Collect, LogCompaction, Rewrite, advance, new_segment
from headgate.storage.config import LogConfig
from headgate.storage.log import flushing, rolling
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import NOW_MS, content, new_log, rebuilt_indexes

COMPACT = LogConfig(
    cleanup_policy=("compact",), segment_bytes=1000, index_interval_bytes=100, segment_index_bytes=10_000
)
ABORT, COMMIT = False, True


def keyed(*pairs: tuple[str | None, str | None], timestamp: int = NOW_MS, **settings: Any) -> bytearray:
    """A batch of these keys and values."""
    records = [
        Record(-1, timestamp + number, _bytes(key), _bytes(value), [("h", b"x")])
        for number, (key, value) in enumerate(pairs)
    ]
    return build(records, **settings)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def marker(is_commit: bool, producer_id: int = 7, epoch: int = 0) -> bytearray:
    """A transaction's end."""
    return control.build(Marker(is_commit, 0), producer_id=producer_id, producer_epoch=epoch, timestamp=NOW_MS)


def transactional(*pairs: tuple[str | None, str | None], producer_id: int = 7, sequence: int = 0) -> bytearray:
    """A batch of a transaction."""
    return keyed(*pairs, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)


def put(log: Log, *batches: bytearray) -> None:
    """Append what the log would refuse from a client, or not take as it is: markers, records that are none."""
    for data in batches:
        header = read_header(data)
        patch(data, log.end_offset, 0)
        if log.epochs.latest < 0:
            log.epochs.assign(0, log.end_offset)
        written = [(len(data), log.end_offset + header.last_offset_delta, header.max_timestamp)]
        log.segments[-1].append(bytes(data), written, log.config.index_interval_bytes)
        if header.is_transactional and not log.has_transactions:
            log.follow_transactions()
        ended = control.read(data) if header.is_control else None
        aborted = log.producers.record(header, log.end_offset, ended)
        if aborted is not None:
            log.segments[-1].follow_transactions([aborted])
        log.producers.replicated(1 << 62)
        log.end_offset += header.last_offset_delta + 1


def close_segment(log: Log) -> None:
    """Begin a new segment, and have all before it on the disk: only that is compacted."""
    rolling.roll(log, NOW_MS)
    flushing.flush(log)


def headers(log: Log) -> list[BatchHeader]:
    return list(log.segments.headers(log.start_offset))


def records(log: Log) -> list[Record]:
    """All that a consumer reads, markers and what was aborted too."""
    return [record for _, record in _records(content(log))]


def _records(data: bytes) -> Iterator[tuple[BatchHeader, Record]]:
    position = 0
    while position < len(data):
        header = read_header(data, position)
        for record in iterate(data[position : position + header.size]):
            yield header, record
        position += header.size


def values(log: Log) -> dict[str, str | None]:
    """Key -> value of the last record of each, by what a consumer reads."""
    found: dict[str, str | None] = {}
    for header, record in _records(content(log)):
        if not header.is_control and record.key is not None:
            found[record.key.decode()] = None if record.value is None else record.value.decode()
    return found


def assert_indexes(log: Log) -> None:
    """The indexes are what the log's bytes make of them, and segments lie one behind the other without a gap."""
    for segment in log.segments:
        expected = rebuilt_indexes(segment, log.config.index_interval_bytes, sealed=segment.is_sealed)
        assert (segment.offsets.content(), segment.times.content()) == expected, segment
    bounds = zip(log.segments, log.segments[1:], strict=False)
    wanted = [
        (segment.end_offset(), behind.base_offset)
        for segment, behind in bounds
        if behind.base_offset > log.start_offset
    ]
    assert all(end_offset == base_offset for end_offset, base_offset in wanted)
    assert log.segments[-1].end_offset() == log.end_offset
    epochs = {epoch for epoch, _ in log.epochs.entries}
    assert all(header.partition_leader_epoch in epochs for header in headers(log))


def offsets(found: Sequence[Record]) -> list[int]:
    return [record.offset for record in found]


def filled(*batches: bytearray, config: Any = COMPACT) -> Log:
    """A log of one closed segment with these batches, and an empty active one."""
    log = new_log(config=config)
    put(log, *batches)
    close_segment(log)
    return log


def compact_with(log: Log, now_ms: int = NOW_MS, **changes: Any) -> None:
    """Compact with a job that says something else than the log does."""
    dirt = assess(log, now_ms, log.end_offset)
    job = replace(plan(log, dirt, now_ms, table_bytes=1 << 20, read_bytes=100), **changes)
    job = Job.from_values(asdict(job))
    work = Computation(log.pool, job)
    collected = finish(work.collect())
    for bases in collected.groups:
        rewritten = finish(work.rewrite(bases))
        old = log.segments.compacted.closed(bases)
        assert old is not None
        if rewritten.is_changed:
            log.segments.compacted.replace(log.pool.files, old, new_segment(log, bases, rewritten, now_ms), 0.0)
    log.segments.compacted.offset = collected.end_offset


def compact(log: Log, now_ms: int, up_to: int | None = None, *, table_bytes: int = 1 << 27) -> bool:
    """Compact a log at once, at any cleanable ratio. Returns whether it had dirty bytes. Raises OSError, Damaged."""
    cleanable = assess(log, now_ms, log.end_offset if up_to is None else up_to)
    if not cleanable.dirty_bytes:
        return False
    steps = LogCompaction(log, cleanable, now_ms, table_bytes=table_bytes, read_bytes=WRITE_BYTES).steps()
    answer: object = None
    work: Computation | None = None
    while True:
        try:
            request = advance(steps, answer)
        except StopIteration:
            return True
        try:
            if isinstance(request, Collect):
                work = Computation(log.pool, request.job)
                answer = finish(work.collect())
            elif isinstance(request, Rewrite):
                assert work is not None
                answer = finish(work.rewrite(request.bases))
            else:
                answer = request.work()
        except BaseException as error:  # noqa: BLE001 - the compaction raises the error
            answer = error
