"""Snapshots of the metadata log: when they are written, what they replace; no crash and no error loses a change."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from random import Random

import pytest

from headgate.gateway.metadata import snapshot
from headgate.gateway.metadata.planning.leader_epochs import register_broker
from headgate.gateway.metadata.snapshot import MIN_BYTES, NO_SNAPSHOT
from headgate.gateway.metadata.snapshot_generator import START_DELAY_MS
from headgate.gateway.metadata.tests.metadata_node import DATA, DIRECTORY, MetadataNode, hangs, recorded_state
from headgate.protocol.errors import KafkaError
from headgate.protocol.internal.metadata import (
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from headgate.protocol.tests.examples import first_in_unit
from headgate.storage.log import flushing
from headgate.storage.tests.builders import repair
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut

PARTS = 4
"""The cuts go to as many tests, each with every fourth of them; `make soak` has all."""
SMALL_BYTES = 400


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few changes are worth a snapshot."""
    monkeypatch.setattr(snapshot, "MIN_BYTES", SMALL_BYTES)


def filled(node: MetadataNode) -> MetadataNode:
    """Some of everything that an image has."""
    metadata = node.metadata
    metadata.create_topic("kept", 3, configs={"retention.ms": "5"})
    metadata.submit([FeatureLevelRecord(name="group.version", feature_level=1)])
    metadata.take_producer_ids()
    metadata.change_group_configs("g", {"consumer.session.timeout.ms": "50000"})
    metadata.change_broker_configs(None, {"log.retention.ms": "7000"})
    node.threads.run_all()
    return node


def restarted(node: MetadataNode) -> MetadataNode:
    node.stores.close()
    return MetadataNode(node.files)


# ------------------------------------------------------------------------------------------------------------- writing


@pytest.mark.usefixtures("small")
def test_a_snapshot_takes_the_place_of_the_log_before_it() -> None:
    node = filled(MetadataNode(CrashingFiles()))
    node.start()
    node.churn(3)
    end_offset = node.generator.snapshot.end_offset
    assert node.snapshots() == [f"{end_offset:020d}-0000000000.checkpoint"]
    assert [segment.base_offset for segment in node.log.segments] == [node.log.start_offset] == [end_offset]
    after = restarted(node)
    assert recorded_state(after.image) == recorded_state(node.image)
    assert after.generator.snapshot == node.generator.snapshot
    assert after.records_read < end_offset


def test_a_short_log_has_no_snapshot() -> None:
    node = filled(MetadataNode(CrashingFiles()))
    node.start()
    node.churn(3)
    assert (node.snapshots(), node.log.start_offset, node.generator.snapshot) == ([], 0, NO_SNAPSHOT)


@pytest.mark.usefixtures("small")
def test_a_start_that_read_a_long_log_is_followed_by_a_snapshot() -> None:
    node = filled(MetadataNode(CrashingFiles()))
    node.churn(5)
    after = restarted(node)
    assert after.records_read == after.log.end_offset
    after.start()
    assert after.generator.snapshot.end_offset == after.log.end_offset == after.log.start_offset
    last = restarted(after)
    assert recorded_state(last.image) == recorded_state(node.image)


@pytest.mark.usefixtures("small")
def test_the_registration_of_this_start_is_in_the_next_snapshot() -> None:
    """Else the leader epochs of the next start would be those of this one."""
    node = filled(MetadataNode(CrashingFiles()))
    node.churn(5)
    after = restarted(node)
    after.metadata.register(register_broker(0, None, b"i" * 16, after.metadata.end_offset))
    after.start()
    assert after.generator.snapshot.end_offset == after.log.end_offset
    assert [state.leader_epoch for state in after.image.topics["kept"].partitions] == [1, 1, 1]
    assert recorded_state(restarted(after).image) == recorded_state(after.image)


@pytest.mark.usefixtures("small")
def test_changes_go_on_while_a_snapshot_is_made() -> None:
    """What comes behind the moment of the snapshot is in the log behind it."""
    node = filled(MetadataNode(CrashingFiles()))
    node.churn(5)
    node.start()
    node.churn(5)
    threads = node.threads
    seen = 0
    for number in range(40):
        node.metadata.create_topic(f"t{number}", 1)
        before = node.generator.snapshot
        threads.run_one()
        seen += before != node.generator.snapshot and bool(threads.waiting)
    assert seen, "a snapshot ended while changes waited"
    threads.run_all()
    assert len(node.image.topics) == 41
    assert recorded_state(restarted(node).image) == recorded_state(node.image)


@pytest.mark.usefixtures("small")
def test_a_change_that_is_not_seen_yet_is_in_the_snapshot() -> None:
    node = filled(MetadataNode(CrashingFiles()))
    node.churn(5)
    node.prepare = hangs  # the disk of the new partitions hangs
    node.metadata.create_topic("unseen", 1)
    node.threads.run_all()
    node.start()
    assert node.generator.snapshot.end_offset == node.log.end_offset
    assert "unseen" not in node.image.topics
    assert "unseen" in restarted(node).image.topics


