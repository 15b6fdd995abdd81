"""A log as a follower: equal to the leader's log, however the leader's bytes arrive."""

from __future__ import annotations

import errno
from dataclasses import replace
from random import Random

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import MAGIC, patch
from headgate.storage.log import appending, flushing
from headgate.storage.log.following import FollowerAppend, UnexpectedAppendOffset
from headgate.storage.log.log import Log
from headgate.storage.log.validation import BROKER, CLIENT
from headgate.storage.segment.tests.test_legacy_messages import stored as stored_messages
from headgate.storage.segment.transaction_index import AbortedTransaction
from headgate.storage.tests.builders import (
    NOW_MS,
    SMALL,
    append,
    append_own,
    assert_derived_state,
    assert_producers,
    batch,
    content,
    entries,
    files_of,
    marker,
    new_log,
    numbered,
    open_store,
    stored,
    transactional,
)

KEY = "t", 0


def led(random: Random, count: int = 60) -> Log:
    """A leader's log: plain batches, idempotent ones, transactions, several epochs, several segments."""
    log = new_log()
    sequences, epoch = dict.fromkeys((7, 8, 9), 0), 0
    for number in range(count):
        epoch += random.random() < 0.1
        producer, size = random.choice([0, 7, 8, 9]), random.randint(1, 3)
        data = batch(size, timestamp=NOW_MS + number)
        if producer == 7:
            data = numbered(sequences[7], size)
        elif producer:
            data = transactional(sequences[producer], size, producer_id=producer)
        if producer > 7 and random.random() < 0.4:
            data, size = marker(random.random() < 0.5, producer_id=producer), 0
        if producer:
            sequences[producer] += size
        append(log, data, leader_epoch=epoch, origin=CLIENT if producer in (0, 7) else BROKER)
    return log


def follow(log: Log, data: bytes) -> None:
    FollowerAppend(log, memoryview(data)).write(NOW_MS)


def feed(log: Log, data: bytes, random: Random) -> None:
    """Append bytes of a leader's log as answers of any size, most with a cut batch at the end."""
    position = 0
    while position < len(data):
        before, answer = log.segments.size, data[position : position + random.randint(150, 2500)]
        follow(log, answer)
        position += log.segments.size - before


def files_with(log: Log) -> list[tuple[int, bytes]]:
    """The `.log` files: base offset and bytes."""
    return [(segment.base_offset, segment.file.read_at(segment.size, 0)) for segment in log.segments]


def aborted(log: Log) -> list[AbortedTransaction]:
    return [ended for segment in log.segments if segment.aborted is not None for ended in entries(segment)]


def assert_equal(follower: Log, leader: Log) -> None:
    assert files_with(follower) == files_with(leader)
    assert follower.end_offset == leader.end_offset
    assert_producers(follower.producers, leader.producers, whole=True)
    assert follower.producers.transactions.open == leader.producers.transactions.open
    assert follower.epochs.entries == leader.epochs.entries
    assert aborted(follower) == aborted(leader)


@pytest.mark.parametrize("seed", range(12))
def test_a_follower_is_equal_to_its_leader(seed: int) -> None:
    random = Random(seed)
    leader, follower = led(random), new_log()
    feed(follower, content(leader), random)
    assert_equal(follower, leader)
    assert follower.producers.by_id == leader.producers.by_id
    assert_derived_state(follower)
    flushing.flush(follower)
    reopened = open_store(files_of(follower).crash(random, power=True)).logs[KEY]
    assert (content(reopened), reopened.epochs.entries) == (content(leader), leader.epochs.entries)
    assert reopened.producers.by_id.keys() == leader.producers.by_id.keys()


def test_gaps_of_compaction_are_kept() -> None:
    leader = new_log()
    append(leader, *(batch(2) for _ in range(40)))
    left = [view for number, (_, view) in enumerate(stored(content(leader))) if number in (3, 4, 9, 30, 39)]
    follower = new_log()
    follow(follower, b"".join(left))
    assert content(follower) == b"".join(left)
    assert (follower.start_offset, follower.end_offset) == (0, 80)
    reopened = open_store(files_of(follower).crash(Random(1), power=False)).logs[KEY]
    assert (content(reopened), reopened.end_offset) == (b"".join(left), 80)


def test_batches_of_one_answer_are_one_write() -> None:
    leader, follower = new_log(), new_log()
    append(leader, *(batch() for _ in range(12)))
    data = content(leader)
    before = files_of(follower).writes
    follow(follower, data)
    assert follower.end_offset == 12
    assert files_of(follower).writes - before <= 3  # the first of a segment, and the rest


