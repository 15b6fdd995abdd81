"""What is wrong with a partition's files: each batch is read, and what can be derived is derived again and compared.

corrupt: bytes that are no batches, or batches that are gone, where everything was safe on the disk once. torn: the
same behind the recovery point, where a crash leaves such; the next start cuts there. index, snapshot, epochs: what is
derived says something else than the batches do; the next start, or a repair, makes it again. file: a small file that
cannot be read. overlap: a segment is left of which a newer one, a compaction's, holds the offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
from headgate.storage.log import snapshots
from headgate.storage.log.epochs import Epochs
from headgate.storage.log.producers import DEFAULT_EXPIRATION_MS, SNAPSHOT_SUFFIX, Producers
from headgate.storage.segment import transaction_index
from headgate.storage.segment.batch_iterator import BatchIterator
from headgate.storage.segment.index import Index, OffsetIndex, TimeIndex
from headgate.storage.segment.segment import DERIVED_SUFFIXES, Segment
from headgate.storage.segment.transaction_index import TransactionIndex
from headgate.storage.segment.transactions import Transactions
from headgate.tools.log import overlaps, reading, scanning
from headgate.tools.log.overlay import Overlay
from headgate.tools.log.places import DataDirectory, PartitionDirectory, is_empty
from headgate.tools.log.scanning import Bad
from headgate.tools.log.small_files import read_entries
from headgate.tools.log.truth import Truth

CORRUPT, TORN, OVERLAP, INDEX, SNAPSHOT = "corrupt", "torn", "overlap", "index", "snapshot"
EPOCHS, FILE = "epochs", "file"
SAME, OTHER, UNFINISHED, WRONG, UNKNOWN = "same", "other", "unfinished", "wrong", "unknown"
DEFAULT_INTERVAL_BYTES = 4096
INDEX_SUFFIXES = tuple(suffix for suffix in DERIVED_SUFFIXES if suffix != SNAPSHOT_SUFFIX)

Advance = Callable[[int, str], None]
"""(bytes, of what): so much more is done."""


class Finding(NamedTuple):
    """One thing that is wrong: of which kind, with which file, and a sentence."""

    kind: str
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.path}: {self.problem}"


@dataclass
class SegmentReport:
    """What was found in a segment. `indexes`: same, other (true, but not as here), unfinished, wrong, unknown.

    `interval_bytes` is the one with which its indexes were made, `asked_interval_bytes` the one that was tried first.
    `gap_from`: the offset at which it should begin, where the next start would cut the log for that.
    `opened`: the transactions that are open where it begins, producer id -> first offset.
    """

    segment: Segment
    batches: int = 0
    records: int = 0
    end_offset: int = 0
    bad: list[Bad] = field(default_factory=list)
    indexes: str = UNKNOWN
    interval_bytes: int = DEFAULT_INTERVAL_BYTES
    asked_interval_bytes: int = DEFAULT_INTERVAL_BYTES
    opened: Mapping[int, int] = field(default_factory=dict)
    gap_from: int | None = None
    problem: str = ""


@dataclass
class Report:
    """What was found in a partition. `covered` are segments that another one of `segments` makes superfluous.

    `missing_offsets` are those in no batch, behind what was compacted: nothing says any more what became of them.
    """

    partition: PartitionDirectory
    segments: list[SegmentReport]
    findings: list[Finding]
    start_offset: int = 0
    end_offset: int = 0
    missing_offsets: int = 0
    covered: list[Segment] = field(default_factory=list)


def check(
    data: DataDirectory, partition: PartitionDirectory, advance: Advance, interval_bytes: int = DEFAULT_INTERVAL_BYTES
) -> Report:
    """Look at everything in a partition's directory; nothing is changed. Raises OSError."""
    return _Check(data, partition, advance, interval_bytes).run()


