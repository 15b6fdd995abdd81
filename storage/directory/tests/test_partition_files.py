"""How a partition comes and goes: at a crash at any event, on a disk that refuses, with something in its way."""

from __future__ import annotations

import errno
import logging
from pathlib import Path
from random import Random

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.directory.partition_files import PartitionCreation
from headgate.storage.log import flushing
from headgate.storage.tests.builders import DIRECTORY, NOW_MS, SMALL, TOPIC_ID, append, batch, content, open_store
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut

KEY = "t", 0
OLD_ID = b"of the old topic"
LOG = f"{0:020d}.log"
MAX_EVENTS = 200


def make(store: LogDirectory, topic_id: bytes = TOPIC_ID) -> None:
    append(store.create(*KEY, topic_id, SMALL, NOW_MS), batch())


def begun(store: LogDirectory) -> tuple[LogManager, PartitionCreation]:
    stores = LogManager([store])
    return stores, stores.begin_creation(KEY, TOPIC_ID, SMALL, NOW_MS)


def directories(files: CrashingFiles) -> list[str]:
    return sorted(name for name, size in files.list(DIRECTORY).items() if size < 0)


def test_what_is_made_is_a_partition_once_it_is_taken_up() -> None:
    files = CrashingFiles()
    store = open_store(files)
    stores, making = begun(store)
    assert not files.exists("/data/t-0")
    making.run()
    assert sorted(files.list("/data/t-0")) == [LOG, "partition.metadata"]
    assert KEY not in store.logs
    assert KEY in store
    assert len(store) == 1, "it counts where it will be"
    assert stores.end_creation(making) is store.logs[KEY]
    assert len(store) == 1


def test_what_is_being_made_is_neither_made_again_nor_deleted() -> None:
    stores, making = begun(open_store(CrashingFiles()))
    with pytest.raises(KafkaError) as caught:
        stores.begin_creation(KEY, bytes(16), SMALL, NOW_MS)
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert stores.begin_deletion(KEY, TOPIC_ID) is None
    making.run()
    stores.end_creation(making)
    deletion = stores.begin_deletion(KEY, TOPIC_ID)
    assert deletion is not None
    assert KEY not in stores
    deletion.run()
    stores.end_deletion(deletion)
    assert next(iter(stores)).pool.pending_deletions


def test_one_that_no_thread_came_to_is_not_there() -> None:
    """The broker stops."""
    files = CrashingFiles()
    store = open_store(files)
    stores, making = begun(store)
    with pytest.raises(KafkaError, match="as the broker stops"):
        stores.end_creation(making)
    assert KEY not in store
    store.close()
    assert directories(files) == []


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_event_leaves_one_partition_whole(power: bool) -> None:
    """The old one had records and a checkpoint, was deleted, and is made anew with a record less."""
    found = set()
    for cut in range(MAX_EVENTS):
        files = CrashingFiles()
        store = open_store(files)
        append(store.create(*KEY, OLD_ID, SMALL, NOW_MS), *(batch() for _ in range(3)))
        flushing.flush(store.logs[KEY])
        store.checkpoint({KEY: 3})
        store.removed.add(OLD_ID)
        files.cut_after = cut
        try:
            deletion = store.begin_deletion(KEY, OLD_ID)
            deletion.run()
            store.end_deletion(deletion)
            make(store)
            flushing.flush(store.logs[KEY])
        except PowerCut:
            is_over = False
        else:
            is_over = True
        store = open_store(files.crash(Random(cut), power=power))
        assert store.failed == {}, cut
        log = store.logs.get(KEY)
        ends = {OLD_ID: 3, TOPIC_ID: 1}
        if log is not None and log.topic_id in ends:
            assert log.end_offset in (0, ends[log.topic_id]), cut
        found.add(None if log is None else (log.topic_id, log.end_offset))
        if is_over:
            break
    assert is_over
    assert found >= {None, (OLD_ID, 3), (TOPIC_ID, 1)}, "cuts are before, in the middle, and after"