@pytest.mark.usefixtures("small")
def test_nothing_begins_once_the_broker_stops() -> None:
    node = filled(MetadataNode(CrashingFiles()))
    node.churn(5)
    node.generator.stop()
    node.start()
    assert node.snapshots() == []


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("steps", range(4))
def test_a_stop_ends_a_snapshot_under_way(steps: int) -> None:
    node = filled(MetadataNode(CrashingFiles()))
    node.churn(5)
    node.generator.start()
    node.time.advance(START_DELAY_MS)
    for _ in range(steps):
        node.threads.run_one()
    node.generator.stop()
    node.time.scheduler.is_over = True
    node.threads.run_all()
    assert recorded_state(restarted(node).image) == recorded_state(node.image)


# --------------------------------------------------------------------------------------------------------------- scale


def made_and_deleted(first: int, count: int) -> tuple[list[MetadataRecord], list[MetadataRecord]]:
    ids = [number.to_bytes(16, "big") for number in range(first, first + count)]
    records: list[MetadataRecord] = [TopicRecord(name=f"t{topic_id.hex()}", topic_id=topic_id) for topic_id in ids]
    records += [
        PartitionRecord(
            partition_id=0, topic_id=topic_id, replicas=[0], isr=[0], leader=0, leader_epoch=0, partition_epoch=0
        )
        for topic_id in ids
    ]
    return records, [RemoveTopicRecord(topic_id=topic_id) for topic_id in ids]


@pytest.mark.slow
def test_what_a_start_reads_is_bounded_by_what_lives() -> None:
    """20,000 topics made and deleted leave nothing behind."""
    node = filled(MetadataNode(CrashingFiles()))
    node.start()
    for number in range(1, 21):
        made, deleted = made_and_deleted(number * 1_000, 1_000)
        for records in (made, deleted):
            node.metadata.submit(records)
            node.threads.run_all()
        node.stores.removed |= {record.topic_id for record in deleted if isinstance(record, RemoveTopicRecord)}
    assert node.log.end_offset > 60_000
    node.stores.remove_deleted()
    sizes = {name: size for name, size in node.files.list(DIRECTORY).items() if size > 0}
    assert sum(sizes.values()) < 2 * MIN_BYTES
    after = restarted(node)
    assert recorded_state(after.image) == recorded_state(node.image)
    assert after.records_read < 2 * MIN_BYTES // 30, "so small is no record"
    assert after.records_read < node.log.end_offset // 2


# ------------------------------------------------------------------------------------------------------ crashes, errors


def lived(files: CrashingFiles, churned: int = 6) -> MetadataNode:
    """A broker that has written snapshots, until the power goes."""
    node = MetadataNode(files)
    try:
        filled(node)
        node.start()
        node.churn(churned)
        node.stores.remove_deleted()
    except PowerCut:
        pass
    return node


def possible(node: MetadataNode) -> Iterator[tuple[object, ...]]:
    """What may be found after a crash: what was acknowledged, and any number of the changes under way."""
    yield recorded_state(node.image)
    for change in node.changes:
        if not change.is_settled:
            yield recorded_state(change.image)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("mixes_names", [False, True])
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("part", list(first_in_unit(range(PARTS), some=2)))
def test_no_crash_at_any_moment_loses_a_change(part: int, power: bool, mixes_names: bool) -> None:
    whole = CrashingFiles()
    MetadataNode(whole).stores.abandon()
    first = whole.writes
    lived(whole)
    crashed_on_the_way = 0
    for cut in range(first + part, whole.writes, PARTS):
        files = CrashingFiles()
        files.mixes_names, files.cut_after = mixes_names, cut
        node = lived(files)
        found = MetadataNode(files.crash(Random(cut), power=power))
        assert recorded_state(found.image) in list(possible(node)), f"cut {cut}"
        crashed_on_the_way += len(found.snapshots()) > 1 or len(found.log.segments) > 1
        found.start()
        found.churn(3)
        assert len(found.snapshots()) == len(found.log.segments) == 1, f"cut {cut}: all of it is tidied up"
        assert recorded_state(restarted(found).image) == recorded_state(found.image)
    assert crashed_on_the_way > 20 // PARTS


def act(node: MetadataNode, random: Random) -> None:
    """Anything that may happen next: a change, or the end of any thread."""
    metadata, threads = node.metadata, node.threads
    names = [name for name in metadata.planned.topics if name != "kept"]
    match random.randrange(8):
        case 0 if names:
            metadata.delete_topic(random.choice(names))
        case 1:
            metadata.change_topic_configs("kept", {"retention.ms": str(random.randrange(1_000))})
        case 2 | 3:
            metadata.create_topic(f"t{random.random()}", random.randrange(1, 4))
        case _ if threads.waiting:
            threads.run_one(number=random.randrange(len(threads.waiting)))


