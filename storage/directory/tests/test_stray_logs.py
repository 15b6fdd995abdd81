"""Logs of topics that the metadata do not know: which of them go, and which stay."""

from __future__ import annotations

import logging
from random import Random

import pytest

from headgate.protocol.steps import finish
from headgate.storage.directory import stray_logs
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.tests.builders import DIRECTORY, NOW_MS, SMALL, TOPIC_ID, append, batch, open_all, open_store
from headgate.storage.tests.crashing_files import CrashingFiles

REMOVED = bytes(16)


def taken(files: CrashingFiles) -> LogDirectory:
    """A store that has opened nothing yet, with a log of a topic that was removed, and of one that nobody knows."""
    store = open_store(files)
    for topic, topic_id in (("removed", REMOVED), ("unknown", TOPIC_ID), ("known", TOPIC_ID), ("nameless", TOPIC_ID)):
        append(store.create(topic, 0, topic_id, SMALL, NOW_MS), batch())
    append(store.create("known", 1, REMOVED, SMALL, NOW_MS), batch())
    store.close()
    files.remove(f"{DIRECTORY}/nameless-0/partition.metadata")
    files.make_directories(f"{DIRECTORY}/holiday-24")
    files.write(f"{DIRECTORY}/holiday-24/beach.jpg", b"mine")
    return LogDirectory.take(DIRECTORY, files=files, node_id=0, config=SMALL, random=Random(1)).claim()


def remove(store: LogDirectory) -> LogManager:
    stores = LogManager([store])
    stores.removed.add(REMOVED)
    stores.remove_strays(lambda topic, partition: (topic, partition) == ("known", 0))
    return stores


def test_only_what_is_known_to_be_deleted_goes(caplog: pytest.LogCaptureFixture) -> None:
    files = CrashingFiles()
    store = taken(files)
    with caplog.at_level(logging.WARNING):
        remove(store)
    assert set(store.unopened) == {("known", 0), ("unknown", 0), ("nameless", 0), ("holiday", 24)}
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"{DIRECTORY}/known-1 belongs to a deleted topic; removing the log",
        f"{DIRECTORY}/nameless-0 belongs to no topic in the metadata; the log is not served, and stays",
        f"{DIRECTORY}/removed-0 belongs to a deleted topic; removing the log",
        f"{DIRECTORY}/unknown-0 belongs to no topic in the metadata; the log is not served, and stays",
    ]
    store.remove_deleted()
    left = {name for name, size in files.list(DIRECTORY).items() if size < 0}
    assert left == {"known-0", "unknown-0", "nameless-0", "holiday-24"}


def test_one_that_cannot_be_deleted_keeps_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = CrashingFiles()
    store = taken(files)
    due = files.rename

    def refuse(old: str, new: str) -> None:
        if old.endswith("known-1"):
            raise OSError(5, "Input/output error")
        due(old, new)

    with monkeypatch.context() as broken:
        broken.setattr(files, "rename", refuse)
        remove(store)
    assert "known-1 stays until the next start" in caplog.text
    assert ("known", 1) in store.unopened
    assert ("removed", 0) not in store.unopened


def test_a_stray_that_is_in_the_way_is_set_aside() -> None:
    files = CrashingFiles()
    store = taken(files)
    stores = remove(store)
    written = files.read(f"{DIRECTORY}/unknown-0/{0:020d}.log")
    open_all(store, NOW_MS)
    assert stores.create("unknown", 0, b"of another topic", SMALL, NOW_MS).end_offset == 0
    store.close()
    (aside,) = [name for name in files.list(DIRECTORY) if name.endswith("-stray")]
    assert files.read(f"{DIRECTORY}/{aside}/{0:020d}.log") == written
    again = open_store(files)
    assert set(again.logs) == {("known", 0), ("unknown", 0), ("nameless", 0)}
    assert aside in files.list(DIRECTORY)


def test_which_topics_have_a_directory() -> None:
    """Open logs, those that are not open, and those that cannot be opened; no deleted ones."""
    files = CrashingFiles()
    store = taken(files)
    store.delete("removed", 0, remove=False)
    store.delete("known", 1, remove=False)
    assert finish(stray_logs.topic_ids_steps([store])) == {TOPIC_ID}
    store.create("new", 0, REMOVED, SMALL, NOW_MS)
    assert finish(stray_logs.topic_ids_steps([store])) == {TOPIC_ID, REMOVED}
    files.write(f"{DIRECTORY}/unknown-0/partition.metadata", b"no id")
    files.write(f"{DIRECTORY}/known-0/partition.metadata", b"no id")
    assert finish(stray_logs.topic_ids_steps([store])) == {REMOVED}


@pytest.mark.parametrize("operation", ["look", "sync_directory", "read"])
def test_a_directory_that_cannot_be_listed_has_no_topics_to_tell(operation: str) -> None:
    files = CrashingFiles()
    store = taken(files)
    files.fail(5, operation, path=DIRECTORY)
    with pytest.raises(OSError, match="EIO"):
        finish(stray_logs.topic_ids_steps([store]))


def test_another_disk_in_its_place_has_no_topics_to_tell() -> None:
    files = CrashingFiles()
    store = taken(files)
    files.remove(f"{DIRECTORY}/meta.properties")
    with pytest.raises(OSError, match="is the right disk mounted"):
        finish(stray_logs.topic_ids_steps([store]))


def test_a_name_that_is_told_gone_does_not_come_back() -> None:
    for seed in range(20):
        files = CrashingFiles()
        store = taken(files)
        open_all(store, NOW_MS)
        store.delete("removed", 0, remove=False)
        assert REMOVED in finish(stray_logs.topic_ids_steps([store]))
        store.delete("known", 1, remove=False)
        finish(stray_logs.topic_ids_steps([store]))
        names = files.crash(Random(seed), power=True).list(DIRECTORY)
        assert not names.keys() & {"removed-0", "known-1"}
