"""What a leader checks: here what `test_log` does not reach."""

from __future__ import annotations

from typing import Any

import lz4.frame
import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import control
from headgate.protocol.records.batch import (
    HEADER_SIZE,
    Record,
    assemble,
    build,
    check_crc,
    iterate,
    read_header,
    with_records,
)
from headgate.protocol.records.compression import LZ4, compress
from headgate.protocol.steps import finish
from headgate.storage.config import LogConfig
from headgate.storage.log import validation
from headgate.storage.log.validation import BROKER, CLIENT, CONVERTED, HEADER, RECORDS, BatchOrigin, Depth
from headgate.storage.tests.builders import NOW_MS, batch

HOUR_MS = 3_600_000


def refusal(data: memoryview, config: LogConfig, depth: Depth = HEADER, origin: BatchOrigin = CLIENT) -> ErrorCode:
    try:
        validation.prepare(data, config, NOW_MS, depth, origin)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.parametrize(
    "timestamp,settings,code",
    [
        (NOW_MS + HOUR_MS, {}, ErrorCode.NONE),
        (NOW_MS + HOUR_MS + 1, {}, ErrorCode.INVALID_TIMESTAMP),
        (NOW_MS + HOUR_MS + 1, {"message_timestamp_type": "LogAppendTime"}, ErrorCode.NONE),
        (0, {}, ErrorCode.NONE),
        (-1, {"message_timestamp_before_max_ms": 5}, ErrorCode.NONE),
        (NOW_MS - 6, {"message_timestamp_before_max_ms": 5}, ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_times(timestamp: int, settings: dict[str, Any], code: ErrorCode) -> None:
    assert refusal(batch(timestamp=timestamp), LogConfig(**settings)) is code


def test_the_times_of_all_records_are_looked_at_only_in_full() -> None:
    config = LogConfig(message_timestamp_before_max_ms=5)
    data = memoryview(build([Record(timestamp=NOW_MS), Record(timestamp=NOW_MS - 6)]))
    assert refusal(data, config) is ErrorCode.NONE
    assert refusal(data, config, RECORDS) is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_from_a_client() -> None:
    """As Kafka has it: it is CreateTime after all, and refused where the broker sets times."""
    data = batch(2, log_append_time_ms=NOW_MS)
    code, sentence, records = told(data, LogConfig(message_timestamp_type="LogAppendTime"), HEADER)
    assert (code, records) == (ErrorCode.INVALID_TIMESTAMP, [0, 1])
    assert sentence == "a producer cannot send timestamp type LogAppendTime"
    stored = validation.prepare(data, LogConfig(), NOW_MS)
    assert not read_header(stored).is_log_append_time
    assert check_crc(stored)


def test_recompression_leaves_what_is_right_alone() -> None:
    config = LogConfig(compression_type="gzip")
    data = batch(3, compression=1)
    assert validation.prepare(data, config, NOW_MS) is data
    plain = batch(3)
    packed = validation.prepare(plain, config, NOW_MS)
    assert read_header(packed).compression == 1
    assert list(iterate(packed)) == list(iterate(plain))


def told(data: memoryview, config: LogConfig, depth: Depth = RECORDS) -> tuple[ErrorCode, str, list[int]]:
    """How a batch is refused: code, sentence, and which records."""
    with pytest.raises(KafkaError) as caught:
        finish(validation.prepare_steps(data, config, NOW_MS, depth))
    return caught.value.code, caught.value.message, [number for number, _ in caught.value.record_errors]


@pytest.mark.parametrize("codec", range(5))
def test_each_refused_record_is_told(codec: int) -> None:
    config = LogConfig(cleanup_policy=("compact",), message_timestamp_before_max_ms=5)
    keyless = [Record(timestamp=NOW_MS, key=key) for key in (None, b"k", None, None, None)]
    assert told(memoryview(build(keyless, compression=codec)), config, HEADER) == (
        ErrorCode.INVALID_RECORD,
        "4 records are refused: "
        + "; ".join([f"record {n}: it has no key; every record of a compacted topic needs one" for n in (0, 2, 3)]),
        [0, 2, 3, 4],
    )
    late = memoryview(build([*keyless[:1], Record(timestamp=NOW_MS - 6, key=b"k")], compression=codec))
    code, _, records = told(late, config)
    assert (code, records) == (ErrorCode.INVALID_TIMESTAMP, [0, 1])
    late = memoryview(build([Record(timestamp=NOW_MS - 6)], compression=codec))  # one thing of each is told
    assert told(late, config)[0] is ErrorCode.INVALID_RECORD


def test_what_the_header_says_of_times_is_told_of_records() -> None:
    config = LogConfig(message_timestamp_before_max_ms=5)
    times = [NOW_MS, NOW_MS + HOUR_MS + 1, NOW_MS + HOUR_MS, -1, NOW_MS + HOUR_MS + 2]
    data = build([Record(timestamp=time) for time in times], compression=1)
    assert told(memoryview(data), config, HEADER)[::2] == (ErrorCode.INVALID_TIMESTAMP, [1, 4])


def claim(base: int, claimed: int, *times: int, codec: int = 0) -> memoryview:
    """A batch whose header claims a maximum timestamp, whatever the times of its records are."""
    plain = build([Record(timestamp=time, key=b"k") for time in (base, *times)])
    header = read_header(plain)
    content = compress(codec, plain[HEADER_SIZE:])
    return memoryview(assemble(0, codec, header.last_offset_delta, base, claimed, header.records_count, content))


def test_no_record_is_read_for_a_time_that_the_header_tells() -> None:
    late = build([Record(timestamp=NOW_MS + HOUR_MS + 1)])
    broken = memoryview(assemble(0, 1, 0, NOW_MS, NOW_MS + HOUR_MS + 1, 1, b"\x1f\x8b\x08 damaged"))
    for data in (memoryview(late), broken):
        with pytest.raises(KafkaError) as caught:
            validation.prepare(data, LogConfig(), NOW_MS)
        assert (caught.value.code, tuple(caught.value.record_errors)) == (ErrorCode.INVALID_TIMESTAMP, ())


def test_one_refused_record_is_told_in_the_singular() -> None:
    config = LogConfig(message_timestamp_before_max_ms=5)
    data = memoryview(build([Record(timestamp=NOW_MS), Record(timestamp=NOW_MS - 6)]))
    times = f"its timestamp {NOW_MS - 6} is not between {NOW_MS - 5} and {NOW_MS + HOUR_MS}"
    assert told(data, config)[1] == f"one record is refused: record 1: {times}"


def test_times_do_not_matter_where_the_broker_sets_them() -> None:
    data = memoryview(build([Record(timestamp=NOW_MS), Record(timestamp=NOW_MS - 6)]))
    config = LogConfig(message_timestamp_before_max_ms=5, message_timestamp_type="LogAppendTime")
    assert refusal(data, config, RECORDS) is ErrorCode.NONE


def test_an_lz4_frame_that_java_could_not_read_is_refused_in_full() -> None:
    sound = build([Record(timestamp=NOW_MS, value=b"v")], compression=LZ4)
    header = read_header(sound)
    two_frames = sound[HEADER_SIZE:] + compress(LZ4, b"")
    data = memoryview(assemble(0, LZ4, 0, header.base_timestamp, header.max_timestamp, 1, two_frames))
    assert refusal(data, LogConfig()) is ErrorCode.NONE
    code, sentence, _ = told(data, LogConfig())
    assert code is ErrorCode.INVALID_RECORD
    assert "bytes follow its first frame" in sentence


def test_what_becomes_too_large_in_another_codec_is_refused() -> None:
    data = batch(1, size=5000, compression=4)
    assert refusal(data, LogConfig(max_message_bytes=1000)) is ErrorCode.NONE
    config = LogConfig(max_message_bytes=1000, compression_type="uncompressed")
    assert refusal(data, config) is ErrorCode.MESSAGE_TOO_LARGE


def test_only_batches_in_another_codec_are_made_anew() -> None:
    parts = [build([Record(timestamp=NOW_MS, value=b"v")], compression=codec) for codec in range(5)]
    config = LogConfig(compression_type="zstd")
    data = memoryview(bytearray().join(parts))
    view = finish(validation.prepare_steps(data, config, NOW_MS, HEADER, CONVERTED))
    batches = validation.stored(view, config, NOW_MS)
    assert [header.compression for header, _ in batches] == [4] * 5
    assert view.tobytes().endswith(parts[4])
    assert [one.value for _, part in batches for one in iterate(part)] == [b"v"] * 5


@pytest.mark.parametrize("codec", range(5))
def test_a_client_sends_one_batch(codec: int) -> None:
    part = build([Record(timestamp=NOW_MS, key=b"k")], compression=codec)
    for config in (LogConfig(), LogConfig(compression_type="gzip"), LogConfig(cleanup_policy=("compact",))):
        assert refusal(memoryview(bytearray(part)), config) is ErrorCode.NONE
        assert refusal(memoryview(part * 2), config) is ErrorCode.INVALID_RECORD
        assert refusal(memoryview(part * 2), config, origin=BROKER) is ErrorCode.NONE
        assert refusal(memoryview(part * 2)[:-1], config) is ErrorCode.CORRUPT_MESSAGE


def test_the_time_of_the_append_is_set_last() -> None:
    config = LogConfig(message_timestamp_type="LogAppendTime", compression_type="gzip")
    data = batch(2)
    view = validation.prepare(data, config, NOW_MS)
    assert not read_header(view).is_log_append_time
    batches = validation.stored(view, config, NOW_MS)
    assert [(header.is_log_append_time, header.max_timestamp) for header, _ in batches] == [(True, NOW_MS)]
    assert check_crc(batches[0][1])


def test_an_lz4_frame_is_not_looked_at_in_the_first_slice() -> None:
    """It may have a block for each byte; and the first slice is done on the loop."""
    data = memoryview(assemble(0, LZ4, 0, NOW_MS, NOW_MS, 1, compress(LZ4, b"no record")[:-4]))
    steps = validation.prepare_steps(data, LogConfig(), NOW_MS, RECORDS)
    next(steps)
    with pytest.raises(KafkaError, match="its frame has no end"):
        next(steps)


def test_long_work_comes_in_slices() -> None:
    """The first slice of what is short and plain is all; a codec is never called in the first."""
    few, many = [Record(timestamp=NOW_MS)] * 3, [Record(timestamp=NOW_MS, value=bytes(100))] * 2000

    def slices(records: list[Record], codec: int, **settings: Any) -> int:
        config = LogConfig(max_message_bytes=1 << 20, **settings)
        data = memoryview(build(records, compression=codec))
        return len(list(validation.prepare_steps(data, config, NOW_MS, RECORDS)))

    assert slices(few, 0) == 0
    assert slices(many, 0) > 10
    assert slices(few, 4) == 1
    assert slices(few, LZ4) == 1
    assert slices(few, 4, compression_type="gzip") == 2  # it is decompressed once
    assert slices(few, 4, compression_type="zstd") == 1


def test_a_coordinators_batch_is_one_of_a_transaction() -> None:
    records = [Record(timestamp=NOW_MS, key=b"k", value=b"v")]
    own = build(records, producer_id=1, producer_epoch=0, is_transactional=True)
    marker = control.build(control.Marker(True, 3), producer_id=1, producer_epoch=0, timestamp=NOW_MS)
    for made in (own, marker):
        assert validation.transaction_batch(memoryview(made), LogConfig()) == read_header(made)
        assert validation.transaction_batch(memoryview(made), LogConfig(message_timestamp_type="LogAppendTime")) is None
        assert validation.transaction_batch(memoryview(made + made), LogConfig()) is None
        for position in (16, 20, 21, len(made) - 1):
            damaged = bytearray(made)
            damaged[position] ^= 0x80
            assert validation.transaction_batch(memoryview(damaged), LogConfig()) is None
    assert validation.transaction_batch(memoryview(build(records)), LogConfig()) is None
    assert validation.transaction_batch(memoryview(build(records, is_transactional=True)), LogConfig()) is None


def test_what_the_broker_has_just_made_is_one_batch_that_is_stored_unchanged() -> None:
    made = build([Record(timestamp=NOW_MS, key=b"k", value=b"v")])
    exact, less = (LogConfig(max_message_bytes=size) for size in (len(made), len(made) - 1))
    assert validation.fresh_batch(memoryview(made), exact) == read_header(made)
    assert validation.fresh_batch(memoryview(made), less) is None
    assert validation.fresh_batch(memoryview(made + made), LogConfig()) is None
    assert validation.fresh_batch(memoryview(made), LogConfig(message_timestamp_type="LogAppendTime")) is None


def stored_maximum(data: memoryview, config: LogConfig, depth: Depth = HEADER) -> int:
    """The maximum timestamp that a leader stores for a client's batch."""
    made = finish(validation.prepare_steps(data, config, NOW_MS, depth))
    assert check_crc(made)
    return read_header(made).max_timestamp


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("claimed", [-1, NOW_MS - 1, NOW_MS + 2 * HOUR_MS, 0])
def test_records_decide_where_the_header_cannot_be_right(claimed: int, codec: int) -> None:
    """Apache Kafka 3.9 and 4.1 read every record, and store NOW_MS + 7."""
    data = claim(NOW_MS, claimed, NOW_MS + 7, NOW_MS + 3, codec=codec)
    config = LogConfig(message_timestamp_before_max_ms=2 * HOUR_MS)
    assert validation.sound_batch(data, config, NOW_MS) is None
    assert stored_maximum(data, config) == NOW_MS + 7


@pytest.mark.parametrize("claimed", [-1, NOW_MS, NOW_MS + HOUR_MS])
@pytest.mark.parametrize(
    "codec,depth,settings",
    [
        (0, RECORDS, {}),
        (LZ4, RECORDS, {}),
        (0, HEADER, {"cleanup_policy": ("compact",)}),
        (LZ4, HEADER, {"cleanup_policy": ("compact",)}),
        (0, HEADER, {"compression_type": "zstd"}),
        (LZ4, HEADER, {"compression_type": "zstd"}),
        (LZ4, HEADER, {"compression_type": "uncompressed"}),
    ],
)
def test_the_maximum_is_that_of_the_records_if_read(
    codec: int, depth: Depth, settings: dict[str, Any], claimed: int
) -> None:
    data = claim(NOW_MS, claimed, NOW_MS + 7, NOW_MS + 3, codec=codec)
    records = list(iterate(data))
    made = finish(validation.prepare_steps(data, LogConfig(**settings), NOW_MS, depth))
    assert (read_header(made).max_timestamp, check_crc(made)) == (NOW_MS + 7, True)
    assert list(iterate(made)) == records


def test_a_sound_maximum_stays_whatever_reads_it() -> None:
    data = claim(NOW_MS, NOW_MS + 7, NOW_MS + 7, NOW_MS + 3)
    before = bytes(data)
    assert validation.sound_batch(data, LogConfig(), NOW_MS) == read_header(data)
    assert finish(validation.prepare_steps(data, LogConfig(), NOW_MS, RECORDS)) is data
    assert data == before


def test_records_without_a_time_have_no_maximum() -> None:
    """The base is a time, and all deltas lead to -1: such a header is right."""
    assert stored_maximum(claim(-1, -1, -1), LogConfig(message_timestamp_before_max_ms=5)) == -1
    body = build([Record(timestamp=NOW_MS, key=b"k"), Record(timestamp=-1, key=b"k")])[HEADER_SIZE:]
    assert stored_maximum(memoryview(assemble(0, 0, 1, NOW_MS, -1, 2, body)), LogConfig()) == NOW_MS


@pytest.mark.parametrize("claimed", [-1, NOW_MS - 1])
def test_a_late_record_is_refused_whatever_the_header_says(claimed: int) -> None:
    ten_days_ms = 10 * 24 * HOUR_MS
    data = claim(NOW_MS, claimed, NOW_MS + 1, NOW_MS + ten_days_ms, NOW_MS - 1)
    assert told(data, LogConfig(), HEADER)[::2] == (ErrorCode.INVALID_TIMESTAMP, [2])


def test_the_loop_reads_no_records_for_a_doubtful_time() -> None:
    for claimed in (-1, NOW_MS + HOUR_MS + 1):
        with pytest.raises(KafkaError) as caught:
            validation.prepare(claim(NOW_MS, claimed, NOW_MS + 7), LogConfig(), NOW_MS)
        assert (caught.value.code, tuple(caught.value.record_errors)) == (ErrorCode.INVALID_TIMESTAMP, ())


def test_times_are_not_read_where_the_broker_sets_them() -> None:
    config = LogConfig(message_timestamp_type="LogAppendTime")
    data = claim(NOW_MS, -1, NOW_MS + 7)
    broken = memoryview(assemble(0, 0, 0, NOW_MS, -1, 1, b"no record"))
    for one in (data, broken):
        validation.stored(validation.prepare(one, config, NOW_MS), config, NOW_MS)
        assert read_header(one).max_timestamp == NOW_MS


def test_log_append_time_of_a_client_has_the_time_of_its_header() -> None:
    """Apache Kafka reads this time for every record, and stores it with CreateTime."""
    config = LogConfig(message_timestamp_before_max_ms=5)
    assert stored_maximum(batch(2, timestamp=1, log_append_time_ms=NOW_MS), config, RECORDS) == NOW_MS
    late = batch(2, log_append_time_ms=NOW_MS + 2 * HOUR_MS)
    assert told(late, config, HEADER)[::2] == (ErrorCode.INVALID_TIMESTAMP, [0, 1])


def test_records_that_are_compressed_anew_have_to_be_sound() -> None:
    header = read_header(batch(2))
    damaged = memoryview(assemble(0, 0, 1, header.base_timestamp, header.max_timestamp, 2, b"\x0c\x00\x00\x00\x01\x01"))
    assert refusal(damaged, LogConfig()) is ErrorCode.NONE
    assert refusal(damaged, LogConfig(compression_type="gzip")) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", range(1, 5))
@pytest.mark.parametrize("producer", [{}, {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}])
def test_records_that_no_java_client_reads_are_refused(codec: int, producer: dict[str, int]) -> None:
    """Apache Kafka 3.9 and 4.1 refuse them with UNKNOWN_SERVER_ERROR, which tells a producer less."""
    sound = batch(3, compression=codec, is_transactional=bool(producer), **producer)
    assert validation.sound_batch(sound, LogConfig(), NOW_MS) == read_header(sound)
    linked = lz4.frame.compress(bytes(300_000), block_linked=True)
    content = {LZ4: linked}.get(codec, b"\x01\x01 of no codec")
    wrong = memoryview(with_records(read_header(sound), content))
    config = LogConfig(max_message_bytes=1 << 20)
    assert validation.sound_batch(wrong, config, NOW_MS) is None
    code, sentence, _ = told(wrong, config, HEADER)
    assert code is ErrorCode.INVALID_RECORD
    assert "Kafka's Java clients could not read the records" in sentence