def history(random: Random, seed: int) -> MetadataNode:
    """Changes while snapshots are made, threads that end in any order, until the power goes."""
    files = CrashingFiles()
    node = filled(MetadataNode(files))
    node.start()
    files.mixes_names = bool(seed % 2)
    files.cut_after = random.randrange(20, 600)
    try:
        for _ in range(600):
            act(node, random)
    except PowerCut:
        pass
    return node


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", list(first_in_unit(range(40), 8)))
def test_random_histories_up_to_a_power_cut(seed: int) -> None:
    random = Random(seed)
    node = history(random, seed)
    found = MetadataNode(node.files.crash(random, power=True))
    assert recorded_state(found.image) in list(possible(node))


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_histories_are_about_something() -> None:
    nodes = [history(Random(seed), seed) for seed in range(10)]
    assert sum(node.generator.snapshot != NO_SNAPSHOT for node in nodes) > 5
    assert any(node.metadata.planned is not node.image for node in nodes)
    assert any(node.generator._work.is_running for node in nodes)


OPERATIONS = ("create", "write", "sync", "rename", "sync_directory", "look", "remove")


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_error_leaves_everything_as_it_was(operation: str, error: int, caplog: pytest.LogCaptureFixture) -> None:
    """Of each operation of a second snapshot, one after another; then it is tried again."""
    met = 0
    for after in range(20):
        node = filled(MetadataNode(CrashingFiles()))
        node.churn(5)
        node.start()
        first = node.generator.snapshot
        node = MetadataNode(_copy(node))
        node.churn(5)  # without snapshots before the start
        image = recorded_state(node.image)
        fault = node.files.fail(error, operation, path=DIRECTORY, after=after, times=1)
        node.start()
        assert recorded_state(MetadataNode(_copy(node)).image) == image
        if not fault.met:
            break
        met += 1
        node.files.heal()
        node.retry()
        node.churn(1)
        assert node.generator.snapshot.end_offset > first.end_offset
        assert len(node.snapshots()) == len(node.log.segments) == 1
        assert recorded_state(restarted(node).image) == image
    assert met, "there is such an operation"
    assert after < 19, "each of them was tried"
    told_of = [record for record in caplog.records if "no snapshot of the metadata" in record.message]
    assert len(told_of) <= met


def _copy(node: MetadataNode) -> CrashingFiles:
    """What a start after a power cut finds now at least."""
    return node.files.copy(only_durable=True)


@pytest.mark.usefixtures("small")
def test_a_full_disk_is_told_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    node = filled(MetadataNode(CrashingFiles()))
    node.churn(5)
    node.files.fail(errno.ENOSPC, "write", path=".checkpoint")
    with caplog.at_level(logging.INFO):
        node.start()
        for _ in range(5):
            node.retry()
            node.churn(1)
    lines = [record.message for record in caplog.records if "snapshot" in record.message]
    assert len(lines) == 1
    assert "ENOSPC" in lines[0]
    assert node.snapshots() == [], "nothing is left that takes up room"
    node.files.heal()
    node.retry()
    assert len(node.snapshots()) == 1


@pytest.mark.usefixtures("small")
def test_a_failed_snapshot_does_not_keep_changes_from_being_made() -> None:
    node = filled(MetadataNode(CrashingFiles()))
    node.churn(5)
    node.files.fail(errno.EIO, path=".checkpoint")
    node.start()
    node.metadata.create_topic("after", 1)
    node.threads.run_all()
    assert "after" in node.image.topics
    assert "after" in restarted(node).image.topics


@pytest.mark.usefixtures("small")
def test_a_log_that_waits_for_its_repair_has_no_snapshot() -> None:
    node = filled(MetadataNode(CrashingFiles()))
    node.churn(5)
    with pytest.raises(KafkaError):  # noqa: PT012
        node.files.fail(errno.EIO, "sync", path=".log", times=1)
        node.metadata.create_topic("a", 1)
        node.threads.run_all()
        node.metadata.create_topic("b", 1)
    node.start()
    assert node.snapshots() == []
    assert repair(node.log)
    node.retry()
    assert len(node.snapshots()) == 1
    assert recorded_state(restarted(node).image) == recorded_state(node.image)


@pytest.mark.usefixtures("small")
def test_old_segments_that_a_crash_brought_back_go() -> None:
    node = filled(MetadataNode(CrashingFiles()))
    node.churn(5)
    node.generator.start()
    node.time.advance(START_DELAY_MS)
    for _ in range(3):  # up to the snapshot, and not its deletions
        node.threads.run_one()
    after = MetadataNode(node.files.crash(Random(0), power=True))
    assert after.generator.snapshot != NO_SNAPSHOT
    assert len(after.log.segments) > 1
    after.start()
    assert len(after.log.segments) == 1
    assert recorded_state(restarted(after).image) == recorded_state(node.image)


