"""What a start makes of one wrong bit in a file that is no `.log`: in an index, a snapshot, a checkpoint.

Whatever it is, no record is lost, and each is found by its offset. What has a checksum, or can be looked at, is made
anew or told. The rest is believed where it still looks like what it was, as Apache Kafka believes it: which files those
are, and what they can spoil, says `BELIEVED`.
"""

from __future__ import annotations

from random import Random

from headgate.protocol.records.batch import BatchHeader, read_header
from headgate.protocol.steps import finish
from headgate.storage.config import LogConfig
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.disk import checkpoint
from headgate.storage.disk.layout import META_PROPERTIES, is_of_log
from headgate.storage.errors import StorageError
from headgate.storage.log import epochs
from headgate.storage.log.log import Log
from headgate.storage.log.producers import Producers
from headgate.storage.segment.segment_file import DELETED_SUFFIX, LOG_SUFFIX
from headgate.storage.segment.timestamp_lookup import More, TimestampOffset
from headgate.storage.tests.builders import DIRECTORY, NOW_MS, next_offset, open_store, read, replayed, stored
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.damaged import KEY, PARTITION, UNCHECKED, batch_at
from headgate.storage.tests.transactions_model import committed

TIMES, ABORTED, START, EPOCHS = "times", "aborted", "start", "epochs"
BELIEVED: dict[str, set[str]] = {
    ".index": {TIMES, ABORTED},
    ".timeindex": {TIMES},
    ".txnindex": {ABORTED},
    epochs.FILE_NAME: {EPOCHS},
    checkpoint.RECOVERY_POINTS: {EPOCHS},  # those of which compaction has left nothing are not derived again
    checkpoint.START_OFFSETS: {START, EPOCHS, TIMES},
}
"""File -> what may be answered wrongly."""
MAY_CLOSE = (checkpoint.RECOVERY_POINTS, checkpoint.START_OFFSETS, checkpoint.HIGH_WATERMARKS, ".swap")
"""What such a file says can contradict the log, so that it stays closed until somebody has looked at it."""


def look_at_wrong_file(files: CrashingFiles, config: LogConfig, random: Random) -> str:
    """Let a bit of some file be wrong that is not a segment, and start; what came of it, in a word."""
    paths = others(files)
    expected = open_store(files.copy(), config).logs.get(KEY)
    if not paths or expected is None:
        return "empty"
    path = random.choice(paths)
    logs = contents(files)
    its = batch_at(files.read(path), files.flip(path, random)) if path.endswith(".log.swap") else None
    name = path.rpartition("/")[2]
    kind = next((kind for kind in (*BELIEVED, *MAY_CLOSE) if name.endswith(kind)), name)
    try:
        store = open_store(files, config)
    except StorageError:  # it is of another node, or of none
        assert kind == META_PROPERTIES
        return "refused"
    if KEY in store.failed:
        assert kind in MAY_CLOSE, f"{path}: {store.failed[KEY]}"
        assert KEY not in store.refused
        assert contents(files) == logs
        return f"{kind} closes it"
    if its is not None and its[1] < UNCHECKED:
        return f"{kind} unchecked"
    if kind == checkpoint.START_OFFSETS and expected.start_offset == expected.end_offset:
        return f"{kind} of nothing"
    try:
        wrong = compare(expected, store, random, is_snapshot=name.endswith(".snapshot"))
    except AssertionError as error:
        error.add_note(f"a wrong bit in {path}")
        raise
    assert wrong <= BELIEVED.get(kind, set()), f"{path}: wrong {sorted(wrong)}"
    log = store.logs[KEY]
    everything = with_records(log, log.start_offset)
    store.close()
    assert with_records(open_store(files, config).logs[KEY], log.start_offset) == everything
    kind = ".snapshot" if name.endswith(".snapshot") else kind
    return f"{kind} believed" if wrong else f"{kind} right"


def others(files: CrashingFiles) -> list[str]:
    """The files that have something in them, but segments, and what nobody reads."""
    found = [f"{DIRECTORY}/{name}" for name, size in files.list(DIRECTORY).items() if size > 0]
    if files.exists(PARTITION):
        for name, size in files.list(PARTITION).items():
            is_read = is_of_log(name) and not name.endswith((LOG_SUFFIX, DELETED_SUFFIX, ".torn"))
            found += [f"{PARTITION}/{name}"] if is_read and size > 0 else []
    return sorted(found)


def contents(files: CrashingFiles) -> dict[str, bytes]:
    """The segments with something in them, by name."""
    return {
        name: files.read(f"{PARTITION}/{name}") for name, size in files.list(PARTITION).items() if is_log(name, size)
    }


def is_log(name: str, size: int) -> bool:
    return name.endswith(LOG_SUFFIX) and size > 0


def compare(expected: Log, store: LogDirectory, random: Random, *, is_snapshot: bool) -> set[str]:
    """What the log answers otherwise than it would have; that no record is lost, and each is found, is asserted."""
    log, wrong = store.logs[KEY], set[str]()
    assert log.end_offset == expected.end_offset
    start = max(log.start_offset, expected.start_offset)
    if log.start_offset != expected.start_offset:
        wrong.add(START)
    sound = with_records(expected, start)
    assert [view for _, view in with_records(log, start)] == [view for _, view in sound]
    for header, _ in sound:
        offset = random.randint(max(start, header.base_offset), header.last_offset)
        assert read_header(read(log, offset, 100)).base_offset == header.base_offset
    for one in (log, expected):
        one.producers.replicated(one.end_offset)
    timestamp = NOW_MS + random.randint(-60, 60)
    if first_from(log, timestamp) != first_from(expected, timestamp):
        wrong.add(TIMES)
    is_forgetful = log.segments[0].base_offset > 0  # what was deleted is known from snapshots alone
    if taken(log, start) != taken(expected, start) and not (is_snapshot and is_forgetful):
        wrong.add(ABORTED)
    if log.epochs.entries != expected.epochs.entries:
        wrong.add(EPOCHS)
    known, told = last_words(log.producers), last_words(replayed(log, log.end_offset))
    for producer_id, (epoch, last_sequence) in told.items():  # more may be known, of what was deleted
        assert known[producer_id][0] == epoch
        assert known[producer_id][1] >= last_sequence
    if not is_snapshot and not is_forgetful:
        assert known == last_words(expected.producers)
        assert log.stable_offset == expected.stable_offset or START in wrong
    return wrong


def with_records(log: Log, offset: int) -> list[tuple[BatchHeader, memoryview]]:
    """All that a reader makes use of from an offset on."""
    data = b""
    while offset < log.end_offset:
        data += read(log, offset, 500)
        offset = next_offset(data)
    return [(header, view) for header, view in stored(data) if header.records_count]


def last_words(producers: Producers) -> dict[int, tuple[int, int]]:
    """Producer id -> epoch and last sequence: what decides of the next batch."""
    return {producer_id: (known.epoch, known.last_sequence) for producer_id, known in producers.by_id.items()}


def taken(log: Log, offset: int) -> list[int]:
    """Where the batches begin that a reader of committed records takes."""
    return [header.base_offset for header, _ in committed(log, offset, 700) if header.records_count]


def first_from(log: Log, timestamp_ms: int) -> TimestampOffset | None:
    """The first record of this time or later."""
    found, more = None, None
    while True:
        found = finish(log.offset_for_time(timestamp_ms, log.end_offset, more))
        if not isinstance(found, More):
            return found
        more = found
