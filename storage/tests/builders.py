"""What the tests of this package build again and again."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from headgate.protocol.records import control
from headgate.protocol.records.batch import NO_PRODUCER_ID, BatchHeader, Record, build, read_header
from headgate.protocol.records.control import Marker
from headgate.protocol.steps import finish
from headgate.storage.cleanup.retention import all_expired, begin_segment_deletion
from headgate.storage.config import LogConfig
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.files import Files
from headgate.storage.log import appending, log_lock, rolling, segment_deletion
from headgate.storage.log.log import Log
from headgate.storage.log.pending_write import Owner
from headgate.storage.log.producers import Producers
from headgate.storage.log.validation import BROKER, CLIENT, HEADER, BatchOrigin, Depth
from headgate.storage.recovery import sync_failure_repair
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.transaction_index import AbortedTransaction, parse
from headgate.storage.segment.transactions import Transactions
from headgate.storage.tests.crashing_files import CrashingFiles

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
DIRECTORY = "/data"
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200, segment_index_bytes=10_000)


def batch(count: int = 1, *, timestamp: int = NOW_MS, size: int = 20, **settings: Any) -> memoryview:
    """A batch of `count` records, as a client sends it."""
    records = [Record(timestamp=timestamp, key=b"k%d" % number, value=b"v" * size) for number in range(count)]
    return memoryview(build(records, **settings))


def numbered(
    sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, size: int = 20, **settings: Any
) -> memoryview:
    """A batch of an idempotent producer."""
    assert producer_id != NO_PRODUCER_ID
    return batch(count, size=size, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **settings)


def transactional(sequence: int, count: int = 1, **settings: Any) -> memoryview:
    """A batch of a transaction."""
    return numbered(sequence, count, is_transactional=True, **settings)


def marker(is_commit: bool, *, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 0) -> memoryview:
    """The end of a transaction."""
    ended = Marker(is_commit, coordinator_epoch)
    return memoryview(control.build(ended, producer_id=producer_id, producer_epoch=epoch, timestamp=NOW_MS))


def open_all(log_directory: LogDirectory, now_ms: int) -> None:
    """Open every unopened log at once."""
    for key in list(log_directory.unopened):
        log_directory.open_now(key, log_directory.config, now_ms)


def open_directory(directory: str, *, now_ms: int, **settings: Any) -> LogDirectory:
    """`LogDirectory.take`, with every log open. A damaged partition stays in `failed`; the others open."""
    log_directory = LogDirectory.take(directory, **settings).claim()
    try:
        open_all(log_directory, now_ms)
    except BaseException:
        log_directory.abandon()
        raise
    return log_directory


def open_store(files: Files, config: LogConfig = SMALL, **settings: Any) -> LogDirectory:
    return open_directory(DIRECTORY, files=files, node_id=0, config=config, now_ms=NOW_MS, random=Random(1), **settings)


class StillOwner:
    """Has no flush made, and rolls at once."""

    def __init__(self) -> None:
        self.asked = 0  # for a flush

    def sync_soon(self) -> None:
        self.asked += 1

    def write_epochs_soon(self) -> None:
        """Leave it to the next flush."""

    def run_roll(self, roll: Callable[[], None]) -> None:
        roll()


def no_checkpoint() -> None:
    """For a log that is cut: no checkpoint of its directory says anything of it."""


def new_log(files: Files | None = None, config: LogConfig = SMALL) -> Log:
    """The log of t-0 in a store of its own."""
    return open_store(files or CrashingFiles()).create("t", 0, TOPIC_ID, config, NOW_MS)


def files_of(log: Log) -> CrashingFiles:
    files = log.pool.files
    assert isinstance(files, CrashingFiles)
    return files


def append(
    log: Log,
    *batches: memoryview,
    leader_epoch: int = 0,
    owner: Owner | None = None,
    depth: Depth = HEADER,
    origin: BatchOrigin = CLIENT,
) -> int:
    """Append batches one by one; the log's end afterwards."""
    for data in batches:
        appending.append(log, data, leader_epoch=leader_epoch, now_ms=NOW_MS, owner=owner, depth=depth, origin=origin)
    return log.end_offset


