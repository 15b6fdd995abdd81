"""Fetch of versions that have to be given something else than what is stored."""

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from crc32c import crc32c

from headgate.gateway.api.conversion import BYTES_PER_ROW
from headgate.gateway.api.fetch.plan import DISK_DEADLINE_MS
from headgate.gateway.api.fetch.tests.fetches import (
    NOW_MS,
    RECORDS,
    from_offset,
    old,
    put,
    request,
    rows,
    wanted,
)
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import HandlerBroker, parked, records, start
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import control, legacy
from headgate.protocol.records.batch import Record, build, check_crc, iterate, split
from headgate.protocol.records.control import Marker
from headgate.storage.log.validation import BROKER
from headgate.storage.segment.file_slice import FileSlice
from headgate.storage.tests.builders import no_checkpoint
from headgate.storage.tests.truncating import truncate_to

OLD = range(4)


def as_read(records: Any, magic: int) -> list[Record]:
    """The records of a message set; nothing but messages of this magic may be in it."""
    data, position = bytes(records), 0
    while position < len(data):
        assert data[position + 16] == magic
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return list(legacy.iterate(data))


def expected(magic: int, records: Iterable[Record] = RECORDS) -> list[Record]:
    return [record._replace(headers=[], timestamp=record.timestamp if magic else -1) for record in records]


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("codec", range(5))
def test_old_versions_get_message_sets(node: HandlerBroker, version: int, codec: int) -> None:
    node.services.metadata.create_topic("t", 1)
    put(node, codec=codec)
    end = put(node, codec=codec)
    magic = 0 if version < 2 else 1
    response = node.ask(request(wanted(node, "t", version, from_offset(0))), version)
    (row,) = rows(response)
    assert (row.error_code, row.high_watermark) == (0, end)
    again = [record._replace(offset=record.offset + 3) for record in RECORDS]
    assert as_read(row.records, magic) == expected(magic, [*RECORDS, *again])


@pytest.mark.parametrize("version", OLD)
def test_old_versions_may_begin_within_a_batch(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 1)
    put(node)
    magic = 0 if version < 2 else 1
    (row,) = rows(old(node, version, from_offset(1)))
    assert as_read(row.records, magic) == expected(magic, RECORDS[1:])
    assert old(node, version, from_offset(3), max_wait_ms=0).responses[0].partitions[0].records == b""


EMPTY = Record(-1, NOW_MS, None, b"")  # as a message three times as large as in a batch


@pytest.mark.parametrize("version", OLD)
def test_whole_messages_are_sent_within_the_limits(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 2)
    for index in (0, 1):
        put(node, *[EMPTY] * 100, index=index)
    size = 26 if version < 2 else 34
    both = rows(old(node, version, from_offset(0, max_bytes=40 * size + 20), from_offset(0, 1, max_bytes=60 * size)))
    assert sorted(len(row.records) for row in both) == [40 * size, 60 * size]


@pytest.mark.parametrize("version", OLD)
def test_a_message_above_the_limit_is_whole_from_version_3_on(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 2)
    for index in (0, 1):
        put(node, Record(-1, NOW_MS, None, bytes(1_000)), index=index)
    both = rows(old(node, version, from_offset(0, max_bytes=500), from_offset(0, 1, max_bytes=500)))
    assert [len(row.records) for row in both] == ([500, 500] if version < 3 else [1_034, 0])


def test_the_limit_of_version_3_holds_for_all_partitions_together(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 3)
    for index in (0, 1, 2):
        put(node, *[EMPTY] * 10, index=index)
    everywhere = [from_offset(0, index) for index in (0, 1, 2)]
    assert [len(row.records) for row in rows(old(node, 3, *everywhere, max_bytes=510))] == [340, 170, 0]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_each_time_another_partition_comes_first_before_version_3(node: HandlerBroker, version: int) -> None:
    """These clients do not take turns: the last would starve behind the first."""
    node.services.metadata.create_topic("t", 3)
    for index in (0, 1, 2):
        put(node, *[Record(-1, NOW_MS, None, bytes(700_000))], index=index)
    everywhere = [from_offset(0, index) for index in (0, 1, 2)]
    served = set()
    for _ in range(40):
        found = [row.partition_index for row in rows(old(node, version, *everywhere)) if row.records]
        assert len(found) == 2, "about a megabyte is converted for one answer"
        served |= set(found)
    assert served == {0, 1, 2}


