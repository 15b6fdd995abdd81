"""Which snapshot a start uses, and when it refuses: what is damaged or missing is told, and never guessed."""

from __future__ import annotations

import logging
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.metadata_log import LOG_CONFIG, MetadataLog
from headgate.gateway.metadata.records import image_records
from headgate.gateway.metadata.snapshot import (
    MIN_BYTES,
    NO_SNAPSHOT,
    LoadedMetadata,
    Snapshot,
    among,
    is_due,
    load,
    name_of,
)
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, ManualClock
from headgate.protocol.internal.metadata import MetadataRecord, ProducerIdsRecord, RemoveTopicRecord, TopicRecord
from headgate.protocol.internal.metadata_snapshot import encode_steps
from headgate.protocol.steps import finish
from headgate.storage.cleanup.retention import begin_segment_deletion
from headgate.storage.errors import StorageError
from headgate.storage.log import rolling, segment_deletion
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import no_checkpoint, open_directory
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.truncating import truncate_to

GONE = b"g" * 16
NAME = "m-0"


def opened(files: CrashingFiles) -> Log:
    store = open_directory("/data", files=files, node_id=0, config=LOG_CONFIG, now_ms=0, random=Random(0))
    return store.logs.get(("m", 0)) or store.create("m", 0, bytes(16), LOG_CONFIG)


def change(log: Log, number: int) -> None:
    """One record, with which the image has the producer id `number`."""
    MetadataLog(log, FakeScheduler(ManualClock())).append([ProducerIdsRecord(next_producer_id=number)], 0)


def write(log: Log, number: int, removed: frozenset[bytes] = frozenset()) -> str:
    """A snapshot of the log's end, which says so; the log goes on in a new segment."""
    image = Image.empty()._replace(next_producer_id=number)
    rolling.roll(log, 0)
    path = f"{log.directory}/{name_of(log.end_offset)}"
    log.pool.files.write(path, finish(encode_steps(image_records(image, removed), 0, 0)))
    return path


def delete_front(log: Log) -> None:
    """Delete the segments in front of the last one."""
    log.advance_start(log.segments.active.base_offset)
    expired = begin_segment_deletion(log, 0, log.end_offset)
    assert expired is not None
    expired.rename_files()
    segment_deletion.end(log, expired)


def damage(log: Log, path: str, at: int = -3) -> None:
    files = log.pool.files
    assert isinstance(files, CrashingFiles)
    files.file(path).content[at] ^= 1


def with_two_snapshots(*, is_first_reached: bool) -> tuple[Log, str, str]:
    """Offsets 0 and 1, a snapshot, 2 and 3, a snapshot, 4."""
    log = opened(CrashingFiles())
    change(log, 1)
    change(log, 2)
    older = write(log, 2)
    delete_front(log)
    change(log, 3)
    change(log, 4)
    newer = write(log, 4)
    if not is_first_reached:
        delete_front(log)
    change(log, 5)
    return log, older, newer


def test_names_are_kafkas() -> None:
    assert name_of(4711) == "00000000000000004711-0000000000.checkpoint"
    sizes = {name_of(3): 10, name_of(12): 20, f"{name_of(15)}.tmp": 5, "leader-epoch-checkpoint": 4, f"{3:020d}.log": 0}
    assert among(sizes) == [Snapshot(name_of(12), 12, 20), Snapshot(name_of(3), 3, 10)]


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_a_snapshot_is_due_in_proportion_to_what_lives(since: int, size: int) -> None:
    assert is_due(since, size) is (since > MIN_BYTES and since > size)


@given(st.lists(st.integers(1, 5_000_000), min_size=1, max_size=60))
def test_a_start_reads_little_more_than_twice_what_lived(lived: list[int]) -> None:
    """Whatever lives at a moment; between two moments a megabyte is written."""
    size = since = 0
    for live in lived:
        since += 1_000_000
        if is_due(since, size):
            size, since = live, 0
        assert size + since <= 2 * size + MIN_BYTES + 1_000_000