def made(store: LogDirectory) -> bool:
    try:
        store.create(*KEY, TOPIC_ID, SMALL, NOW_MS)
    except KafkaError:
        return False
    return True


def test_a_refusal_at_any_event_leaves_nothing_like_a_partition() -> None:
    refused = 0
    for after in range(MAX_EVENTS):
        files = CrashingFiles()
        store = open_store(files)
        files.fail(errno.ENOSPC, "create", "write", path="/t-0", after=after)
        if made(store):
            break
        refused += 1
        assert directories(files) == []
        assert KEY not in store
        files.heal()
        store.create(*KEY, TOPIC_ID, SMALL, NOW_MS)
    assert refused >= 3


def test_a_retry_forgets_the_older_partition_before_the_new_one() -> None:
    """Else a start would miss what the checkpoint promises."""
    files = CrashingFiles()
    store = open_store(files)
    append(store.create(*KEY, OLD_ID, SMALL, NOW_MS), *(batch() for _ in range(3)))
    flushing.flush(store.logs[KEY])
    store.checkpoint({KEY: 3})
    store.delete(*KEY)
    fault = files.fail(errno.EIO, path="checkpoint", times=6)
    with pytest.raises(KafkaError):
        store.create(*KEY, TOPIC_ID, SMALL, NOW_MS)
    assert fault.met
    assert not files.exists("/data/t-0")
    files.heal()
    make(store)
    store = open_store(files.crash(Random(1), power=False))
    assert store.failed == {}
    assert (store.logs[KEY].end_offset, store.high_watermarks()) == (1, {})


def test_what_was_begun_before_pays_no_debt() -> None:
    """The checkpoints are still to be written when the one that owes it could not be made."""
    store = open_store(CrashingFiles())
    append(store.create(*KEY, OLD_ID, SMALL, NOW_MS), batch())
    store.checkpoint({KEY: 1})
    store.delete(*KEY)
    stores = LogManager([store])
    before = stores.begin_creation(("u", 0), TOPIC_ID, SMALL, NOW_MS)
    owes = stores.begin_creation(KEY, TOPIC_ID, SMALL, NOW_MS)
    before.run()
    stores.end_creation(before)
    with pytest.raises(KafkaError):
        stores.end_creation(owes)
    assert stores.begin_creation(KEY, TOPIC_ID, SMALL, NOW_MS).targets[0].forget is owes.targets[0].forget is not None


def test_an_older_partition_is_forgotten_also_without_the_checkpoint() -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create(*KEY, OLD_ID, SMALL, NOW_MS)
    append(log, *(batch() for _ in range(50)))
    flushing.flush(log)
    store.checkpoint({KEY: 50})
    store.delete(*KEY)
    files.room = 0
    with pytest.raises(OSError, match="space"):
        store.checkpoint({})
    files.room = None
    make(store)
    flushing.flush(store.logs[KEY])
    again = open_store(files.crash(Random(1), power=False))
    assert not again.failed
    assert again.logs[KEY].end_offset == 1


def test_a_checkpoint_under_way_is_written_once_more_for_many() -> None:
    files = CrashingFiles()
    store = open_store(files)
    write = store.begin_checkpoint({})
    first, second = (store.begin_creation(("t", index), TOPIC_ID).forget for index in range(2))
    assert first is second is not None
    later = store.begin_checkpoint({})
    newest = store.begin_creation(("t", 2), TOPIC_ID).forget
    assert newest is not None
    assert newest is not first, "which may have what was deleted since"
    later()
    write()
    store.checkpoint({})
    assert store.begin_creation(("t", 3), TOPIC_ID).forget is None


# What is in the way