class _Check:
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
        self._segments = reading.segments(self._pool, partition.directory, self._names)
        self._cleaned = data.cleaned.get(partition.key, 0)
        self._recovery_point = data.recovery_points.get(partition.key, 0)
        self._report = Report(partition, [], [])
        self._producers = _ProducerCheck(self._disk, partition.directory, self._names, self._base())
        self._epochs = Epochs(self._disk, partition.directory)
        self._strange_epochs = 0
        self._misses_epochs = False
        self._expected = self._base()

    def _base(self) -> int:
        return self._segments[0].base_offset if self._segments else 0

    def _add(self, kind: str, path: str, problem: str) -> None:
        self._report.findings.append(Finding(kind, path, problem))

    def _add_file(self, path: str, error: BadFile, what_next: str = "") -> None:
        self._add(FILE, path, str(error).removeprefix(path).lstrip(": ") + what_next)

    def run(self) -> Report:
        self._check_small_files()
        self._leave_out_covered()
        expected = self._base()
        for number, segment in enumerate(self._segments):
            following = self._segments[number + 1] if number + 1 < len(self._segments) else None
            is_told = bool(self._report.segments and self._report.segments[-1].bad)
            is_gap = segment.base_offset > expected and not is_told and not self._is_safe(expected)
            if is_gap:
                self._add(TORN, segment.path, f"it should begin at offset {expected}; the next start cuts there")
            found = self._check_segment(segment, following)
            found.gap_from = expected if is_gap else None
            self._report.segments.append(found)
            self._report.end_offset = expected = max(expected, found.end_offset)
            segment.close()
        self._check_ends()
        # A log that lost its end stays closed, and its last snapshot as it is: it is of what is gone
        for path, problem in self._producers.finish(max(self._report.end_offset, self._recovery_point)):
            self._add(SNAPSHOT, path, problem)
        return self._report

    def _leave_out_covered(self) -> None:
        covering = overlaps.covered(self._segments)
        for segment in self._segments:
            over = covering.get(segment.base_offset)
            if over is not None:
                sentence = f"{over.path} holds all of its offsets, as a compaction left them; `headgate log repair`"
                self._add(OVERLAP, segment.path, f"{sentence} moves it aside")
                self._report.covered.append(segment)
                self._advance(segment.size, str(self._partition))
        self._segments = [one for one in self._segments if one.base_offset not in covering]

    def _is_safe(self, offset: int) -> bool:
        """Whether what is at an offset was on the disk once, so that a crash does not explain what is wrong."""
        return self._data.is_clean or offset < self._recovery_point

    # Segments

    def _check_segment(self, segment: Segment, following: Segment | None) -> SegmentReport:
        found = SegmentReport(segment, end_offset=segment.base_offset, asked_interval_bytes=self._interval_bytes)
        found.opened = self._producers.opened()
        held = {suffix: self._content(segment, suffix) for suffix in INDEX_SUFFIXES}
        offsets = read_entries(OffsetIndex, held[OffsetIndex.SUFFIX] or b"")
        times = read_entries(TimeIndex, held[TimeIndex.SUFFIX] or b"")
        truth = Truth(segment.base_offset, offsets.pairs, times.pairs)

        def visit(position: int, header: BatchHeader) -> None:
            truth.see(position, header)
            self._visit(found, position, header)

        walk = self._rebuild(found, self._interval_bytes)
        limit = scanning.limit_of(segment, following, self._recovery_point or None if self._data.is_clean else None)
        found.bad = scanning.scan(segment, walk, limit, visit)
        for bad in found.bad:
            self._add_bad(segment, bad, following)
        if not found.bad:
            self._judge_indexes(found, held, truth, is_last=following is None)
        if self._strange_epochs:
            path = f"{segment.directory}/{leader_epochs.FILE_NAME}"
            sentence = f"{self._strange_epochs} batches of {segment.path} were written in other epochs than it says"
            self._add(EPOCHS, path, sentence)
            self._strange_epochs = 0
        return found

    def _visit(self, found: SegmentReport, position: int, header: BatchHeader) -> None:
        if header.base_offset > self._expected >= self._cleaned and header.magic == MAGIC:
            self._report.missing_offsets += header.base_offset - self._expected
        self._expected = header.last_offset + 1
        found.batches += 1
        found.records += max(0, header.records_count)
        found.end_offset = header.last_offset + 1
        self._producers.see(header, read_marker(found.segment, position, header))
        self._see_epoch(header.partition_leader_epoch, header.base_offset)
        self._advance(header.size, str(self._partition))

    def _see_epoch(self, epoch: int, offset: int) -> None:
        if epoch < 0:
            return
        if self._misses_epochs and self._is_safe(offset):  # else it was perhaps not yet written
            self._misses_epochs = False
            path = f"{self._partition.directory}/{leader_epochs.FILE_NAME}"
            self._add(EPOCHS, path, "it is missing; the next start makes it again from the batches")
        self._strange_epochs += 0 <= self._epochs.epoch_at(offset) != epoch

    def _add_bad(self, segment: Segment, bad: Bad, following: Segment | None) -> None:
        self._advance(bad.end - bad.start, str(self._partition))
        if self._data.holder is not None and following is None and _is_under_way(segment, bad):
            return
        following_offset = None if following is None else following.base_offset
        behind = bad.next_offset if bad.next_offset is not None else following_offset
        behind = bad.end_offset or behind
        lost = f"from {bad.first_offset} on" if behind is None else f"{bad.first_offset} to {behind - 1}"
        is_safe = self._is_safe(bad.first_offset)
        what_next = "`headgate log repair` goes on behind it" if is_safe else "the next start cuts the log there"
        sentence = f"bytes {bad.start} to {bad.end}, offsets {lost}: {bad.problem}; {what_next}"
        self._add(CORRUPT if is_safe else TORN, segment.path, sentence)

    # Indexes

    def _rebuild(self, found: SegmentReport, interval_bytes: int) -> BatchIterator:
        walk = found.segment.rebuild(interval_bytes)
        walk.transactions = Transactions(found.opened)
        return walk

    def _content(self, segment: Segment, suffix: str) -> bytes | None:
        name = f"{segment.base_offset:020d}{suffix}"
        return self._disk.read(f"{segment.directory}/{name}") if name in self._names else None

    def _judge_indexes(
        self, found: SegmentReport, held: Mapping[str, bytes | None], truth: Truth, *, is_last: bool
    ) -> None:
        segment = found.segment
        found.interval_bytes = self._interval_bytes
        different = self._different(segment, held)
        if different and truth.interval_bytes is not None and not truth.false_offsets:
            for _ in self._rebuild(found, truth.interval_bytes):
                pass
            found.interval_bytes = truth.interval_bytes
            different = self._different(segment, held)
        if not different:
            found.indexes = SAME
            return
        if not self._data.is_clean and (is_last or found.end_offset > self._recovery_point):
            found.indexes = UNFINISHED
            return
        true = {
            OffsetIndex.SUFFIX: not truth.false_offsets and _is_whole(OffsetIndex, held[OffsetIndex.SUFFIX]),
            TimeIndex.SUFFIX: not truth.false_times and _is_whole(TimeIndex, held[TimeIndex.SUFFIX]),
            TransactionIndex.SUFFIX: is_as_good(
                held[TransactionIndex.SUFFIX] or b"",
                self._made(segment, TransactionIndex.SUFFIX),
                may_have_more=self._cleaned > 0,
            ),
        }
        wrong = [suffix for suffix in different if not true[suffix]]
        found.indexes = WRONG if wrong else OTHER
        if wrong:
            said = [f"{suffix} {'is missing' if held[suffix] is None else 'is wrong'}" for suffix in wrong]
            found.problem = ", ".join(said)
            self._add(INDEX, segment.path, f"{found.problem}; `headgate log repair` makes it again")

    def _different(self, segment: Segment, held: Mapping[str, bytes | None]) -> list[str]:
        """The indexes that are not what comes of the batches."""
        segment.seal()
        different = []
        for suffix, content in held.items():
            expected = self._made(segment, suffix)
            is_there = content is not None or not (expected or suffix in _ALWAYS)
            if (content or b"") != expected or not (is_there or not segment.size):
                different.append(suffix)
        return different

    def _made(self, segment: Segment, suffix: str) -> bytes:
        """What an index should hold."""
        path = f"{segment.directory}/{segment.base_offset:020d}{suffix}"
        return self._pool.files.read(path) if segment.size and self._pool.files.exists(path) else b""

    # The rest

    def _check_small_files(self) -> None:
        directory = self._partition.directory
        try:
            layout.read_topic_id(self._disk, directory)
        except BadFile as error:
            self._add_file(f"{directory}/{layout.PARTITION_METADATA}", error)
        path = f"{directory}/{leader_epochs.FILE_NAME}"
        try:
            entries = [] if is_empty(self._disk, path) else leader_epochs.read_entries(self._disk, directory)
        except BadFile as error:
            self._add_file(path, error, "; the next start makes it again from the batches")
            return
        self._epochs.load(entries or ())
        self._misses_epochs = entries is None

    def _check_ends(self) -> None:
        """What the checkpoints say is there."""
        key, end, directory = self._partition.key, self._report.end_offset, self._partition.directory
        self._report.start_offset = max(self._data.start_offsets.get(key, 0), self._base())
        if self._partition.state:
            return
        for what, point in (
            ("the recovery point", self._recovery_point),
            ("the high watermark", self._data.high_watermarks.get(key, 0)),
            ("the log's start", self._data.start_offsets.get(key, 0)),
        ):
            if point > end:  # only what is before the recovery point was ever said to be on the disk
                is_safe = self._data.is_clean or point == self._recovery_point
                sentence = f"the log ends at offset {end}, and {what} is {point}: what was between is gone"
                self._add(CORRUPT if is_safe else TORN, directory, sentence)