# ------------------------------------------------------------------------------------------------------ deleted topics

LEFT = b"left behind".ljust(16, b"\0")


def with_deleted(files: CrashingFiles, *paths: str) -> MetadataNode:
    """A topic was deleted, whose directory is still there under its name."""
    node = MetadataNode(files, *paths)
    node.stores.create("gone", 0, LEFT, node.config.log_config({}))
    node.stores.removed.add(LEFT)
    node.churn(5)
    return node


def again(node: MetadataNode) -> MetadataNode:
    """Another snapshot."""
    before = node.generator.snapshot
    node.churn(5)
    assert node.generator.snapshot != before
    return node


@pytest.mark.usefixtures("small")
def test_a_deleted_topic_is_known_while_it_has_a_directory() -> None:
    node = with_deleted(CrashingFiles())
    node.start()
    assert node.stores.removed == {LEFT}, "those of which there is none are forgotten"
    again(node)
    after = MetadataNode(node.files.copy())
    assert after.stores.removed >= {LEFT}
    assert ("gone", 0) not in after.stores, "so that a start removes it"
    node.stores.delete("gone", 0, remove=False)
    again(node)
    assert LEFT not in node.stores.removed
    assert LEFT not in MetadataNode(node.files.copy()).stores.removed


@pytest.mark.usefixtures("small")
def test_no_power_cut_brings_a_forgotten_topic_back() -> None:
    for seed in range(30):
        node = with_deleted(CrashingFiles())
        flushing.flush(node.stores.logs["gone", 0])
        node.files.sync_directory(DATA)
        node.stores.delete("gone", 0, remove=False)
        node.start()
        assert LEFT not in node.stores.removed
        names = node.files.crash(Random(seed), power=True).list(DATA)
        assert "gone-0" not in names


@pytest.mark.usefixtures("small")
def test_nothing_is_forgotten_while_a_log_directory_is_away() -> None:
    files = CrashingFiles()
    with_deleted(files, "/a", "/b").stores.close()
    other = next(path for path in ("/a", "/b") if "__headgate_metadata-0" not in files.list(path))
    paths = [path for path in ("/a", "/b") if path != other] + [other]
    moved = MetadataNode(files, *paths)
    assert "gone-0" in files.list(other), "not where the metadata are"
    moved.stores.close()
    files.fail(errno.EIO, path=other)
    node = MetadataNode(files, *paths)
    assert node.stores.refused
    node.stores.removed.add(LEFT)
    node.churn(3)
    node.start()
    assert node.generator.snapshot != NO_SNAPSHOT
    node.stores.close()
    files.heal()
    after = MetadataNode(files, *paths)
    assert after.stores.removed >= {LEFT}
    assert ("gone", 0) not in after.stores, "it came back with the directory, and goes"


@pytest.mark.usefixtures("small")
def test_nothing_is_forgotten_if_a_directory_cannot_be_listed() -> None:
    node = with_deleted(CrashingFiles())
    node.stores.delete("gone", 0, remove=False)
    fault = node.files.fail(errno.EIO, "sync_directory", path=DATA, times=1)  # that of the log directory is the first
    node.start()
    assert fault.met
    assert node.generator.snapshot != NO_SNAPSHOT
    assert LEFT in node.stores.removed
    assert LEFT in MetadataNode(node.files.copy()).stores.removed


@pytest.mark.usefixtures("small")
def test_a_deleted_topic_is_known_while_a_partition_is_made() -> None:
    node = with_deleted(CrashingFiles())
    node.stores.delete("gone", 0, remove=False)
    making = node.stores.begin_creation(("late", 0), LEFT, node.config.log_config({}))
    node.start()
    making.run()
    assert LEFT in MetadataNode(node.files.copy()).stores.removed
    node.stores.end_creation(making)
    assert LEFT in node.stores.removed
    node.stores.delete("late", 0, remove=False)
    again(node)
    assert LEFT not in node.stores.removed


@pytest.mark.usefixtures("small")
def test_a_deletion_that_partitions_do_not_follow_yet_is_known() -> None:
    """They may still make a partition of it."""
    node = with_deleted(CrashingFiles())
    node.metadata.create_topic("unseen", 1)
    node.threads.run_all()
    topic_id = node.image.topics["unseen"].topic_id
    node.prepare = hangs
    node.metadata.create_topic("hangs", 1)
    node.metadata.delete_topic("unseen")
    node.threads.run_all()
    node.start()
    assert "unseen" in node.image.topics
    after = MetadataNode(node.files.copy())
    assert "unseen" not in after.image.topics
    assert topic_id in after.stores.removed