def test_a_batch_below_the_end_is_refused() -> None:
    leader, follower = new_log(), new_log()
    append(leader, batch(3), batch(2))
    follow(follower, content(leader))
    with pytest.raises(UnexpectedAppendOffset, match="First offset 0 is less than the next offset 5") as refused:
        follow(follower, content(leader))
    assert (refused.value.first_offset, refused.value.last_offset) == (0, 2)
    assert content(follower) == content(leader)


@pytest.mark.parametrize("fault", ["crc", "order", "far"])
def test_a_wrong_batch_refuses_its_whole_answer(fault: str) -> None:
    leader, follower = new_log(), new_log()
    append(leader, batch(), batch(), batch())
    data = bytearray(content(leader))
    last = memoryview(data)[len(data) // 3 * 2 :]
    if fault == "crc":
        last[-1] ^= 1
    else:
        patch(last, 0 if fault == "order" else 1 << 40, 0)
    with pytest.raises(KafkaError) as refused:
        follow(follower, bytes(data))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert (follower.end_offset, content(follower)) == (0, b"")


def test_a_cut_batch_is_left_for_the_next_answer() -> None:
    leader, follower = new_log(), new_log()
    append(leader, batch())
    for size in (0, 5, 16, 30, len(content(leader)) - 1):
        assert FollowerAppend(follower, memoryview(content(leader)[:size])).is_staged
    assert follower.end_offset == 0


def test_batches_of_a_later_leader_wait() -> None:
    leader, follower = new_log(), new_log()
    append(leader, batch(), batch(), leader_epoch=3)
    append(leader, batch(), leader_epoch=4)
    FollowerAppend(follower, memoryview(content(leader)), leader_epoch=3).write(NOW_MS)
    assert (follower.end_offset, follower.epochs.entries) == (2, [(3, 0)])


def test_a_failed_write_leaves_the_log_as_it_was() -> None:
    leader, follower = new_log(), new_log()
    append_own(leader, numbered(0), transactional(0, producer_id=8))
    follow(follower, content(leader))
    before = content(leader)
    append_own(leader, numbered(1), marker(False, producer_id=8))
    files_of(follower).fail(errno.EIO, "write", path=".log")
    with pytest.raises(KafkaError) as refused:
        follow(follower, content(leader)[len(before) :])
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    files_of(follower).heal()
    assert (follower.end_offset, content(follower)) == (2, before)
    follow(follower, content(leader)[len(before) :])
    assert_equal(follower, leader)


def test_a_thread_may_write_what_was_staged() -> None:
    leader, follower = new_log(), new_log()
    append(leader, *(batch() for _ in range(5)))
    follow(follower, content(leader)[: len(content(leader)) // 5])
    FollowerAppend(follower, memoryview(content(leader)[len(content(leader)) // 5 :])).stage(NOW_MS)
    write = appending.begin_write(follower)
    assert write is not None
    assert (follower.written_end, follower.end_offset) == (1, 5)
    write.write()
    appending.end_write(follower, write, None)
    assert_equal(follower, leader)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_followed(magic: int) -> None:
    data, follower = stored_messages(magic, 0), new_log()
    follow(follower, data)
    assert (follower.end_offset, follower.epochs.entries) == (30, [])
    assert follower.segments.has_legacy_format
    assert b"".join(files[1] for files in files_with(follower)) == data
    reopened = open_store(files_of(follower).crash(Random(1), power=False)).logs[KEY]
    assert reopened.end_offset == 30
    assert reopened.segments.has_legacy_format
    assert next(iter(reopened.segments.headers(0))).magic == magic < MAGIC


def test_a_full_index_rolls_as_the_leaders_does() -> None:
    config = replace(SMALL, segment_bytes=100_000, index_interval_bytes=1, segment_index_bytes=100)
    leader, follower = new_log(config=config), new_log(config=config)
    append(leader, *(batch() for _ in range(40)))
    follow(follower, content(leader))
    assert len(leader.segments) > 2
    assert_equal(follower, leader)


def test_a_batch_above_segment_bytes_is_followed() -> None:
    leader, follower = new_log(), new_log()
    leader.configure(replace(leader.config, segment_bytes=100_000))
    append(leader, batch(), batch(size=5000), batch())
    follow(follower, content(leader))
    assert content(follower) == content(leader)
    assert [segment.base_offset for segment in follower.segments] == [0, 1, 2]