def append_own(log: Log, *batches: memoryview) -> int:
    """The same with batches that only a coordinator, or a client of one, may write."""
    return append(log, *batches, origin=BROKER)


def content(log: Log) -> bytes:
    """All that a consumer reads from the start on."""
    offset, data = log.start_offset, b""
    while (piece := log.read(offset, 500, log.end_offset, at_least_one=True)) is not None:
        data += piece.read()
        piece.release()
        offset = next_offset(data)
    return data


def content_up_to(log: Log, end: int) -> int:
    """How many bytes can be read below an offset, from the start on."""
    if end <= log.start_offset:
        return 0
    offset, size = log.start_offset, 0
    while (piece := log.read(offset, 1 << 20, end, at_least_one=True)) is not None:
        size += len(piece)
        offset = next_offset(piece.read())
    return size


def stored(data: bytes) -> list[tuple[BatchHeader, memoryview]]:
    """The batches in what was read, such as compaction has made too."""
    found, view = [], memoryview(data)
    while view:
        header = read_header(view)
        found.append((header, view[: header.size]))
        view = view[header.size :]
    return found


def with_records(log: Log) -> list[memoryview]:
    """What a reader makes use of: batches that compaction has emptied may be passed over."""
    return [view for header, view in stored(content(log)) if header.records_count]


def read(log: Log, offset: int, max_bytes: int = 1 << 30) -> bytes:
    """One read from an offset on, the first batch whole."""
    piece = log.read(offset, max_bytes, log.end_offset, at_least_one=True)
    assert piece is not None
    return piece.read()


def next_offset(data: bytes) -> int:
    """The offset behind the last of some batches."""
    position, offset = 0, -1
    while position < len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        offset = int.from_bytes(data[position : position + 8], "big") + int.from_bytes(
            data[position + 23 : position + 27], "big"
        )
        position += size
    assert position == len(data), "a read ends with a whole batch"
    return offset + 1


def rebuilt_indexes(segment: Segment, index_interval_bytes: int, *, sealed: bool) -> tuple[bytes, bytes]:
    """What the indexes of a segment should be, made by the rule and nothing else."""
    offsets, times = b"", b""
    indexed_position, highest, highest_offset, last_timestamp = 0, -1, 0, -1
    for position, header in segment.iterate():
        if header.max_timestamp > highest:
            highest, highest_offset = header.max_timestamp, header.last_offset - segment.base_offset
        if position - indexed_position > index_interval_bytes:
            offsets += (header.last_offset - segment.base_offset).to_bytes(4, "big") + position.to_bytes(4, "big")
            indexed_position = position
            if highest > last_timestamp:
                times += highest.to_bytes(8, "big") + highest_offset.to_bytes(4, "big")
                last_timestamp = highest
    if sealed and highest > last_timestamp:
        times += highest.to_bytes(8, "big") + highest_offset.to_bytes(4, "big")
    return offsets, times


def assert_derived_state(log: Log) -> None:
    """Indexes, transactions and epochs are what the log's bytes make of them."""
    for segment in log.segments:
        expected = rebuilt_indexes(segment, log.config.index_interval_bytes, sealed=segment.is_sealed)
        assert (segment.offsets.content(), segment.times.content()) == expected, segment
    assert_transactions(log)
    epochs: list[tuple[int, int]] = []
    for header in log.segments.headers(log.start_offset):
        if not epochs or header.partition_leader_epoch > epochs[-1][0]:
            epochs.append((header.partition_leader_epoch, max(header.base_offset, log.start_offset)))
    known = log.epochs.entries
    while len(known) > 1 and known[1][1] <= log.start_offset:
        del known[0]
    known = [(epoch, max(start, log.start_offset)) for epoch, start in known]
    if known and known[-1][1] == log.end_offset:  # of a leader that has written nothing yet
        known = known[:-1]
    assert known == epochs or (not epochs and len(known) == 1), f"{known}, and the batches say {epochs}"