def test_a_log_without_a_snapshot_is_read_from_its_beginning() -> None:
    log = opened(CrashingFiles())
    assert load(log) == LoadedMetadata(Image.empty(), set(), NO_SNAPSHOT, 0)
    MetadataLog(log, FakeScheduler(ManualClock())).append(
        [TopicRecord(name="a", topic_id=GONE), RemoveTopicRecord(topic_id=GONE)], 0
    )
    change(log, 7)
    assert load(log) == LoadedMetadata(Image.empty()._replace(next_producer_id=7), {GONE}, NO_SNAPSHOT, 3)


def test_the_newest_snapshot_is_read_and_the_log_behind_it() -> None:
    log, _, newer = with_two_snapshots(is_first_reached=True)
    loaded = load(log)
    assert loaded.image.next_producer_id == 5
    assert (newer.endswith(loaded.snapshot.name), loaded.records_read) == (True, 2)


def test_a_snapshot_knows_deleted_topics_that_no_image_has() -> None:
    log = opened(CrashingFiles())
    change(log, 1)
    write(log, 1, frozenset([GONE]))
    assert load(log).removed == {GONE}


def test_the_log_may_not_delete_an_unknown_topic() -> None:
    log = opened(CrashingFiles())
    change(log, 1)
    write(log, 1)
    deletion: list[MetadataRecord] = [RemoveTopicRecord(topic_id=GONE)]
    MetadataLog(log, FakeScheduler(ManualClock())).append(deletion, 0)
    with pytest.raises(ValueError, match="no topic has the id"):
        load(log)


def test_an_older_snapshot_is_used_if_the_log_reaches_it(caplog: pytest.LogCaptureFixture) -> None:
    log, older, newer = with_two_snapshots(is_first_reached=True)
    damage(log, newer)
    with caplog.at_level(logging.WARNING):
        loaded = load(log)
    assert loaded.image.next_producer_id == 5
    assert (older.endswith(loaded.snapshot.name), loaded.records_read) == (True, 4)
    assert newer in caplog.text


def test_the_whole_log_is_used_if_it_is_there(caplog: pytest.LogCaptureFixture) -> None:
    log = opened(CrashingFiles())
    change(log, 1)
    path = write(log, 1)
    change(log, 2)
    damage(log, path)
    assert load(log).image.next_producer_id == 2
    assert path in caplog.text


def test_a_damaged_snapshot_that_the_log_needs_is_told() -> None:
    log, _, newer = with_two_snapshots(is_first_reached=False)
    damage(log, newer)
    with pytest.raises(StorageError) as raised:
        load(log)
    for part in (newer, "checksum", "begins at offset 4", "ends at offset 2", "restore that directory from a copy"):
        assert part in str(raised.value)


def test_a_missing_snapshot_that_the_log_needs_is_told() -> None:
    log, older, newer = with_two_snapshots(is_first_reached=False)
    log.pool.files.remove(older)
    log.pool.files.remove(newer)
    with pytest.raises(StorageError, match=rf"no snapshot \({name_of(4)}\) is in /data/m-0; .* begins at offset 4"):
        load(log)


def test_a_log_that_ends_before_its_snapshot_is_told() -> None:
    log, _, newer = with_two_snapshots(is_first_reached=True)
    truncate_to(log, 3, no_checkpoint)
    with pytest.raises(StorageError, match=f"ends at offset 3, before the snapshot {newer.rpartition('/')[2]}"):
        load(log)


def test_a_gap_behind_a_snapshot_is_told() -> None:
    log, _, newer = with_two_snapshots(is_first_reached=True)
    log.pool.files.remove(newer)
    store_files = log.pool.files
    log.close_files()
    store_files.remove(f"{log.directory}/{2:020d}.log")
    with pytest.raises(StorageError, match="cannot be read at offset 2"):
        load(log)


def test_a_snapshot_that_cannot_be_read_is_as_good_as_damaged() -> None:
    log, _, newer = with_two_snapshots(is_first_reached=False)
    assert isinstance(log.pool.files, CrashingFiles)
    log.pool.files.fail(5, "read", path=newer)
    with pytest.raises(StorageError, match="EIO"):
        load(log)