def _is_under_way(segment: Segment, bad: Bad) -> bool:
    """Whether a segment ends with the first bytes of a batch: a broker is writing the rest."""
    head = segment.file.read_at(HEADER_SIZE, bad.start)
    size = LOG_OVERHEAD + int.from_bytes(head[LOG_OVERHEAD - 4 : LOG_OVERHEAD], "big", signed=True)
    return bad.end == segment.size and (len(head) < HEADER_SIZE or bad.start + size > segment.size)


_ALWAYS = (OffsetIndex.SUFFIX, TimeIndex.SUFFIX)  # every segment has these


def _is_whole(kind: type[Index], content: bytes | None) -> bool:
    if content is None:
        return False
    entries = read_entries(kind, content)
    return not entries.is_cut and not entries.unused


def is_as_good(held: bytes, made: bytes, *, may_have_more: bool = False) -> bool:
    """Whether an index of aborted transactions serves as well as one that was made from the batches now.

    Compaction takes records away, and with them what says that a transaction began so early, or was open then; an
    index from before that says it still. A consumer is then told of transactions that it meets no record of. So in a
    log that was compacted an index may have entries of transactions of which only the marker is left.
    """
    try:
        ours, theirs = transaction_index.parse(made), transaction_index.parse(held)
    except BadFile:
        return False
    known = {(one.producer_id, one.last_offset): one for one in theirs}
    matched = [(one, known.get((one.producer_id, one.last_offset))) for one in ours]
    return (len(ours) == len(theirs) or may_have_more) and all(
        other is not None
        and other.first_offset <= one.first_offset
        and other.last_stable_offset <= one.last_stable_offset
        for one, other in matched
    )


