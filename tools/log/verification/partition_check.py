"""Verify a partition's files: read each batch, rebuild everything derived from batches, and compare.

Kinds of findings:
corrupt     damaged or missing batches below the recovery point, or after a clean shutdown: they were on the disk once
torn        the same after the recovery point, as a crash leaves it; the next start truncates there
index, snapshot, epochs
            a derived file contradicts the batches; the next start or a repair rebuilds the file
file        an auxiliary file that cannot be read
overlap     a superseded segment: a newer segment, written by a compaction, holds its offsets
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate.protocol.records import control
from headgate.protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader
from headgate.protocol.records.control import Marker
from headgate.storage.disk import layout
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import BadFile
from headgate.storage.files import Files
from headgate.storage.log import epochs as leader_epochs
from headgate.storage.log.epochs import Epochs
from headgate.storage.log.producers import SNAPSHOT_SUFFIX
from headgate.storage.segment.batch_iterator import BatchIterator
from headgate.storage.segment.index import Index, OffsetIndex, TimeIndex
from headgate.storage.segment.segment import DERIVED_SUFFIXES, Segment
from headgate.storage.segment.transaction_index import TransactionIndex
from headgate.storage.segment.transactions import Transactions
from headgate.tools.log import segment_reader
from headgate.tools.log.auxiliary_files import parse_index
from headgate.tools.log.data_directory import DataDirectory, PartitionDirectory, is_empty
from headgate.tools.log.overlay import Overlay
from headgate.tools.log.verification import overlapping_segments, scanning
from headgate.tools.log.verification.index_check import IndexCheck, is_equivalent_index
from headgate.tools.log.verification.producer_check import ProducerCheck
from headgate.tools.log.verification.scanning import DamagedRange

CORRUPT, TORN, OVERLAP, INDEX, SNAPSHOT = "corrupt", "torn", "overlap", "index", "snapshot"
EPOCHS, FILE = "epochs", "file"
SAME, OTHER, UNFINISHED, WRONG, UNKNOWN = "same", "other", "unfinished", "wrong", "unknown"
DEFAULT_INTERVAL_BYTES = 4096
INDEX_SUFFIXES = tuple(suffix for suffix in DERIVED_SUFFIXES if suffix != SNAPSHOT_SUFFIX)

Advance = Callable[[int, str], None]
"""Called with (bytes, name of the partition): so many more bytes are checked."""


class PartitionFinding(NamedTuple):
    """One thing that is wrong: its kind, its file, and a sentence."""

    kind: str
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.path}: {self.problem}"


@dataclass
class SegmentReport:
    """The results for one segment.

    `indexes`: same (as rebuilt here), other (right, but with other entries), unfinished, wrong, unknown.
    `interval_bytes`: the interval of the indexes on the disk; `requested_interval_bytes`: the interval tried first.
    `gap_from`: the expected base offset, if the next start would truncate the log at the gap before the segment.
    `open_transactions`: producer id -> first offset of the transactions open at the segment's base offset.
    """

    segment: Segment
    batches: int = 0
    records: int = 0
    end_offset: int = 0
    damaged_ranges: list[DamagedRange] = field(default_factory=list)
    indexes: str = UNKNOWN
    interval_bytes: int = DEFAULT_INTERVAL_BYTES
    requested_interval_bytes: int = DEFAULT_INTERVAL_BYTES
    open_transactions: Mapping[int, int] = field(default_factory=dict)
    gap_from: int | None = None
    problem: str = ""


@dataclass
class PartitionReport:
    """The results for a partition. `superseded`: segments with offsets that an earlier one of `segments` holds.

    `missing_offsets`: the number of offsets in no batch, after the compacted part: the reason is unknown.
    """

    partition: PartitionDirectory
    segments: list[SegmentReport]
    findings: list[PartitionFinding]
    start_offset: int = 0
    end_offset: int = 0
    missing_offsets: int = 0
    superseded: list[Segment] = field(default_factory=list)


def verify_partition(
    data: DataDirectory, partition: PartitionDirectory, advance: Advance, interval_bytes: int = DEFAULT_INTERVAL_BYTES
) -> PartitionReport:
    """Check all files of a partition, without changing any. `interval_bytes`: index.interval.bytes to try first.

    Raises OSError.
    """
    return _Verification(data, partition, advance, interval_bytes).run()


class _Verification:
    def __init__(
        self, data: DataDirectory, partition: PartitionDirectory, advance: Advance, interval_bytes: int
    ) -> None:
        self._data = data
        self._partition = partition
        self._advance = advance
        self._interval_bytes = interval_bytes
        self._disk = Files()
        self._pool = Pool(Overlay())
        self._names = self._disk.list(partition.directory)
        self._segments = segment_reader.open_segments(self._pool, partition.directory, self._names)
        self._compacted_to = data.cleaner_offsets.get(partition.key, 0)
        self._recovery_point = data.recovery_points.get(partition.key, 0)
        self._report = PartitionReport(partition, [], [])
        self._producers = ProducerCheck(self._disk, partition.directory, self._names, self._base())
        self._epochs = Epochs(self._disk, partition.directory)
        self._mismatched_epochs = 0
        self._lacks_epochs = False
        self._expected = self._base()

    def _base(self) -> int:
        return self._segments[0].base_offset if self._segments else 0

    def _add(self, kind: str, path: str, problem: str) -> None:
        self._report.findings.append(PartitionFinding(kind, path, problem))

    def _add_file(self, path: str, error: BadFile, remedy: str = "") -> None:
        self._add(FILE, path, str(error).removeprefix(path).lstrip(": ") + remedy)

    def run(self) -> PartitionReport:
        self._check_auxiliary_files()
        self._exclude_superseded()
        expected = self._base()
        for number, segment in enumerate(self._segments):
            following = self._segments[number + 1] if number + 1 < len(self._segments) else None
            is_reported = bool(self._report.segments and self._report.segments[-1].damaged_ranges)
            is_gap = segment.base_offset > expected and not is_reported and not self._is_flushed(expected)
            if is_gap:
                self._add(TORN, segment.path, f"it should begin at offset {expected}; the next start cuts there")
            found = self._check_segment(segment, following)
            found.gap_from = expected if is_gap else None
            self._report.segments.append(found)
            self._report.end_offset = expected = max(expected, found.end_offset)
            segment.close()
        self._check_ends()
        # A broker does not open a log that lost its end, so a snapshot of the lost end may stay
        for path, problem in self._producers.finish(max(self._report.end_offset, self._recovery_point)):
            self._add(SNAPSHOT, path, problem)
        return self._report

    def _exclude_superseded(self) -> None:
        superseded = overlapping_segments.find_superseded(self._segments)
        for segment in self._segments:
            newer = superseded.get(segment.base_offset)
            if newer is not None:
                sentence = f"{newer.path} holds all of its offsets, as a compaction left them; `headgate log repair`"
                self._add(OVERLAP, segment.path, f"{sentence} moves it aside")
                self._report.superseded.append(segment)
                self._advance(segment.size, str(self._partition))
        self._segments = [one for one in self._segments if one.base_offset not in superseded]

    def _is_flushed(self, offset: int) -> bool:
        """True if the record at an offset was on the disk once, so that a crash does not explain damage."""
        return self._data.is_clean or offset < self._recovery_point

    # Segments

    def _check_segment(self, segment: Segment, following: Segment | None) -> SegmentReport:
        found = SegmentReport(segment, end_offset=segment.base_offset, requested_interval_bytes=self._interval_bytes)
        found.open_transactions = self._producers.open_transactions()
        stored = {suffix: self._content(segment, suffix) for suffix in INDEX_SUFFIXES}
        offsets = parse_index(OffsetIndex, stored[OffsetIndex.SUFFIX] or b"")
        times = parse_index(TimeIndex, stored[TimeIndex.SUFFIX] or b"")
        index_check = IndexCheck(segment.base_offset, offsets.pairs, times.pairs)

        def visit(position: int, header: BatchHeader) -> None:
            index_check.observe(position, header)
            self._visit(found, position, header)

        iterator = self._rebuild(found, self._interval_bytes)
        limit = scanning.limit_of(segment, following, self._recovery_point or None if self._data.is_clean else None)
        found.damaged_ranges = scanning.scan(segment, iterator, limit, visit)
        for damaged in found.damaged_ranges:
            self._report_damage(segment, damaged, following)
        if not found.damaged_ranges:
            self._classify_indexes(found, stored, index_check, is_last=following is None)
        if self._mismatched_epochs:
            path = f"{segment.directory}/{leader_epochs.FILE_NAME}"
            sentence = (
                f"{self._mismatched_epochs} batches of {segment.path} were written in other epochs than the file says"
            )
            self._add(EPOCHS, path, sentence)
            self._mismatched_epochs = 0
        return found

    def _visit(self, found: SegmentReport, position: int, header: BatchHeader) -> None:
        if header.base_offset > self._expected >= self._compacted_to and header.magic == MAGIC:
            self._report.missing_offsets += header.base_offset - self._expected
        self._expected = header.last_offset + 1
        found.batches += 1
        found.records += max(0, header.records_count)
        found.end_offset = header.last_offset + 1
        self._producers.observe(header, read_marker(found.segment, position, header))
        self._observe_epoch(header.partition_leader_epoch, header.base_offset)
        self._advance(header.size, str(self._partition))

    def _observe_epoch(self, epoch: int, offset: int) -> None:
        if epoch < 0:
            return
        if self._lacks_epochs and self._is_flushed(offset):  # before the first flush the file may not exist yet
            self._lacks_epochs = False
            path = f"{self._partition.directory}/{leader_epochs.FILE_NAME}"
            self._add(EPOCHS, path, "it is missing; the next start rebuilds it from the batches")
        self._mismatched_epochs += 0 <= self._epochs.epoch_at(offset) != epoch

    def _report_damage(self, segment: Segment, damaged: DamagedRange, following: Segment | None) -> None:
        self._advance(damaged.end - damaged.start, str(self._partition))
        if self._data.lock_holder is not None and following is None and _is_partial_append(segment, damaged):
            return
        following_offset = None if following is None else following.base_offset
        behind = damaged.next_offset if damaged.next_offset is not None else following_offset
        behind = damaged.end_offset or behind
        lost = f"from {damaged.first_offset} on" if behind is None else f"{damaged.first_offset} to {behind - 1}"
        is_flushed = self._is_flushed(damaged.first_offset)
        repair = "`headgate log repair` keeps the batches behind it"
        remedy = repair if is_flushed else "the next start cuts the log there"
        sentence = f"bytes {damaged.start} to {damaged.end}, offsets {lost}: {damaged.problem}; {remedy}"
        self._add(CORRUPT if is_flushed else TORN, segment.path, sentence)

    # Indexes

    def _rebuild(self, found: SegmentReport, interval_bytes: int) -> BatchIterator:
        iterator = found.segment.rebuild(interval_bytes)
        iterator.transactions = Transactions(found.open_transactions)
        return iterator

    def _content(self, segment: Segment, suffix: str) -> bytes | None:
        name = f"{segment.base_offset:020d}{suffix}"
        return self._disk.read(f"{segment.directory}/{name}") if name in self._names else None

    def _classify_indexes(
        self, found: SegmentReport, stored: Mapping[str, bytes | None], index_check: IndexCheck, *, is_last: bool
    ) -> None:
        segment = found.segment
        found.interval_bytes = self._interval_bytes
        different = self._different(segment, stored)
        if different and index_check.interval_bytes is not None and not index_check.wrong_offset_entries:
            for _ in self._rebuild(found, index_check.interval_bytes):
                pass
            found.interval_bytes = index_check.interval_bytes
            different = self._different(segment, stored)
        if not different:
            found.indexes = SAME
            return
        if not self._data.is_clean and (is_last or found.end_offset > self._recovery_point):
            found.indexes = UNFINISHED
            return
        right = {
            OffsetIndex.SUFFIX: not index_check.wrong_offset_entries
            and _is_whole(OffsetIndex, stored[OffsetIndex.SUFFIX]),
            TimeIndex.SUFFIX: not index_check.wrong_time_entries and _is_whole(TimeIndex, stored[TimeIndex.SUFFIX]),
            TransactionIndex.SUFFIX: is_equivalent_index(
                stored[TransactionIndex.SUFFIX] or b"",
                self._expected_content(segment, TransactionIndex.SUFFIX),
                may_have_more=self._compacted_to > 0,
            ),
        }
        wrong = [suffix for suffix in different if not right[suffix]]
        found.indexes = WRONG if wrong else OTHER
        if wrong:
            problems = [f"{suffix} {'is missing' if stored[suffix] is None else 'is wrong'}" for suffix in wrong]
            found.problem = ", ".join(problems)
            self._add(INDEX, segment.path, f"{found.problem}; `headgate log repair` rebuilds it")

    def _different(self, segment: Segment, stored: Mapping[str, bytes | None]) -> list[str]:
        """The suffixes of the indexes that differ from the rebuilt ones."""
        segment.seal()
        different = []
        for suffix, content in stored.items():
            expected = self._expected_content(segment, suffix)
            is_there = content is not None or not (expected or suffix in _ALWAYS)
            if (content or b"") != expected or not (is_there or not segment.size):
                different.append(suffix)
        return different

    def _expected_content(self, segment: Segment, suffix: str) -> bytes:
        """The content of a rebuilt index, from the overlay."""
        path = f"{segment.directory}/{segment.base_offset:020d}{suffix}"
        return self._pool.files.read(path) if segment.size and self._pool.files.exists(path) else b""

    # Other files

    def _check_auxiliary_files(self) -> None:
        directory = self._partition.directory
        try:
            layout.read_topic_id(self._disk, directory)
        except BadFile as error:
            self._add_file(f"{directory}/{layout.PARTITION_METADATA}", error)
        path = f"{directory}/{leader_epochs.FILE_NAME}"
        try:
            entries = [] if is_empty(self._disk, path) else leader_epochs.read_entries(self._disk, directory)
        except BadFile as error:
            self._add_file(path, error, "; the next start rebuilds it from the batches")
            return
        self._epochs.load(entries or ())
        self._lacks_epochs = entries is None

    def _check_ends(self) -> None:
        """Compare the end of the log with the checkpoints."""
        key, end, directory = self._partition.key, self._report.end_offset, self._partition.directory
        self._report.start_offset = max(self._data.start_offsets.get(key, 0), self._base())
        if self._partition.state:
            return
        for what, point in (
            ("the recovery point", self._recovery_point),
            ("the high watermark", self._data.high_watermarks.get(key, 0)),
            ("the log's start", self._data.start_offsets.get(key, 0)),
        ):
            if point > end:  # only records below the recovery point were ever declared flushed
                is_flushed = self._data.is_clean or point == self._recovery_point
                sentence = f"the log ends at offset {end}, and {what} is {point}: the records between are gone"
                self._add(CORRUPT if is_flushed else TORN, directory, sentence)


def _is_partial_append(segment: Segment, damaged: DamagedRange) -> bool:
    """True if a segment ends with the first bytes of a batch: a running broker writes the rest."""
    head = segment.file.read_at(HEADER_SIZE, damaged.start)
    size = LOG_OVERHEAD + int.from_bytes(head[LOG_OVERHEAD - 4 : LOG_OVERHEAD], "big", signed=True)
    return damaged.end == segment.size and (len(head) < HEADER_SIZE or damaged.start + size > segment.size)


_ALWAYS = (OffsetIndex.SUFFIX, TimeIndex.SUFFIX)  # every segment has these two indexes


def _is_whole(kind: type[Index], content: bytes | None) -> bool:
    if content is None:
        return False
    entries = parse_index(kind, content)
    return not entries.is_cut and not entries.unused


def read_marker(segment: Segment, position: int, header: BatchHeader) -> Marker | None:
    """The transaction marker of a control batch; None for any other batch. Raises OSError."""
    if not header.is_control:
        return None
    return control.read(segment.file.read_at(min(header.size, control.MAX_MARKER_BYTES), position))