@pytest.mark.parametrize("version", OLD)
def test_while_others_wait_for_their_conversions_less_is_converted(
    node: HandlerBroker, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.services.metadata.create_topic("t", 1)
    for _ in range(10):
        put(node, Record(-1, NOW_MS, None, bytes(100_000)))
    thread, replies = node.time.scheduler.hold_slices(), list[Any]()
    for _ in range(20):
        node.services.tasks.start(old(node, version, from_offset(0)), replies.append)
    assert len(thread.waiting) == 1, "one runs"
    while len(thread.waiting):
        thread.run_one()
    size = 100_026 if version < 2 else 100_034
    counts = [len(rows(reply)[0].records) // size for reply in replies]
    assert counts == [10, 10, 5, 3, 2, 2, *[1] * 14]


def end_transaction(node: HandlerBroker) -> int:
    """Append a marker, as a coordinator does; the offset behind it."""
    made = control.build(Marker(True, 0), producer_id=7, producer_epoch=0, timestamp=NOW_MS)
    return node.services.partitions.get("t", 0).append(memoryview(made), 1, NOW_MS, BROKER).last_offset + 1


@pytest.mark.parametrize("version", OLD)
def test_what_old_versions_cannot_see_is_passed_over(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 1)
    end_transaction(node)
    put(node, Record(-1, NOW_MS, None, b"seen"))
    end_transaction(node)
    (row,) = rows(old(node, version, from_offset(0, max_bytes=10)))
    assert len(row.records) == (10 if version < 3 else 38)
    (row,) = rows(old(node, version, from_offset(0)))
    assert [record.offset for record in as_read(row.records, 0 if version < 2 else 1)] == [1]


@pytest.mark.parametrize("version", OLD)
def test_behind_a_last_marker_an_old_version_waits_as_at_the_end(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 1)
    end_transaction(node)
    replies = parked(node, old(node, version, from_offset(0), max_wait_ms=500))
    node.time.advance(300)
    end_transaction(node)
    node.time.advance(100)
    assert replies == []
    put(node, Record(-1, NOW_MS, None, b"seen"))
    node.time.advance()
    (row,) = rows(replies[0])
    assert [record.offset for record in as_read(row.records, 0 if version < 2 else 1)] == [2]


@pytest.mark.parametrize("version", OLD)
def test_behind_a_last_marker_an_old_version_waits_as_it_asked(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 1)
    end_transaction(node)
    replies = parked(node, old(node, version, from_offset(0), max_wait_ms=500))
    node.time.advance(300)
    end_transaction(node)
    node.time.advance(199)
    assert replies == []
    node.time.advance(1)
    assert [row.records for row in rows(replies[0])] == [b""]


@pytest.mark.parametrize("version", OLD)
def test_what_takes_long_is_converted_by_a_thread(
    node: HandlerBroker, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.services.metadata.create_topic("t", 1)
    put(node, codec=1)
    thread, replies = node.time.scheduler.hold_slices(), list[Any]()
    waiting = old(node, version, from_offset(0), max_wait_ms=500)
    assert is_task(waiting)
    node.services.tasks.start(waiting, replies.append)
    node.time.advance(1_000)
    assert replies == []
    thread.run_one()
    (row,) = rows(replies[0])
    magic = 0 if version < 2 else 1
    assert as_read(row.records, magic) == expected(magic)
    assert len(thread.waiting) == 0


@pytest.mark.parametrize("version, most", [(0, 7), (3, 7), (4, 27), (9, 27)])
def test_only_so_much_is_converted_at_once_in_a_turn(
    node: HandlerBroker, version: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.services.metadata.create_topic("t", 30)
    for index in range(30):
        partition = node.services.partitions.get("t", index)
        partition.append(records(bytes(9_900)), 1, NOW_MS)
    thread = node.time.scheduler.hold_slices()
    asked = [old(node, version, from_offset(0, index)) for index in range(30)]
    assert [is_task(one) for one in asked] == [False] * most + [True] * (30 - most)
    assert len(thread.waiting) == 1


def test_who_waits_for_records_waits_for_their_conversion_too(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.services.metadata.create_topic("t", 1)
    thread, replies = node.time.scheduler.hold_slices(), list[Any]()
    node.services.tasks.start(old(node, 2, from_offset(0), max_wait_ms=500), replies.append)
    end_transaction(node)
    node.time.advance()
    put(node, codec=1)
    node.time.advance()
    assert replies == []
    while len(thread.waiting):
        thread.run_one()
    (row,) = rows(replies[0])
    assert [record.offset for record in as_read(row.records, 1)] == [1, 2, 3]
    assert len(node.services.tasks) == 0


def test_a_conversion_that_nobody_waits_for_any_more_is_not_begun(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.services.metadata.create_topic("t", 1)
    put(node, codec=1)
    thread = node.time.scheduler.hold_slices()
    waitings = [old(node, 0, from_offset(0)) for _ in range(3)]
    running = [start(node, waiting) for waiting in waitings]
    for one in running[:2]:
        one.cancel()
    assert len(thread.waiting) == 1
    assert node.services.conversions.waiting_bytes == 3 * BYTES_PER_ROW
    thread.run_one()
    thread.run_one()
    assert len(thread.waiting) == 0
    assert len(node.services.tasks) == 0


def test_a_conversion_that_never_ends_is_told_as_an_error(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    node.services.metadata.create_topic("t", 1)
    put(node, codec=1)
    node.time.scheduler.hold_slices()
    replies = parked(node, old(node, 0, from_offset(0)))
    node.time.advance(DISK_DEADLINE_MS)
    assert isinstance(replies[0], KafkaError)
    assert replies[0].code == ErrorCode.REQUEST_TIMED_OUT


def test_a_fault_of_a_conversion_is_told(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    node.services.metadata.create_topic("t", 1)
    put(node, codec=1)
    thread, replies = node.time.scheduler.hold_slices(), list[Any]()
    node.services.tasks.start(old(node, 0, from_offset(0)), replies.append)
    thread.run_one(ZeroDivisionError("ours"))
    assert isinstance(replies[0], ZeroDivisionError)


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("version", OLD)
def test_records_that_cannot_be_read_are_an_error_of_their_partition(
    node: HandlerBroker, version: int, codec: int
) -> None:
    """The same error, whether they cannot be unpacked or are no records."""
    node.services.metadata.create_topic("t", 2)
    damaged = bytearray(build(RECORDS, compression=codec))
    first = 61 if not codec else 71  # a produce checks the first bytes of a codec's stream
    damaged[first:] = b"\xff" * (len(damaged) - first)
    damaged[17:21] = crc32c(damaged[21:]).to_bytes(4, "big")
    node.services.partitions.get("t", 0).append(memoryview(damaged), 1, NOW_MS)
    put(node, index=1)
    found = {row.partition_index: row for row in rows(old(node, version, from_offset(0), from_offset(0, 1)))}
    assert (found[0].error_code, found[0].records) == (ErrorCode.CORRUPT_MESSAGE, b"")
    assert found[1].error_code == 0
    assert len(as_read(found[1].records, 0 if version < 2 else 1)) == 3


@pytest.mark.parametrize("version", range(10))
def test_a_disk_failure_in_a_conversion_is_told_as_the_version_can(
    node: HandlerBroker, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    node.services.metadata.create_topic("t", 1)
    put(node, codec=4)
    monkeypatch.setattr(FileSlice, "read_cached", fail)
    (row,) = rows(old(node, version, from_offset(0)))
    known = ErrorCode.NOT_LEADER_OR_FOLLOWER if version < 6 else ErrorCode.KAFKA_STORAGE_ERROR
    assert (row.error_code, row.records) == (known, b"")


@pytest.mark.parametrize("version", range(4, 10))
def test_a_version_that_does_not_know_zstd_gets_gzip(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 1)
    put(node, codec=4)
    put(node, codec=3)
    put(node, codec=4)
    (row,) = rows(old(node, version, from_offset(0)))
    assert [(header.base_offset, header.compression) for header, _ in split(row.records)] == [(0, 1), (3, 3), (6, 1)]
    assert all(check_crc(part) for _, part in split(row.records))
    found = [record for _, part in split(row.records) for record in iterate(part)]
    assert [record.offset for record in found] == list(range(9))
    assert found[:3] == RECORDS


@pytest.mark.parametrize("version", [4, 9])
def test_what_stands_before_zstd_is_sent_as_it_is(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 1)
    put(node, codec=3)
    put(node)
    put(node, codec=4)
    (row,) = rows(old(node, version, from_offset(0)))
    assert isinstance(row.records, FileSlice)
    assert [header.base_offset for header, _ in split(row.records.read())] == [0, 3]
    row.records.release()


@pytest.mark.parametrize("version", [10, 18])
def test_a_version_that_knows_zstd_gets_it(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 1)
    put(node, codec=4)
    (row,) = rows(old(node, version, from_offset(0)))
    assert isinstance(row.records, FileSlice)
    assert [header.compression for header, _ in split(row.records.read())] == [4]
    row.records.release()


def test_what_was_looked_through_is_not_looked_through_again(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.services.metadata.create_topic("t", 1)
    for _ in range(10):
        put(node)
    looked: list[int] = []
    read_cached = FileSlice.read_cached

    def read(piece: FileSlice, start: int, length: int) -> Any:
        looked.append(start)
        return read_cached(piece, start, length)

    monkeypatch.setattr(FileSlice, "read_cached", read)

    def fetched(offset: int) -> list[int]:
        (row,) = rows(old(node, 4, from_offset(offset)))
        data = row.records.read() if isinstance(row.records, FileSlice) else row.records
        return [header.compression for header, _ in split(data)]

    assert fetched(0) == [0] * 10
    first, looked[:] = len(looked), []
    assert first
    assert fetched(0) == [0] * 10
    assert fetched(12) == [0] * 6
    assert looked == []
    put(node, codec=4)
    assert fetched(12) == [0] * 6
    assert len(looked) == 1
    assert fetched(30) == [1]
    put(node, codec=0)
    assert fetched(33) == [0]
    assert fetched(30) == [1, 0]
    assert fetched(0) == [0] * 10


def test_what_was_looked_through_is_forgotten_where_it_is_cut(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    put(node)
    put(node)
    assert isinstance(rows(old(node, 4, from_offset(0)))[0].records, FileSlice)
    replica = node.services.partitions.get("t", 0)
    truncate_to(replica.log, 3, no_checkpoint)
    replica.advance_high_watermark()
    put(node, codec=4)
    (row,) = rows(old(node, 4, from_offset(3)))
    assert [header.compression for header, _ in split(row.records)] == [1]


def read_all(node: HandlerBroker, version: int, limit: int, end: int) -> list[Record]:
    """What a consumer reads that asks for what comes next, takes what is whole, and asks for more if nothing is."""
    found: list[Record] = []
    offset = 0
    for _ in range(10_000):
        if offset >= end:
            return found
        (row,) = rows(old(node, version, from_offset(offset, max_bytes=limit)))
        assert row.error_code == 0
        data = row.records.read() if isinstance(row.records, FileSlice) else bytes(row.records)
        assert version > 2 or len(data) <= limit
        new = [record for record in legacy.iterate(whole(data)) if record.offset >= offset]
        if new:
            found += new
            offset = new[-1].offset + 1
        else:
            assert data, "there is something, and nothing came"
            limit *= 2
    raise AssertionError(f"it stands still at offset {offset} of {end}")


def whole(data: bytes) -> bytes:
    """Messages, or batches, but for the last one if it is cut."""
    end = 0
    while end + 12 <= len(data):
        size = 12 + int.from_bytes(data[end + 8 : end + 12], "big")
        if end + size > len(data):
            break
        end += size
    return data[:end]


def some_records(random: Random, base_offset: int) -> list[Record]:
    lengths = random.choices((0, 1, 30, 700), weights=(3, 5, 5, 1), k=random.randrange(1, 12))
    return [
        Record(base_offset + number, NOW_MS + number, random.choice((None, b"key")), random.randbytes(length), [])
        for number, length in enumerate(lengths)
    ]


@pytest.mark.parametrize("version", [*OLD, 4, 9])
@pytest.mark.parametrize("limit", [1, 40, 333, 5_000, 1 << 20])
def test_whoever_reads_on_gets_every_record_once_whatever_his_limit(
    node: HandlerBroker, version: int, limit: int
) -> None:
    node.services.metadata.create_topic("t", 1, configs={"segment.bytes": "3000"})
    random, written, markers, end = Random(version * 1_000 + limit), list[Record](), set[int](), 0
    for number in range(25):
        if number % 7 == 5:
            markers.add(end)
            end = end_transaction(node)
        else:
            some = some_records(random, end)
            written += some
            end = put(node, *[record._replace(offset=-1) for record in some], codec=random.randrange(5))
    found = read_all(node, version, limit, written[-1].offset + 1)
    if version < 4:
        assert found == expected(0 if version < 2 else 1, written)
    else:
        assert [record for record in found if record.offset not in markers] == written


# What is stored in an old format itself


STORED = [record._replace(headers=[]) for record in RECORDS]


def adopted(directory: Path, magic: int, codec: int) -> HandlerBroker:
    """A node whose topic t begins with messages, as Apache Kafka left them; one batch comes behind them."""
    again = [record._replace(offset=record.offset + 3) for record in STORED]
    sets = [legacy.build(records, magic, codec=codec) for records in (STORED, again)]
    node = adopted_segments(directory, {0: b"".join(sets)})
    put(node)
    return node


def adopted_segments(directory: Path, segments: dict[int, bytes]) -> HandlerBroker:
    """A node whose topic t has these segments, by the offsets where they begin, and nothing else."""
    node = HandlerBroker(directory)
    node.services.metadata.create_topic("t", 1)
    node.close()
    (directory / "t-0" / "leader-epoch-checkpoint").unlink(missing_ok=True)
    (directory / ".kafka_cleanshutdown").unlink()
    for base_offset, data in segments.items():
        (directory / "t-0" / f"{base_offset:020d}.log").write_bytes(data)
    return HandlerBroker(directory)


def stored_as(magic: int) -> list[Record]:
    """What a reader of today gets of the topic t of `adopted`."""
    old_ones = [*STORED, *(record._replace(offset=record.offset + 3) for record in STORED)]
    plain = [record if magic else record._replace(timestamp=-1) for record in old_ones]
    return [*plain, *(record._replace(offset=record.offset + 6) for record in RECORDS)]


@pytest.mark.parametrize("codec", [0, 1, 2, 3])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("version", [4, 9, 10, 12, 18])
def test_stored_messages_come_as_batches(tmp_path: Path, version: int, magic: int, codec: int) -> None:
    node = adopted(tmp_path, magic, codec)
    found: list[Record] = []
    while len(found) < 9:
        offset = found[-1].offset + 1 if found else 0
        (row,) = rows(node.ask(request(wanted(node, "t", version, from_offset(offset))), version))
        assert (row.error_code, row.high_watermark) == (0, 9)
        for header, view in split(row.records):
            assert header.magic == 2
            assert check_crc(view)
            found += [record for record in iterate(view) if record.offset >= offset]
    assert found == stored_as(magic)
    node.close()


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("magic", [0, 1])
def test_stored_messages_come_as_messages_of_their_reader(tmp_path: Path, version: int, magic: int) -> None:
    node = adopted(tmp_path, magic, 0)
    wanted_magic = 0 if version < 2 else 1
    (row,) = rows(node.ask(request(wanted(node, "t", version, from_offset(0))), version))
    found = list(legacy.iterate(row.records))
    assert {bytes(row.records)[16]} == {min(magic, wanted_magic)}
    assert [(record.offset, record.key, record.value) for record in found] == [
        (record.offset, record.key, record.value) for record in stored_as(magic)
    ]
    node.close()


@pytest.mark.parametrize("version", [4, 12])
def test_a_stored_message_that_is_damaged_is_told(tmp_path: Path, version: int) -> None:
    node = adopted(tmp_path, 1, 0)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    with path.open("r+b") as file:
        file.seek(20)
        file.write(b"\xff")
    (row,) = rows(node.ask(request(wanted(node, "t", version, from_offset(0))), version))
    assert row.error_code == ErrorCode.CORRUPT_MESSAGE
    node.close()


def test_with_stored_messages_other_topics_are_sent_as_pieces(tmp_path: Path) -> None:
    node = adopted(tmp_path, 1, 0)
    node.services.metadata.create_topic("u", 1)
    put(node, name="u")
    both = request(wanted(node, "t", 12, from_offset(0)), wanted(node, "u", 12, from_offset(0)))
    first, second = rows(node.handle(both, 12))
    assert isinstance(first.records, bytearray)
    assert isinstance(second.records, FileSlice)
    second.records.release()
    node.close()


def test_few_bytes_of_stored_messages_are_converted_at_once(tmp_path: Path) -> None:
    """The first message or wrapper comes whole."""
    node = adopted(tmp_path, 1, 1)
    (row,) = rows(node.ask(request(wanted(node, "t", 12, from_offset(0, max_bytes=1)), max_bytes=1), 12))
    assert list(iterate(row.records)) == STORED
    node.close()


@pytest.mark.parametrize("version", [*OLD, 4, 9, 12])
@pytest.mark.parametrize("limit", [1, 333, 1 << 20])
def test_whoever_reads_on_gets_every_stored_message_once(tmp_path: Path, version: int, limit: int) -> None:
    """In segments of all formats, plain and compressed, with batches behind them."""
    random, written, segments = Random(version * 1_000 + limit), list[Record](), dict[int, bytes]()
    for _ in range(3):
        base_offset, data = len(written), b""
        for _ in range(8):
            magic, codec = random.randrange(2), random.randrange(4)
            some = some_records(random, len(written))
            data += legacy.build(some, magic, codec=codec)
            written += some if magic else [record._replace(timestamp=-1) for record in some]
        segments[base_offset] = data
    node = adopted_segments(tmp_path, segments)
    for _ in range(5):
        some = some_records(random, len(written))
        put(node, *[record._replace(offset=-1) for record in some], codec=random.randrange(5))
        written += some
    found = read_all(node, version, limit, len(written))
    assert found == (written if version > 1 else [record._replace(timestamp=-1) for record in written])
    node.close()