def read_marker(segment: Segment, position: int, header: BatchHeader) -> Marker | None:
    """The transaction marker in a batch, if it is one. Raises OSError."""
    if not header.is_control:
        return None
    return control.read(segment.file.read_at(min(header.size, control.MAX_MARKER_BYTES), position))


class _ProducerCheck:
    """The producers' states, replayed batch by batch, and compared with each snapshot on the way."""

    def __init__(self, files: Files, directory: str, names: Mapping[str, int], base_offset: int) -> None:
        self._files = files
        self._directory = directory
        self._pending = sorted(snapshots.offsets(names))
        self._replayed = Producers()
        self._problems: list[tuple[str, str]] = []
        while self._pending and self._pending[0] <= base_offset:  # what was before the first segment is only said there
            self._replayed = self._load(self._pending.pop(0)) or self._replayed

    def see(self, header: BatchHeader, marker: Marker | None) -> None:
        while self._pending and self._pending[0] <= header.base_offset:
            self._compare(self._pending.pop(0))
        self._replayed.record(header, header.base_offset, marker)

    def opened(self) -> Mapping[int, int]:
        """Producer id -> first offset, of the transactions that are open now."""
        return dict(self._replayed.transactions.open)

    def finish(self, end_offset: int) -> list[tuple[str, str]]:
        """What is wrong: path and sentence."""
        for offset in self._pending:
            if offset <= end_offset:
                self._compare(offset)
            else:
                sentence = f"it is of offset {offset}, and the log ends at {end_offset}; the next start removes it"
                self._problems.append((self._path(offset), sentence))
        return self._problems

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SNAPSHOT_SUFFIX}"

    def _load(self, offset: int) -> Producers | None:
        try:
            return Producers.from_snapshot(self._files.read(self._path(offset)))
        except BadFile as error:
            self._problems.append((self._path(offset), f"{error}; the next start does without it"))
            return None

    def _compare(self, offset: int) -> None:
        snapshot = self._load(offset)
        if snapshot is not None:
            written_ms = self._files.modified_ms(self._path(offset))
            for problem in contradictions(snapshot, self._replayed, written_ms):
                self._problems.append((self._path(offset), problem))


def contradictions(snapshot: Producers, replayed: Producers, written_ms: int) -> Iterable[str]:
    """Where a snapshot, written at a time, says something else than the batches before its offset do.

    It may know of batches that are gone since, by retention or compaction; of those that are there it has to know, but
    for producers that had been silent for producer.id.expiration.ms.
    """
    for producer_id, state in replayed.by_id.items():
        known = snapshot.by_id.get(producer_id)
        if known is None:
            if written_ms - state.last_timestamp < DEFAULT_EXPIRATION_MS and state.batches:
                yield f"producer {producer_id}, who wrote up to offset {state.batches[-1].last_offset}, is not in it"
            continue
        ours, theirs = (one.batches[-1] if one.batches else None for one in (state, known))
        if ours is None or (theirs is not None and theirs.last_offset > ours.last_offset):
            continue
        if theirs is None or (theirs.last_offset, theirs.last_sequence) != (ours.last_offset, ours.last_sequence):
            said = "nothing" if theirs is None else f"sequence {theirs.last_sequence} at offset {theirs.last_offset}"
            wrote = f"sequence {ours.last_sequence} at offset {ours.last_offset}"
            yield f"producer {producer_id} wrote {wrote}, and it says {said}"
        elif known.epoch < state.epoch:
            yield f"producer {producer_id} is in epoch {state.epoch}, and it says {known.epoch}"
