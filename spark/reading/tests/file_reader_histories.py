"""Random histories of a log (`headgate.storage.tests.histories`), and a FileReader beside it.

At any moment the reader finds what a broker serves that is killed then and starts again: the same bounds, and the same
records of any range, in pieces of any size.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.steps import finish
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.aborted_transactions import IndexTrust
from headgate.spark.reading.file_reader import FileReader
from headgate.spark.reading.log_reader import (
    Bounds,
    FetchedBatches,
    IsolationLevel,
    LogUnavailable,
    OffsetOutOfRange,
    OffsetRange,
)
from headgate.spark.reading.tests.simulated_disk import SimulatedDisk, records
from headgate.storage.log.log import Log
from headgate.storage.segment.timestamp_lookup import More
from headgate.storage.tests.builders import NOW_MS, content, open_store, stored
from headgate.storage.tests.compacting_histories import CompactingHistory
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.histories import KEY, History
from headgate.storage.tests.transactional_histories import CompactingTransactionalHistory, TransactionalHistory
from headgate.storage.tests.transactions_model import committed
from headgate.tools.log.data_directory import DataDirectory

PARTITION = TopicPartition(*KEY)
READ_COMMITTED, READ_UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


class RunningReader(FileReader):
    """A reader beside a running broker; no process holds a lock on a simulated disk."""

    def _trust(self, data: DataDirectory, partition: TopicPartition) -> IndexTrust:
        return IndexTrust(has_last=False, may_lack_files=False)


def reader_of(files: CrashingFiles, piece_bytes: int = 1 << 20) -> FileReader:
    return FileReader(["/data"], disk=SimulatedDisk(files), piece_bytes=piece_bytes, sleep=lambda _: None)


def served(log: Log, isolation: IsolationLevel) -> list[Record]:
    """The records that a consumer gets from a broker with this log."""
    is_committed = isolation is READ_COMMITTED
    batches = committed(log, log.start_offset, 1 << 20) if is_committed else iter(stored(content(log)))
    found = (record for header, view in batches if not header.is_control for record in batch.iterate(view))
    return [record for record in found if record.offset >= log.start_offset]


class BesideHistory(History):
    """A FileReader looks at the disk between two changes of names, after some of the steps, and during others."""

    share = 0.2
    steps_beside: Sequence[str]

    def run(self, step: str) -> None:
        super().run(step)
        if self.random.random() < self.share:
            self.look_at_files()

    def open(self) -> None:
        """After a crash, before the start; and look in the middle of things from now on."""
        self.look_at_files()
        files = self.files
        is_changed = files.tick

        def tick(operation: str, path: str) -> None:
            is_changed(operation, path)
            if operation in {"rename", "remove"} and self.random.random() < self.share:
                self.look_at_files()

        files.tick = tick  # type: ignore[method-assign]
        super().open()

    def look_at_files(self) -> None:
        """Compare with a start from the same files."""
        files = self.files.copy()
        reader = reader_of(files, self.random.choice([64, 700, 1 << 20]))
        store = open_store(self.files.copy(), self.config)
        log = store.logs.get(KEY)
        if log is None:
            with pytest.raises(LogUnavailable):
                reader.bounds([PARTITION], READ_COMMITTED)
            return
        log.producers.replicated(log.end_offset)
        for isolation in IsolationLevel:
            self.compare(reader, log, isolation)
        self.compare_times(reader, log)
        reader.close()
        assert files.open_handles == 0
        self.seen["compared"] += 1

    def read_beside(self) -> None:
        """Read a range while the log goes on: no more is missing than what retention or compaction took meanwhile."""
        log, isolation = self.log, self.random.choice(list(IsolationLevel))
        if self.files.faults or self.files.room is not None or log.sync_error is not None:
            return
        cut_after, self.files.cut_after = self.files.cut_after, None
        log.producers.replicated(log.end_offset)
        before = served(log, isolation)
        end = log.end_offset if isolation is READ_UNCOMMITTED else log.stable_offset
        start = self.random.randint(log.start_offset, end)
        wanted = OffsetRange(PARTITION, start, self.random.randint(start, end))
        is_busy = False

        def go_on() -> None:
            nonlocal is_busy
            if not is_busy and self.random.random() < 0.15:
                is_busy = True
                self.do(self.random.choice(self.steps_beside))
                is_busy = False

        disk = SimulatedDisk(self.files, go_on)
        reader = RunningReader(["/data"], disk=disk, piece_bytes=self.random.choice([64, 700]), sleep=lambda _: None)
        reached, pieces = wanted.start_offset, list[FetchedBatches]()
        try:
            for piece in reader.read(wanted, isolation):
                pieces.append(piece)
                reached = piece.next_offset
                go_on()
        except OffsetOutOfRange:
            assert reached < log.start_offset
            self.seen["out of range"] += 1
        expected = [record for record in before if wanted.start_offset <= record.offset < wanted.end_offset]
        found = records(pieces, wanted._replace(end_offset=min(reached, wanted.end_offset)))
        there = {record.offset for record in served(log, isolation)}
        by_offset = {record.offset: record for record in expected}
        assert all(by_offset[record.offset] == record for record in found)
        missing = by_offset.keys() - {record.offset for record in found}
        assert not {offset for offset in missing & there if offset < reached}
        self.files.cut_after = cut_after
        self.seen["read beside"] += 1

    def compare(self, reader: FileReader, log: Log, isolation: IsolationLevel) -> None:
        end = log.end_offset if isolation is READ_UNCOMMITTED else log.stable_offset
        (bounds,) = reader.bounds([PARTITION], isolation).values()
        assert bounds == Bounds(log.start_offset, end)
        expected = served(log, isolation)
        whole = OffsetRange(PARTITION, *bounds)
        assert records(reader.read(whole, isolation), whole) == expected
        for _ in range(2):
            start = self.random.randint(log.start_offset, end)
            part = OffsetRange(PARTITION, start, self.random.randint(start, end))
            found = records(reader.read(part, isolation), part)
            assert found == [record for record in expected if part.start_offset <= record.offset < part.end_offset]

    def compare_times(self, reader: FileReader, log: Log) -> None:
        time_ms = NOW_MS + self.random.randint(-60, 60)
        found = finish(log.offset_for_time(time_ms, log.end_offset))
        while isinstance(found, More):
            found = finish(log.offset_for_time(time_ms, log.end_offset, found))
        assert reader.offsets_for_times({PARTITION: time_ms}) == {PARTITION: found and found.offset}


class HistoryBeside(BesideHistory):
    """A log of records."""

    steps_beside = ("append", "gather", "roll", "flush", "retain", "delete_records", "sweep", "checkpoint")


class CompactingBeside(BesideHistory, CompactingHistory):
    """A compacted log."""

    steps_beside = (*HistoryBeside.steps_beside, *["begin_round", "go_on", "go_on"] * 3)


class TransactionalBeside(BesideHistory, TransactionalHistory):
    """A log with transactions."""

    steps_beside = HistoryBeside.steps_beside


class CompactingTransactionalBeside(BesideHistory, CompactingTransactionalHistory):
    """A compacted log with transactions."""

    steps_beside = CompactingBeside.steps_beside