def assert_transactions(log: Log, *, is_compacted: bool = False) -> None:
    """Open and aborted transactions are what the log's bytes make of them, from its first segment on.

    What was compacted is not seen any more: then more may be known, and that transactions were longer.
    """
    # A cut that a power cut interrupts may leave an empty segment in front, and a gap behind that.
    start = next((segment.base_offset for segment in log.segments if segment.size), log.segments.active.base_offset)
    transactions, expected = Transactions(), dict[int, AbortedTransaction]()
    for header, ended in log.segments.batches(start):
        aborted = transactions.follow(header, header.base_offset, ended)
        if aborted is not None:
            expected[aborted.last_offset] = aborted
    known = [aborted for segment in log.segments if segment.aborted is not None for aborted in entries(segment)]
    assert [aborted.last_offset for aborted in known] == sorted(aborted.last_offset for aborted in known)
    for one in known:
        if not is_compacted and start <= min(one.first_offset, one.last_stable_offset):
            assert expected.pop(one.last_offset) == one
        else:  # what was deleted is not seen any more
            again = expected.pop(one.last_offset, one)
            assert again.producer_id == one.producer_id
            assert one.first_offset <= again.first_offset
            assert one.last_stable_offset <= again.last_stable_offset
    assert not expected, f"not in the index: {expected}"
    for producer_id, first_offset in transactions.open.items():
        assert log.producers.transactions.open[producer_id] in range(first_offset + 1)
    if not start:
        assert log.producers.transactions.open.keys() == transactions.open.keys()
        assert is_compacted or log.producers.transactions.open == transactions.open


def entries(segment: Segment) -> list[AbortedTransaction]:
    """What its `.txnindex` says, within the bounds of the segment."""
    assert segment.aborted is not None
    found = parse(segment.aborted.content())
    assert all(segment.base_offset <= aborted.last_offset < segment.end_offset() for aborted in found)
    return found


def replayed(log: Log, end: int) -> Producers:
    """The producers' state before an offset, from the batches that are there."""
    producers = Producers()
    for header, ended in log.segments.batches(log.start_offset):
        if header.last_offset < end:
            producers.record(header, header.base_offset, ended)
    return producers


def assert_producers(known: Producers, rebuilt: Producers, *, whole: bool) -> None:
    """What is known is what the batches say; if these are not `whole`, more may be known, of what was deleted."""
    for producer_id, producer in rebuilt.by_id.items():
        of_it = known.by_id[producer_id]
        assert of_it.epoch == producer.epoch
        shorter = min(len(of_it.batches), len(producer.batches))
        assert not shorter or of_it.batches[-shorter:] == producer.batches[-shorter:]
        assert of_it.is_partial or not whole or of_it == producer
    assert known.by_id.keys() == rebuilt.by_id.keys() or not whole


def assert_index_files(log: Log, files: Files) -> None:
    """After a clean stop each is what the log's bytes make of it."""
    for segment in filter(lambda segment: segment.size, log.segments):
        expected = rebuilt_indexes(segment, log.config.index_interval_bytes, sealed=segment.size > 0)
        for index, data in zip((segment.offsets, segment.times), expected, strict=True):
            there = files.read(index.path) if files.exists(index.path) else b""
            assert there == data, index.path


def delete_old_segments(log: Log, now_ms: int, up_to: int, most: int | None = None) -> int:
    """What `gateway/maintenance/retention_task.py` does with a log, all at once; how many segments went."""
    count = 0
    while (expired := begin_segment_deletion(log, now_ms, up_to, most)) is not None:
        count += len(expired.left)
        try:
            expired.rename_files()
        finally:
            segment_deletion.end(log, expired)
        if most is not None:
            break
    if log.lock.may(log_lock.ROLL | log_lock.DELETE_SEGMENTS) and all_expired(log, now_ms, up_to):
        rolling.roll_for_retention(log, now_ms)
        count += delete_old_segments(log, now_ms, up_to)
    return count


def repair(log: Log) -> bool:
    """Repair a log at once; True if it takes records again."""
    work = sync_failure_repair.begin(log)
    if work is None:
        return False
    finish(work.steps())
    if sync_failure_repair.apply(log, work):
        finish(work.write_steps())
    return sync_failure_repair.end(log, work)
