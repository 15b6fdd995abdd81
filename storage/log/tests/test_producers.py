"""Sequences, duplicates, epochs, snapshots."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import MAX_SEQUENCE, BatchHeader, read_header
from headgate.protocol.records.control import Marker
from headgate.storage.errors import BadFile
from headgate.storage.log.producers import Producers, WrittenBatch, add_to_sequence, subtract_from_sequence
from headgate.storage.tests.builders import NOW_MS, batch, marker, numbered, transactional


def header(sequence: int, count: int = 1, producer_id: int = 7, epoch: int = 0) -> BatchHeader:
    return read_header(numbered(sequence, count, producer_id=producer_id, epoch=epoch))


def nothing(producer_id: int, end: int) -> Iterable[BatchHeader]:
    raise AssertionError("the log is asked only after a snapshot was loaded")


def written(*headers: BatchHeader) -> Producers:
    producers = Producers()
    offset = 100
    for one in headers:
        producers.record(one, offset)
        offset += one.records_count
    return producers


def check(producers: Producers, one: BatchHeader) -> WrittenBatch | ErrorCode | None:
    try:
        return producers.check(one, nothing)
    except KafkaError as error:
        return error.code


def test_which_markers_may_follow() -> None:
    """An epoch that was raised for the marker is above that of an open transaction (KIP-1228)."""
    open_transaction = read_header(transactional(0, 1, epoch=3))
    ended = written(open_transaction)
    ended.record(marker_header(4), 101, Marker(is_commit=True, coordinator_epoch=5))
    fenced, older = ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    for producers, epoch, coordinator_epoch, is_raised, expected in (
        (Producers(), 0, 0, True, None),
        (written(open_transaction), 3, 0, False, None),
        (written(open_transaction), 3, 0, True, older),
        (written(open_transaction), 4, 0, True, None),
        (written(open_transaction), 2, 0, False, older),
        (ended, 4, 5, True, None),
        (ended, 4, 4, True, fenced),
        (ended, 3, 6, True, older),
    ):
        code = None
        try:
            producers.check_marker(marker_header(epoch), Marker(True, coordinator_epoch), is_raised=is_raised)
        except KafkaError as error:
            code = error.code
        assert code is expected


def marker_header(epoch: int) -> BatchHeader:
    return read_header(marker(True, epoch=epoch))


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert check(Producers(), header(55)) is None


@pytest.mark.parametrize(
    "sequence,count,epoch,expected",
    [
        (8, 1, 0, None),
        (9, 1, 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (7, 1, 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (6, 2, 0, WrittenBatch(6, 7, 106, 107, NOW_MS)),
        (0, 1, 1, None),
        (1, 1, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_what_may_follow(sequence: int, count: int, epoch: int, expected: object) -> None:
    producers = written(header(0, 3), header(3, 3), header(6, 2))
    assert check(producers, header(sequence, count, epoch=epoch)) == expected


def test_an_older_epoch_is_fenced() -> None:
    assert check(written(header(0, epoch=3)), header(1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_forgets_the_batches_of_the_old() -> None:
    producers = written(header(0), header(1), header(0, epoch=1))
    assert producers.by_id[7].batches == [WrittenBatch(0, 0, 102, 102, NOW_MS)]
    assert check(producers, header(1, epoch=1)) is None


def test_five_batches_are_remembered() -> None:
    producers = written(*(header(number) for number in range(7)))
    assert [check(producers, header(number)) for number in (0, 1)] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 2
    assert [check(producers, header(number)) for number in range(2, 7)] == producers.by_id[7].batches
    assert len(producers.by_id[7].batches) == 5


def test_sequences_wrap() -> None:
    producers = written(header(MAX_SEQUENCE - 1, 3))
    assert producers.by_id[7].last_sequence == 0
    assert check(producers, header(1)) is None
    assert check(written(header(MAX_SEQUENCE)), header(0)) is None


@given(st.integers(0, MAX_SEQUENCE), st.integers(0, 1000))
@settings(max_examples=50)
def test_sequence_arithmetic(sequence: int, count: int) -> None:
    later = add_to_sequence(sequence, count)
    assert 0 <= later == (sequence + count) % (MAX_SEQUENCE + 1)
    assert subtract_from_sequence(later, count) == sequence


def test_other_batches_are_not_noted() -> None:
    assert len(written(read_header(batch()), read_header(batch(producer_id=7, is_control=True)))) == 0


def test_expiry() -> None:
    producers = written(header(0), header(0, producer_id=8))
    producers.by_id[8].transaction_start = 5
    assert producers.expire(NOW_MS + 999, 1000) == 0
    assert producers.expire(NOW_MS + 1000, 1000) == 1
    assert list(producers.by_id) == [8]


def test_snapshot_layout() -> None:
    producers = written(header(4, 3))
    rows = struct.pack(">qhiqiqiq", 7, 0, 6, 102, 2, NOW_MS, -1, -1)
    body = struct.pack(">i", 1) + rows
    assert producers.to_snapshot() == struct.pack(">hI", 1, crc32c(body)) + body


def test_a_snapshot_holds_the_last_batch_of_each() -> None:
    producers = written(header(0), header(1, 2), header(9, producer_id=8, epoch=4))
    again = Producers.from_snapshot(producers.to_snapshot())
    assert again.by_id[7].batches == [WrittenBatch(1, 2, 101, 102, NOW_MS)]
    assert (again.by_id[8].epoch, again.by_id[8].last_sequence) == (4, 9)
    assert again.to_snapshot() == producers.to_snapshot()
    assert Producers.from_snapshot(Producers().to_snapshot()).by_id == {}


def test_a_producer_without_batches_survives_a_snapshot() -> None:
    producers = written(header(0))
    producers.by_id[7].batches.clear()
    again = Producers.from_snapshot(producers.to_snapshot())
    assert again == producers or again.by_id == producers.by_id
    assert check(again, header(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert check(again, header(0)) is None


def test_older_batches_are_recalled_once() -> None:
    headers = [header(number) for number in range(8)]
    producers = Producers.from_snapshot(written(*headers[:6]).to_snapshot())
    for number in (6, 7):
        producers.record(headers[number], 100 + number)
    asked = []

    def recall(producer_id: int, end: int) -> Iterable[BatchHeader]:
        asked.append((producer_id, end))
        return [one._replace(base_offset=100 + number) for number, one in enumerate(headers[:5])]

    assert producers.check(headers[6], recall) is not None
    assert asked == []
    assert producers.check(headers[3], recall) == WrittenBatch(3, 3, 103, 103, NOW_MS)
    with pytest.raises(KafkaError):
        producers.check(headers[2], recall)
    assert asked == [(7, 104)]
    assert [one.first_sequence for one in producers.by_id[7].batches] == [3, 4, 5, 6, 7]


@given(st.binary(max_size=60), st.integers(0, 60))
@settings(max_examples=100)
def test_damaged_snapshots_are_refused(noise: bytes, position: int) -> None:
    whole = written(header(0)).to_snapshot()
    damaged = whole[:position] + noise
    if damaged == whole:
        return
    with pytest.raises(BadFile):
        Producers.from_snapshot(damaged)