def test_what_somebody_has_put_there_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """While the broker ran, so that it knows nothing of it."""
    files = CrashingFiles()
    store = open_store(files)
    files.make_directories("/data/t-0")
    files.write(f"/data/t-0/{LOG}", b"of somebody")
    store.create(*KEY, TOPIC_ID, SMALL, NOW_MS)
    (aside,) = [name for name in files.list(DIRECTORY) if name.endswith("-stray")]
    assert files.read(f"/data/{aside}/{LOG}") == b"of somebody"
    assert f"kept in /data/{aside}" in caplog.text
    assert "without a topic id" in caplog.text


def test_what_cannot_be_looked_at_is_not_taken_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    files = CrashingFiles()
    store = open_store(files)
    files.make_directories("/data/t-0")
    files.write(f"/data/t-0/{LOG}", b"of somebody")
    files.fail(errno.EIO, "look", path="/t-0")
    monkeypatch.setattr(files, "exists", lambda _: False)  # as the system says where it cannot look
    with pytest.raises(KafkaError, match="cannot be created"):
        store.create(*KEY, TOPIC_ID, SMALL, NOW_MS)
    assert files.read(f"/data/t-0/{LOG}") == b"of somebody"


def test_what_the_making_of_a_partition_has_left_is_not_in_its_way() -> None:
    files = CrashingFiles()
    store = open_store(files)
    for index, names in enumerate([(), ("partition.metadata",), ("partition.metadata", LOG)]):
        files.make_directories(f"/data/t-{index}")
        for name in names:
            files.write(f"/data/t-{index}/{name}", b"")
        store.create("t", index, TOPIC_ID, SMALL, NOW_MS)
    assert directories(files) == ["t-0", "t-1", "t-2"]


@pytest.mark.parametrize("was_removed", [False, True])
def test_an_open_log_of_another_topic_makes_room(was_removed: bool, caplog: pytest.LogCaptureFixture) -> None:
    """It goes only if its topic is known to be deleted."""
    files = CrashingFiles()
    store = open_store(files)
    make(store, OLD_ID)
    written = content(store.logs[KEY])
    if was_removed:
        store.removed.add(OLD_ID)
    with caplog.at_level(logging.WARNING):
        assert store.create(*KEY, TOPIC_ID, SMALL, NOW_MS).end_offset == 0
    (other,) = [name for name in directories(files) if name != "t-0"]
    assert other.endswith("-delete" if was_removed else "-stray")
    assert files.read(f"/data/{other}/{LOG}") == written
    assert ("removing the directory" if was_removed else "kept in") in caplog.text
    assert list(store.pool.pending_deletions) == ([f"/data/{other}"] if was_removed else [])


@pytest.mark.parametrize("there, stays", [(OLD_ID, False), (TOPIC_ID, True), (b"removed as well!", False)])
def test_a_deletion_takes_files_of_its_topic_or_another_deleted_one(
    there: bytes, stays: bool, caplog: pytest.LogCaptureFixture
) -> None:
    files = CrashingFiles()
    store = open_store(files)
    make(store, there)
    store.removed |= {OLD_ID, b"removed as well!"}
    deletion = store.begin_deletion(KEY, OLD_ID)
    deletion.run()
    store.end_deletion(deletion)
    assert files.exists("/data/t-0") == stays == (not store.pool.pending_deletions)
    assert ("the directory stays" in caplog.text) == stays
    assert KEY not in store


def test_a_refused_deletion_is_told_and_ended_by_the_next_creation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = CrashingFiles()
    store = open_store(files)
    make(store, OLD_ID)
    store.removed.add(OLD_ID)
    files.fail(errno.EIO, "rename")
    deletion = store.begin_deletion(KEY, OLD_ID)
    deletion.run()
    store.end_deletion(deletion)
    assert "the log of t-0 stays on the disk" in caplog.text
    files.heal()
    assert store.create(*KEY, TOPIC_ID, SMALL, NOW_MS).end_offset == 0
    assert len(store.pool.pending_deletions) == 1
