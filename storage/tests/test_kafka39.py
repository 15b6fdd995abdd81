"""What a leader refuses of a produced set or batch, beside Apache Kafka 3.9's `LogValidator`."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import legacy
from headgate.protocol.records.batch import HEADER_SIZE, Record, assemble, build, read_header
from headgate.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from headgate.protocol.records.lz4 import with_correct_checksum
from headgate.protocol.records.message_set import encode
from headgate.protocol.records.tests.kafka39 import Kafka39, Refused
from headgate.protocol.records.tests.sets import up_convert
from headgate.protocol.steps import finish
from headgate.storage.config import LogConfig
from headgate.storage.log import validation
from headgate.storage.log.validation import CLIENT, CONVERTED, RECORDS

pytestmark = pytest.mark.sockets  # a child process
NOW_MS = 1000
SOME = [Record(offset=number, timestamp=NOW_MS + number, key=b"k", value=b"v" * number) for number in range(3)]
KEYLESS = [SOME[0]._replace(key=None), SOME[1], SOME[2]._replace(key=None)]
TIMES = [Record(offset=n, timestamp=time, key=b"k") for n, time in enumerate((1000, 990, 1010, 989, 1011, -1))]
BOTH = [Record(offset=0, timestamp=989), Record(offset=1, timestamp=989, key=b"k"), Record(offset=2, timestamp=1000)]
BODY = bytes(build(SOME)[HEADER_SIZE:])


def within(messages: bytes | bytearray, magic: int, codec: int = GZIP) -> bytearray:
    return encode(magic, codec, 0, NOW_MS, None, compress(codec, messages))


def damaged(data: bytearray) -> bytearray:
    data[-1] ^= 1
    return data


def patched(data: bytearray, position: int, form: str, value: int) -> bytearray:
    """With another value in the header, and the CRC that it needs."""
    struct.pack_into(form, data, position, value)
    header = read_header(data)
    clear = assemble(0, header.attributes, *header[6:9], header.records_count, data[HEADER_SIZE:])
    data[17:21] = clear[17:21]
    return data


def batch_of(body: bytes, codec: int = NONE, count: int = 1) -> bytearray:
    return assemble(0, codec, count - 1, NOW_MS, NOW_MS + 2, count, compress(codec, body))


ALIKE = {
    "magic 0": legacy.build(SOME, 0),
    "magic 1": legacy.build(SOME, 1),
    "wrapper": legacy.build(SOME, 1, codec=SNAPPY),
    "wrapper with a key": encode(1, GZIP, 0, NOW_MS, b"key", compress(GZIP, legacy.build(SOME, 1))),
    "two magics": legacy.build(SOME, 0) + legacy.build(SOME, 1),
    "a batch behind messages": legacy.build(SOME, 1) + build(SOME),
    "magic 3": encode(3, 0, 0, NOW_MS, None, b""),
    "a message with a size of 13": struct.pack(">qi", 0, 13) + bytes(13),
    "a damaged message": damaged(legacy.build(SOME, 1)),
    "a damaged message in a wrapper": within(damaged(legacy.build(SOME, 1)), 1),
    "a wrapper without a value": encode(1, GZIP, 0, NOW_MS, None, None),
    "a wrapper with nothing in it": within(b"", 1),
    "a wrapper in a wrapper": within(legacy.build(SOME, 1, codec=GZIP), 1),
    "a wrapper in a wrapper of magic 0": within(legacy.build(SOME, 0, codec=GZIP), 0),
    "zstd in a set": within(legacy.build(SOME, 1), 1, ZSTD),
    "messages without keys": legacy.build(KEYLESS, 0, codec=GZIP),
    "messages of any time": legacy.build(TIMES, 1, codec=GZIP),
    "a wrapper with a time of the broker": legacy.build(SOME, 1, codec=GZIP, log_append_time_ms=NOW_MS),
    **{f"batch in codec {codec}": build(SOME, compression=codec) for codec in range(5)},
    "two batches": build(SOME) * 2,
    "a damaged batch": damaged(build(SOME)),
    "control batch": build(SOME, is_control=True),
    "a producer without sequence": build(SOME, producer_id=3, producer_epoch=0),
    "a count too high": patched(build(SOME), 57, ">i", 5),
    "a delta too high": patched(build(SOME), 23, ">i", 5),
    "both too high": patched(patched(build(SOME), 57, ">i", 5), 23, ">i", 4),
    "no records": patched(patched(build([]), 57, ">i", 0), 23, ">i", -1),
    "offsets with a gap": build([SOME[0], SOME[2]]),
    "records without keys": build(KEYLESS),
    "compressed records without keys": build(KEYLESS, compression=ZSTD),
    "records of any time": build(TIMES),
    "compressed records of any time": build(TIMES, compression=LZ4),
    "records without keys and of any time": build(BOTH),
    "a time of the broker": build(SOME, log_append_time_ms=NOW_MS),
    "a time beyond those of the records": patched(build(SOME), 35, ">q", NOW_MS + 5),
    **{
        f"{name} in codec {codec}": batch_of(body, codec)
        for codec in (NONE, GZIP)
        for name, body in {
            "bytes behind the last record": b"\x0c\x00\x00\x00\x01\x01\x00\x00",
            "a negative count of headers": b"\x0c\x00\x00\x00\x01\x01\x01",
            "nothing": b"",
        }.items()
    },
    "gzip in two members": assemble(
        0, GZIP, 2, NOW_MS, NOW_MS + 2, 3, compress(GZIP, BODY[:5]) + compress(GZIP, BODY[5:])
    ),
    "snappy in two streams": assemble(
        0, SNAPPY, 2, NOW_MS, NOW_MS + 2, 3, compress(SNAPPY, BODY[:5]) + compress(SNAPPY, BODY[5:])
    ),
    "zstd in two frames": assemble(
        0, ZSTD, 2, NOW_MS, NOW_MS + 2, 3, compress(ZSTD, BODY[:5]) + compress(ZSTD, BODY[5:])
    ),
}
TOPICS = {
    "plain": LogConfig(message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=10),
    "compacted": LogConfig(
        message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=10, cleanup_policy=("compact",)
    ),
    "append time": LogConfig(message_timestamp_type="LogAppendTime"),
    "zstd": LogConfig(message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=10, compression_type="zstd"),
}


CORRUPT_MESSAGE, INVALID_RECORD = ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD
FRAME = compress(LZ4, BODY)
LINKED = with_correct_checksum(FRAME[:4] + bytes((FRAME[4] & ~0x20,)) + FRAME[5:])
GAP = patched(build([SOME[0], SOME[2]]), 23, ">i", 1)
# What Kafka's validator does not do, with what we do; None: it is taken
OTHERWISE: dict[str, tuple[bytes | bytearray, tuple[ErrorCode, list[int]] | None]] = {
    # It leaves out a tail that is cut, without a word: the producer believes that all is stored
    "a cut set": (legacy.build(SOME, 1)[:-1], (CORRUPT_MESSAGE, [])),
    "a cut set in a wrapper": (within(legacy.build(SOME, 1)[:-1], 1), (CORRUPT_MESSAGE, [])),
    # It wants a wrapper to be alone; there is no reason but how it is written
    "two wrappers": (legacy.build(SOME, 1, codec=GZIP) * 2, None),
    "a message and a wrapper": (legacy.build(SOME, 1) + legacy.build(SOME, 1, codec=GZIP), None),
    # It fails without knowing why: UNKNOWN_SERVER_ERROR
    "a wrapper of something else": (encode(1, GZIP, 0, NOW_MS, None, b"no gzip"), (INVALID_RECORD, [])),
    "a batch of something else": (assemble(0, ZSTD, 0, NOW_MS, NOW_MS, 1, b"no zstd"), (INVALID_RECORD, [])),
    "a damaged stream": (assemble(0, GZIP, 0, NOW_MS, NOW_MS, 1, b"\x1f\x8b\x08 damaged"), (CORRUPT_MESSAGE, [])),
    "lz4 that Java does not read": (assemble(0, LZ4, 2, NOW_MS, NOW_MS, 3, LINKED), (INVALID_RECORD, [])),
    "a codec that does not exist": (
        assemble(0, 5, 2, NOW_MS, NOW_MS, 3, BODY),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, []),
    ),
    # It numbers such records anew where it walks over them
    "an offset that is not its number": (GAP, (INVALID_RECORD, [1])),
    # It looks less closely at what is compressed
    "a record that is too short": (batch_of(b"\x0a\x00\x00\x00\x01\x01\x00", GZIP), (INVALID_RECORD, [])),
    # It looks at messages one by one, and tells the first; who sends messages is not told of records anyway
    "messages without keys": (legacy.build(KEYLESS, 1), (INVALID_RECORD, [0, 2])),
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka39]:
    with Kafka39() as process:
        yield process


def ours(data: bytes | bytearray, config: LogConfig) -> bytes | tuple[ErrorCode, list[int]]:
    try:
        made = memoryview(up_convert(data))
        is_set = legacy.is_legacy(data)
        view = finish(validation.prepare_steps(made, config, NOW_MS, RECORDS, CONVERTED if is_set else CLIENT))
        validation.stored(view, config, NOW_MS)
    except KafkaError as error:
        return error.code, [number for number, _ in error.record_errors]
    return bytes(view)


def theirs(kafka: Kafka39, data: bytes | bytearray, config: LogConfig) -> bytes | tuple[ErrorCode, list[int]]:
    try:
        return kafka.validate(
            data,
            append_time=config.message_timestamp_type == "LogAppendTime",
            compacted=config.is_compacted,
            now_ms=NOW_MS,
            before_ms=config.message_timestamp_before_max_ms,
            after_ms=config.message_timestamp_after_max_ms,
            codec=config.compression_codec,
        )
    except Refused as error:
        return error.code, error.indexes


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("name", ALIKE)
def test_the_same_is_refused_with_the_same_code_and_records(kafka: Kafka39, name: str, topic: str) -> None:
    data, config = bytes(ALIKE[name]), TOPICS[topic]
    mine, other = ours(data, config), theirs(kafka, data, config)
    if name == "a time of the broker" and topic == "zstd":
        return  # Kafka gives each record the time of the batch if it has to compress them anew, and else its own
    if isinstance(mine, bytes) and isinstance(other, bytes):
        assert kafka.read(mine) == kafka.read(other)
        assert read_header(mine).compression == read_header(other).compression
    else:
        assert mine == other


@pytest.mark.parametrize("name", OTHERWISE)
def test_where_we_do_otherwise(kafka: Kafka39, name: str) -> None:
    data, wanted = OTHERWISE[name]
    config = TOPICS["compacted" if name == "messages without keys" else "plain"]
    mine, other = ours(data, config), theirs(kafka, bytes(data), config)
    assert wanted == (None if isinstance(mine, bytes) else mine)
    assert (isinstance(other, bytes) or other) != (isinstance(mine, bytes) or mine)
