"""Open a partition's directory.

After a clean stop by looking at the ends, after a crash by a scan of what may not be on the disk.

A scan ends in exactly one of three ways. Clean: batches to the end. Torn: at or behind the recovery point something
else follows; the log is cut there, and what followed is kept aside, in files named `<segment>.log.<byte>.torn`.
Corrupt: the same below the recovery point, where everything was on the disk once; the partition then stays closed and
untouched. What can be derived (indexes, producers' states, epochs) is made again where it is missing.

It is written as a generator that yields after every batch, so that a thread can do it in slices. Nothing but the files
of the partition is touched.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from protocol.errors import KafkaError
from protocol.records import batch
from protocol.records.batch import NO_PRODUCER_ID, BatchHeader
from protocol.records.compression import Steps, finish
from protocol.records.control import TRANSACTION_BITS
from storage import directories, messages, replacement, snapshots
from storage import epochs as leader_epochs
from storage.aborted import AbortedIndex
from storage.checkpoint import TEMPORARY_SUFFIX
from storage.config import LogConfig
from storage.directories import base_of
from storage.errors import BadFile, CorruptLog, NotALog, UnsupportedLog
from storage.files import NO_ROOM, Files
from storage.index import NO_TIMESTAMP, OffsetIndex, TimeIndex
from storage.log import Log
from storage.pool import Pool
from storage.producers import Producers
from storage.segment import DELETED_SUFFIX, DERIVED_SUFFIXES, LOG_SUFFIX, NO_LIMIT, Segment, Walk
from storage.transactions import Transactions

logger = logging.getLogger("headgate.storage")

TORN_SUFFIX = ".torn"
_COPY_BYTES = 1024 * 1024
_HEAD_BYTES = messages.MAGIC_POSITION + 1


class Clean(NamedTuple):
    """Batches to the end."""


class Torn(NamedTuple):
    """Something else follows byte `at`, where that may happen in a crash; `is_beginning`: of a batch, and no more."""

    at: int
    reason: str
    is_beginning: bool = False


class Corrupt(NamedTuple):
    """Something else follows byte `at`, where everything was on the disk already."""

    at: int
    reason: str


Verdict = Clean | Torn | Corrupt


def judge(walk: Walk, recovery_point: int) -> Verdict:
    """What the end of a scan means. Pure."""
    if walk.problem is not None:
        if walk.next_offset < recovery_point:
            return Corrupt(walk.position, walk.problem)
        return Torn(walk.position, walk.problem, walk.is_cut)
    if walk.next_offset < recovery_point:
        return Corrupt(walk.position, f"offsets up to {recovery_point} should follow")
    return Clean()


@dataclass
class Partition:
    """What is known of a partition before its log is open.

    `start_offset` and `recovery_point` are those of the checkpoints. `bytes_scanned` grows while it is opened.
    """

    topic: str
    index: int
    directory: str
    topic_id: bytes | None = None
    start_offset: int = 0
    recovery_point: int = 0
    is_clean: bool = False
    bytes_scanned: int = 0

    def __post_init__(self) -> None:
        if not self.is_clean and self.start_offset >= self.recovery_point:
            self.recovery_point = 0  # nothing that is still wanted was safe; what is left of the rest may go

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


def bytes_to_scan(partition: Partition, names: Mapping[str, int]) -> int:
    """How much of its segments opening reads, at most; `names` are the files of its directory with their sizes. Pure.

    After a clean stop nothing; after a crash what begins with the segment of the recovery point, unless it turns out to
    be as it was left.
    """
    if partition.is_clean:
        return 0
    bases = _bases(names)
    first = _first_to_scan(bases, partition.recovery_point)
    return sum(names[f"{base:020d}{LOG_SUFFIX}"] for base in bases[first:])


def open_log(pool: Pool, partition: Partition, config: LogConfig, random: Random, now_ms: int) -> Log:
    """The log in a directory, at once. Raises what `open_log_steps` raises."""
    return finish(open_log_steps(pool, partition, config, random, now_ms))


def open_log_steps(pool: Pool, partition: Partition, config: LogConfig, random: Random, now_ms: int) -> Steps[Log]:
    """The log in a directory.

    Raises CorruptLog, UnsupportedLog (the partition stays closed and untouched), NotALog for a directory of somebody
    else's, OSError. Files that no log makes are left alone.
    """
    listed = pool.files.list(partition.directory)
    names = _of_log(listed)
    if directories.is_no_partition(listed) and not partition.recovery_point:
        raise NotALog(f"{partition.directory} is called like a partition's directory, and holds nothing of a log")
    names = _of_log((yield from replacement.finish_steps(pool, partition.directory, names)))
    _tidy(pool, partition, names)
    if config.is_compacted and not partition.is_clean:
        yield from _put_replaced_aside(pool, partition, names)
    segments = _segments(pool, partition, names, now_ms)
    log = Log(pool, partition.directory, partition.topic, partition.index, partition.topic_id, config, segments, random)
    entries = _read_epochs(pool.files, partition)
    log.epochs.load(entries or ())
    epochs = log.epochs.entries
    _note_formats(log, epochs, max(partition.start_offset, segments[0].base_offset))
    producers: Producers | None = None
    if partition.is_clean:
        yield from _mend(log, partition)
    else:
        epochs, producers = yield from _scan(log, partition, names)
        log.epochs.is_synced = False
    if partition.start_offset > log.end_offset:
        log.restart_at(partition.start_offset, now_ms)
        epochs, producers = [], None
    log.start_offset = max(partition.start_offset, log.segments[0].base_offset)
    log.recovery_point = min(log.end_offset, partition.recovery_point)
    if log.end_offset > log.start_offset and _lacks_epochs(log, entries, epochs):
        epochs = yield from _derive_epochs(log, partition)
    _note_formats(log, epochs, log.start_offset)
    log.epochs.keep(epochs, always=entries is None and log.size > 0)
    log.epochs.start_from(log.start_offset)
    log.names_unsynced = not partition.is_clean or not log.size  # an empty log has never had a reason to be flushed
    yield from log.reload_producers_steps(snapshots.offsets(names), producers)
    yield from _check_transactions(log, partition)
    if config.commits_synced and log.recovery_point < log.end_offset:
        log.flush()  # a killed broker may have left in memory what a power cut could still take back from consumers
    log.release()  # most partitions are idle: files are opened again where they are needed
    return log


def _of_log(names: Mapping[str, int]) -> dict[str, int]:
    """What a log has made. Whatever else is in its directory is never read, and never removed."""
    return {name: size for name, size in names.items() if directories.is_of_log(name)}


def _tidy(pool: Pool, partition: Partition, names: dict[str, int]) -> None:
    """Finish what a crash interrupted: deletions and replacements that had not happened yet."""
    for name in list(names):
        is_orphan = name.endswith(DERIVED_SUFFIXES[:3]) and name.rpartition(".")[0] + LOG_SUFFIX not in names
        path = f"{partition.directory}/{name}"
        if name.endswith(DELETED_SUFFIX):
            pool.doomed.add(path)  # large ones take long
        elif name.endswith(TEMPORARY_SUFFIX) or is_orphan:
            pool.files.remove(path)


def _put_replaced_aside(pool: Pool, partition: Partition, names: dict[str, int]) -> Steps[None]:
    """Put aside what a compaction has replaced and what is here again, be it from a backup.

    That is a segment all of whose offsets the one before has too, where both were safe on the disk: behind that a write
    that failed may have left something in the one before. Raises OSError.
    """
    bases = _bases(names)
    reached, files = -1, pool.files
    for base in bases[: _first_to_scan(bases, partition.recovery_point)]:
        sizes = [names.get(f"{base:020d}{suffix}", -1) for suffix in _SUFFIXES]
        segment = Segment(pool, partition.directory, base, sizes)
        try:
            end_offset = segment.end_offset()
        except KafkaError:  # no batch is there: the scan tells
            end_offset = NO_LIMIT
        segment.close()
        if base < end_offset <= reached:
            logger.warning(
                "%s: the segment before %s has all of its offsets, and has replaced it; it is kept in a file named *%s",
                partition, segment.path, TORN_SUFFIX,
            )  # fmt: skip
            files.rename(segment.path, _name_aside(files, segment, 0))
            for suffix in _SUFFIXES:
                if names.pop(f"{base:020d}{suffix}", -1) >= 0 and suffix != LOG_SUFFIX:
                    files.remove(f"{partition.directory}/{base:020d}{suffix}")
            files.sync_directory(partition.directory)
        elif end_offset != NO_LIMIT:
            reached = max(reached, end_offset)
        yield


def _segments(pool: Pool, partition: Partition, names: dict[str, int], now_ms: int) -> list[Segment]:
    directory = partition.directory
    bases = _bases(names)
    if not bases:
        if partition.recovery_point > partition.start_offset:
            raise CorruptLog(
                f"{partition}: {directory} has no segments, but offsets up to {partition.recovery_point} were on the "
                "disk; bring the files back, or delete the directory to begin anew"
            )
        return [Segment.create(pool, directory, partition.start_offset, now_ms)]
    return [
        Segment(
            pool, directory, base, [names.get(f"{base:020d}{suffix}", -1) for suffix in _SUFFIXES], created_ms=now_ms
        )
        for base in bases
    ]


def _bases(names: Mapping[str, int]) -> list[int]:
    bases = (base_of(name) for name in names if name.endswith(LOG_SUFFIX))
    return sorted(base for base in bases if base is not None)


def _first_to_scan(bases: Sequence[int], recovery_point: int) -> int:
    """The number of the segment that holds the recovery point: before it all is safe on the disk."""
    return max(0, sum(base <= recovery_point for base in bases) - 1)


_SUFFIXES = (LOG_SUFFIX, OffsetIndex.SUFFIX, TimeIndex.SUFFIX, AbortedIndex.SUFFIX)


def _mend(log: Log, partition: Partition) -> Steps[None]:
    """After a clean stop: all is as it should be, unless someone deleted what can be derived."""
    for segment in log.segments:
        yield from _check_indexes(log, partition, segment)
    last = log.segments[-1]
    try:
        log.end_offset = last.end_offset()
    except KafkaError as error:
        raise _corrupt(partition, last, f"{error.message}, after a clean stop") from error
    if log.end_offset < partition.recovery_point:
        raise _corrupt(
            partition,
            last,
            f"it ends at offset {log.end_offset}; offsets up to {partition.recovery_point} should follow",
        )


def _scan(
    log: Log, partition: Partition, names: Mapping[str, int]
) -> Steps[tuple[list[tuple[int, int]], Producers | None]]:
    """After a crash: check what lies behind the recovery point, and make the indexes of these segments again.

    The leader epochs of what is there then, and its producers, if they have come to be known by the way.
    """
    segments = log.segments
    first = _first_to_scan([segment.base_offset for segment in segments], partition.recovery_point)
    for segment in segments[:first]:
        # Those of the last were perhaps not yet synced, although its bytes were: that comes with the next flush.
        is_last = segment is segments[first - 1]
        yield from _check_indexes(log, partition, segment, segments[first].base_offset if is_last else None)
    log.end_offset = segments[first].base_offset
    safe = max(partition.recovery_point, log.end_offset)
    epochs = [entry for entry in log.epochs.entries if entry[1] < safe]
    if segments[first] is segments[-1] and _is_untouched(log, partition, segments[-1]):
        log.end_offset = partition.recovery_point
        return epochs, None
    known: Transactions | None = None
    producers = _producers_at(log, names, segments[first])
    for number, segment in enumerate(segments[first:], first):
        verdict, known = yield from _scan_segment(log, partition, segment, epochs, known, producers)
        if isinstance(verdict, Corrupt):
            raise _corrupt(partition, segment, f"byte {verdict.at}, offset {log.end_offset}: {verdict.reason}")
        if isinstance(verdict, Torn):
            yield from _cut(log, partition, segment, verdict, segments[number + 1 :])
            break
        if segment is not segments[-1]:
            _seal(segment)
    return epochs, producers


def _producers_at(log: Log, names: Mapping[str, int], segment: Segment) -> Producers | None:
    """The producers where a segment begins, if a snapshot has them, as one of each roll does; or if it is the first."""
    producers, offset = snapshots.load_latest(
        log.pool.files, log.directory, snapshots.offsets(names), segment.base_offset
    )
    return producers if offset == segment.base_offset or segment is log.segments[0] else None


def _seal(segment: Segment) -> None:
    """Write the indexes out, if there is room for them; else they stay in memory until the log rolls next."""
    try:
        segment.seal()
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        logger.warning("there is no room for the indexes of %s; they are in memory for now", segment.path)


def _is_untouched(log: Log, partition: Partition, segment: Segment) -> bool:
    """Whether the last segment is as a clean stop left it: all of it safe on the disk, and its indexes finished.

    Most partitions are idle when a broker is killed. Looking at the end of such a one is enough, as after a clean stop.
    """
    end_offset = partition.recovery_point
    if not segment.size or end_offset <= segment.base_offset:
        return False
    try:
        if not segment.has_indexes(log.config.index_interval_bytes, look_into_them=True):
            return False
    except KafkaError:  # it does not begin with a batch
        return False
    return _end_of_finished(segment, end_offset) == end_offset


def _end_of_finished(segment: Segment, end_offset: int) -> int | None:
    """Where the batches of a sealed segment end; None if a part of its indexes was, or may have been, lost."""
    if segment.aborted is not None:  # nothing at the end tells how many transactions were aborted before
        return None
    offsets, times = segment.offsets, segment.times
    # Records out of order: the newest may be far from the end, and the entry that tells of it be lost.
    known = offsets.floor(times.last_offset) if times.entries else offsets.last_position
    walk = segment.walk(min(known, offsets.last_position))
    newest = max((header.max_timestamp for _, header in walk), default=NO_TIMESTAMP)
    is_sealed = newest <= times.last_timestamp and times.last_offset < end_offset
    is_sound = walk.problem is None and is_sealed and offsets.is_increasing and times.is_increasing
    return walk.next_offset if is_sound and _begins_soundly(segment) else None


def _begins_soundly(segment: Segment) -> bool:
    """Whether the first entry of the offset index is of the batch to which it points: zeros may stand for a part of it.

    In any other a zero is less than the entry before, or would have to fall between two entries.
    """
    if not segment.offsets.entries:
        return True
    last_offset, position = segment.offsets.first()
    try:
        hop = segment.seek(position, position)
    except KafkaError:
        return False
    return hop is not None and (hop[0], hop[3]) == (position, segment.base_offset + last_offset)


def _scan_segment(
    log: Log,
    partition: Partition,
    segment: Segment,
    epochs: list[tuple[int, int]],
    known: Transactions | None,
    producers: Producers | None,
) -> Steps[tuple[Verdict, Transactions | None]]:
    """How the segment ends. `known`, also in the result: which transactions are open at its ends, if that is known.

    What is in it is noted in `epochs` and `producers`.
    """
    if segment.base_offset != log.end_offset:
        # One between them is lost: compaction leaves gaps too, but only in what was made safe before.
        return Torn(0, f"the segment should begin at offset {log.end_offset}"), known
    walk = segment.rebuild(log.config.index_interval_bytes)
    walk.check_crc_from = partition.recovery_point
    for _, header in walk:
        _note_epoch(epochs, header)
        if header.attributes & TRANSACTION_BITS and walk.transactions is None:
            walk.transactions = known or (yield from _transactions_at(log, segment.base_offset))
        if producers is not None and header.producer_id != NO_PRODUCER_ID:
            producers.record(header, header.base_offset, walk.marker(header))
        partition.bytes_scanned += header.size
        yield
    log.end_offset = walk.next_offset
    if walk.problem is not None and not segment.holds_messages and _is_old_format(segment, walk.position):
        raise UnsupportedLog(
            f"{partition}: {segment.path} holds messages of magic 0 or 1, where the leader epochs in {log.epochs.path} "
            "say that there are none; delete that file, and they are read"
        )
    return judge(walk, partition.recovery_point), walk.transactions or known


def _transactions_at(log: Log, offset: int) -> Steps[Transactions]:
    """Those that are open where a segment begins, from the last snapshot that is not behind it.

    Raises KafkaError, OSError.
    """
    files = log.pool.files
    known = snapshots.offsets(files.list(log.directory))
    producers, since = snapshots.load_latest(files, log.directory, known, offset)
    since = max(since, log.segments[0].base_offset)
    if since < offset:
        for header, marker in log.batches(since):
            if header.base_offset >= offset:
                break
            producers.transactions.follow(header, header.base_offset, marker)
            yield
    return producers.transactions


def _check_transactions(log: Log, partition: Partition) -> Steps[None]:
    """Make the indexes of aborted transactions that are missing again, if the log may have any.

    That is seen in its producers, or in such an index of another segment. Else nothing is missing.
    """
    segments = log.segments
    if not log.has_transactions and all(segment.aborted is None for segment in segments):
        return
    log.has_transactions = True
    known: Transactions | None = None
    made = 0
    for segment in segments:
        is_missing = segment.aborted is None and segment.is_sealed
        known = (yield from rebuild(log, partition, segment, known)) if is_missing else None
        made += is_missing
    log.follow_transactions()
    if made:
        logger.info("%s: made %s files of %d segments that had none", partition, AbortedIndex.SUFFIX, made)


def _check_indexes(log: Log, partition: Partition, segment: Segment, end_offset: int | None = None) -> Steps[None]:
    """Make the indexes of a segment that is safe on the disk again, if they are not what they should be.

    With `end_offset`, where the next segment begins, they are looked through, and nothing stays behind it.
    """
    is_there = segment.has_indexes(log.config.index_interval_bytes, look_into_them=not partition.is_clean)
    if is_there and (end_offset is None or not segment.size):
        return
    if end_offset is not None:
        end = _end_of_finished(segment, end_offset) if is_there else None
        if end is not None and end <= end_offset:
            return
        yield from _drop_leftover(log, partition, segment, end_offset)
    logger.warning("%s: the indexes of %s are missing or cut; made again", partition, segment.path)
    yield from rebuild(log, partition, segment)


def _drop_leftover(log: Log, partition: Partition, segment: Segment, end_offset: int) -> Steps[None]:
    """Cut off what a write has left that failed just before a roll: it was cut off then, but not yet on the disk."""
    walk = segment.walk()
    for _, header in walk:
        if header.base_offset >= end_offset:
            break
        yield
    is_whole = walk.problem is None or walk.next_offset == end_offset
    if is_whole and walk.position < segment.size:
        left = segment.size - walk.position
        logger.warning("%s: %d bytes behind the last batch of %s are cut off", partition, left, segment.path)
        yield from keep_aside(log.pool.files, segment, walk.position)
        segment.rebuild(log.config.index_interval_bytes)
        segment.truncate(walk.position)


def rebuild(
    log: Log, partition: Partition, segment: Segment, known: Transactions | None = None
) -> Steps[Transactions | None]:
    """Make the indexes of a segment again. `known` and the result: the transactions open at its ends, if known."""
    walk = segment.rebuild(log.config.index_interval_bytes)
    for _, header in walk:
        if header.attributes & TRANSACTION_BITS and walk.transactions is None:
            walk.transactions = known or (yield from _transactions_at(log, segment.base_offset))
        yield
    if walk.problem is not None:
        raise _corrupt(partition, segment, f"byte {walk.position}, offset {walk.next_offset}: {walk.problem}")
    if log.has_transactions:
        segment.follow_transactions()
    _seal(segment)
    segment.sync()
    log.pool.files.sync_directory(log.directory)  # else one that someone removed could come back in a crash
    return walk.transactions or known


def _corrupt(partition: Partition, segment: Segment, what: str) -> CorruptLog:
    return CorruptLog(
        f"{partition}: {segment.path}, which was on the disk already, is damaged: {what}; "
        "bring the file back from a copy, or delete the directory to begin anew"
    )


def _is_old_format(segment: Segment, position: int) -> bool:
    """Whether a whole message of magic 0 or 1 is there."""
    head = segment.file.read_at(_HEAD_BYTES, position)
    if len(head) < _HEAD_BYTES or head[messages.MAGIC_POSITION] >= batch.MAGIC:
        return False
    with contextlib.suppress(KafkaError):
        size = messages.size_at(head) or 0
        if size <= segment.size - position:
            return messages.sound_bytes(segment.file.read_at(size, position)) == size
    return False


def _cut(log: Log, partition: Partition, segment: Segment, torn: Torn, later: Sequence[Segment]) -> Steps[None]:
    """Make the log end where it is torn; keep the bytes behind that aside."""
    logger.warning(
        "%s: cut at byte %d of %s, offset %d: %s; %d bytes there and %d later segments are kept in files named *%s",
        partition, torn.at, segment.path, log.end_offset, torn.reason, segment.size - torn.at, len(later), TORN_SUFFIX,
    )  # fmt: skip
    files = log.pool.files
    try:
        yield from keep_aside(files, segment, torn.at)
        for unreachable in later:
            yield from keep_aside(files, unreachable, 0)
    except OSError as error:
        if error.errno not in NO_ROOM or later or not torn.is_beginning:
            raise  # so it stays closed, and whole, until there is room
        logger.warning("%s: there is no room to keep the beginning of a batch, which nobody was told of", partition)
    log.drop_behind(segment, torn.at)
    log.end_offset = log.segments[-1].end_offset()


def keep_aside(files: Files, segment: Segment, position: int) -> Steps[None]:
    """Copy what follows a position to a file of its own, in slices. They raise OSError, and then there is none.

    Zeros alone, which some file systems leave, are not worth one.
    """
    path = _name_aside(files, segment, position)
    try:
        for start in range(position, segment.size, _COPY_BYTES):
            data = segment.file.read_at(min(_COPY_BYTES, segment.size - start), start)
            if data.count(0) < len(data) or files.exists(path):
                files.append(path, data)
            yield
    except OSError:
        with contextlib.suppress(OSError):
            files.remove(path)
        raise


def _name_aside(files: Files, segment: Segment, position: int) -> str:
    path = f"{segment.path}.{position}{TORN_SUFFIX}"
    number = 0
    while files.exists(path):
        number += 1
        path = f"{segment.path}.{position}.{number}{TORN_SUFFIX}"
    return path


def _read_epochs(files: Files, partition: Partition) -> list[tuple[int, int]] | None:
    try:
        return leader_epochs.read_entries(files, partition.directory)
    except BadFile as error:
        logger.warning("%s: %s", partition, error)
        return None


def _cover(epochs: list[tuple[int, int]], start_offset: int) -> bool:
    """Whether it is known who wrote the log from `start_offset` on."""
    return bool(epochs) and epochs[0][1] <= start_offset


def _lacks_epochs(log: Log, entries: list[tuple[int, int]] | None, epochs: list[tuple[int, int]]) -> bool:
    """Whether epochs that should be known are not. `entries` are those of the file, None if there was none.

    Where messages of magic 0 and 1 come first, none are known of them, and Kafka's file is right. A file without any is
    so where the batches have none, too.
    """
    if entries is None:
        return True
    if _cover(epochs, log.start_offset) or _begins_with_message(log.segments[0]):
        return False
    first = None if entries else next(iter(log.headers(log.start_offset)), None)
    return bool(entries) or (first is not None and first.partition_leader_epoch > leader_epochs.NO_EPOCH)


def _begins_with_message(segment: Segment, position: int = 0) -> bool:
    if not segment.holds_messages:
        return False
    head = segment.file.read_at(_HEAD_BYTES, position)
    return len(head) == _HEAD_BYTES and head[messages.MAGIC_POSITION] < batch.MAGIC


def _ends_with_message(log: Log) -> bool:
    segment = [segment for segment in log.segments if segment.size][-1]
    last = segment.seek(segment.offsets.last_position, segment.size - 1)
    return last is not None and _begins_with_message(segment, last[0])


def _note_formats(log: Log, epochs: list[tuple[int, int]], start_offset: int) -> None:
    """Note where there may be messages of magic 0 and 1: below the first leader epoch.

    Kafka knows epochs since it has batches, and forgets them all where an older format is set again. Where the log was
    made to start later, its epochs do too, whatever there is before: that is looked at.
    """
    first = epochs[0][1] if epochs else NO_LIMIT
    for segment in log.segments:
        segment.holds_messages = segment.size > 0 and segment.base_offset < first
        if segment.holds_messages and first <= start_offset:
            segment.holds_messages = _begins_with_message(segment)


def _derive_epochs(log: Log, partition: Partition) -> Steps[list[tuple[int, int]]]:
    """From the batches: only epochs in which nothing was written are not found again."""
    old = [segment.base_offset for segment in log.segments if _begins_with_message(segment)]
    if old and _ends_with_message(log):
        return []
    if not old:
        logger.warning("%s: %s is missing or too short; made again from the batches", partition, log.epochs.path)
    epochs: list[tuple[int, int]] = []
    for header in log.headers(max([log.start_offset, *old[-1:]])):  # none are known of what lies before a message
        _note_epoch(epochs, header)
        yield
    if epochs and not old and epochs[0][1] > log.start_offset:  # what was before it is compacted away
        epochs[0] = epochs[0][0], log.start_offset
    return epochs


def _note_epoch(epochs: list[tuple[int, int]], header: BatchHeader) -> None:
    epoch = header.partition_leader_epoch
    if epoch > (epochs[-1][0] if epochs else leader_epochs.NO_EPOCH):
        epochs.append((epoch, header.base_offset))
