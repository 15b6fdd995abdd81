"""Every reader of bytes from outside, as a subject of `test_hostile.py` and `fuzz.py`.

What holds for each, whatever the bytes are:

- they are read, or refused with the one exception that says so; nothing else is raised;
- no more memory is taken than a small multiple of their length (`PER_BYTE`), and a little (`FIXED_BYTES`);
- what was accepted can be written, and what was written is read as the same again.
"""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

import cramjam

from headgate.protocol import compiler
from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest
from headgate.protocol.frame import FrameReader
from headgate.protocol.header import RequestHeader, read_request_header, read_response_header, write_request_header
from headgate.protocol.header import write_response_header as write_header
from headgate.protocol.internal import consumer_protocol, metadata, metadata_snapshot, offsets
from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.fetch import FetchRequest, FetchResponse
from headgate.protocol.records import batch, compression, legacy, lz4, message_set
from headgate.protocol.records.batch import Record
from headgate.protocol.records.record_validation import RecordValidator
from headgate.protocol.records.tests.sets import down_convert, up_convert, up_convert_stored
from headgate.protocol.schema import Message
from headgate.protocol.steps import finish
from headgate.protocol.tests.values import VERSIONS, full, written

PER_BYTE = 100
"""What a byte may take at most, in bytes: four of them can be a struct with an empty list and an unknown tag, each an
object of Python's. For a request, whose elements are limited, no more than 40 MB in all."""

FIXED_BYTES = 8 * 1024
"""What a refusal takes, with its words and its traceback, and what a message of no bytes at all has."""

MORE_MEASUREMENTS = 3

OUTPUT_LIMIT = 128 * 1024
"""What compressed bytes may become here; the broker's own limit is `compression.MAX_OUTPUT_BYTES`."""

FRAME_LIMIT = 1_000


def nothing(data: bytes, value: Any) -> None:
    """There is nothing that could be checked."""


class Subject(NamedTuple):
    """One reader. `good` gives bytes that it reads; `refusals` are all that it may raise; `check` looks at a value."""

    name: str
    read: Callable[[bytes], Any]
    good: Callable[[], list[bytes]]
    check: Callable[[bytes, Any], None] = nothing
    refusals: tuple[type[Exception], ...] = (MalformedRequest,)
    fixed_bytes: int = FIXED_BYTES

    def attempt(self, data: bytes) -> bool:
        """Whether the bytes were read. What must not be is an exception that leaves."""
        try:
            value = self.read(data)
        except self.refusals:
            return False
        self.check(data, value)
        return True

    def allocated_bytes(self, data: bytes) -> int:
        """The most memory that was taken at once while these bytes were read. Call `attempt` before: it warms up."""
        tracemalloc.start()
        try:
            self.read(data)
        except self.refusals:
            pass
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return peak

    def endure(self, data: bytes) -> None:
        """All that holds for any bytes."""
        self.attempt(data)
        bound = PER_BYTE * len(data) + self.fixed_bytes
        # Other threads of the test process allocate too, now and then: the reader takes as much each time.
        taken = self.allocated_bytes(data)
        for _ in range(MORE_MEASUREMENTS):
            taken = taken if taken <= bound else min(taken, self.allocated_bytes(data))
        assert taken <= bound, f"{self.name}: {len(data)} bytes took {taken}, over {bound}"


# ------------------------------------------------------------------------------------------------------------ messages


def check_message(cls: type[Message], version: int, data: bytes, value: tuple[Message, int]) -> None:
    message, position = value
    assert 0 <= position <= len(data)
    once = written(message, version)
    again, end = compiler.read(cls, version, once)
    assert end == len(once)
    assert written(again, version) == once


def message(cls: type[Message], version: int) -> Subject:
    return Subject(
        f"{cls.__name__}-v{version}",
        functools.partial(compiler.read, cls, version),
        lambda: [written(full(cls, version), version)],
        functools.partial(check_message, cls, version),
    )


MESSAGES = {subject.name: subject for subject in (message(cls, version) for cls, version in VERSIONS)}


# ---------------------------------------------------------------------------------------------------- headers, frames


def good_request_headers() -> list[bytes]:
    """Without a client's name, with it, with a long one; and with tags, which nobody writes. A body follows."""
    headers = []
    for key, version, name in ((7, 0, None), (18, 1, "name"), (18, 3, None), (1, 12, "n" * 200)):
        out = bytearray()
        write_request_header(out, RequestHeader(key, version, 7, name))
        headers.append(bytes(out) + bytes(4))
    return [*headers, headers[-1][:-5] + b"\2\0\1x\x81\1\2yz"]


def check_request_header(data: bytes, value: tuple[int, int, int, str | None, int]) -> None:
    assert 8 <= value[-1] <= len(data)


def read_any_response_header(data: bytes) -> tuple[int, int]:
    """The first two bytes say to which request it is the response."""
    key, version = (*data[:2], 0, 0)[:2]
    return read_response_header(memoryview(data)[2:], key, version)


def check_response_header(data: bytes, value: tuple[int, int]) -> None:
    assert 4 <= value[1] <= len(data) - 2


def read_frames(data: bytes) -> list[bytes]:
    """The first byte says into which portions the rest is cut."""
    portion, stream = (data[0] if data else 0) + 1, memoryview(data)[1:]
    reader, frames = FrameReader(FRAME_LIMIT), []
    for start in range(0, len(stream), portion):
        if reader.incomplete_size:
            reader.get_buffer(FRAME_LIMIT)
        frames += [bytes(frame) for frame in reader.feed(stream[start : start + portion])]
    return frames


def check_frames(data: bytes, frames: list[bytes]) -> None:
    """In one portion they are the same."""
    assert [bytes(frame) for frame in FrameReader(FRAME_LIMIT).feed(data[1:])] == frames


def good_responses() -> list[bytes]:
    stream = bytearray()
    answers = ((ApiVersionsResponse(api_keys=[ApiVersion(1, 0, 12)]), 3), (FetchResponse(session_id=5), 12))
    for correlation_id, (answer, version) in enumerate(answers):
        out = bytearray()
        write_header(out, correlation_id, answer.api_key, version)
        compiler.write(answer, version, out, [])
        stream += len(out).to_bytes(4, "big") + out
    return [bytes(stream)]


def read_responses(data: bytes) -> Any:
    """A broker answers two requests, of which the first asks what it serves."""
    connection = ClientConnection("fuzz", FRAME_LIMIT)
    connection.request(ApiVersionsRequest(), 3)
    connection.request(FetchRequest(), 12)
    return connection.receive(data)


# ------------------------------------------------------------------------------------------------------------ records


def good_batches() -> list[bytes]:
    whole = Record(-1, 1_700_000_000_000, b"key", b"value", [("name", b"content"), ("none", None)])
    records = [whole, whole._replace(timestamp=whole.timestamp + 100, key=None, value=b"v" * 200, headers=()), Record()]
    one, two = batch.build(records), batch.build(records[:1], log_append_time_ms=5)
    return [bytes(one), bytes(one + two), bytes(batch.build(records, compression=compression.SNAPPY))]


def read_batches(data: bytes) -> list[tuple[batch.BatchHeader, memoryview]]:
    """What is compressed is left to `decompress`, whose memory has another bound."""
    found = batch.split(data)
    for header, view in found:
        batch.check_crc(view)
        if header.compression == compression.NONE:
            for _ in batch.iterate(view):
                pass
    return found


def check_batches(data: bytes, found: list[tuple[batch.BatchHeader, memoryview]]) -> None:
    """The records that were read make a batch with the same records."""
    for header, view in found:
        if header.compression == compression.NONE and not header.is_log_append_time:
            records = list(batch.iterate(view))
            assert len(records) == header.records_count
            assert list(batch.iterate(batch.build(records, base_offset=header.base_offset))) == records


def good_streams(codec: int) -> list[bytes]:
    """Short and long; and for snappy without Kafka's own framing."""
    text = b"the same and the same and the same again, " * 30
    streams = [compression.compress(codec, data) for data in (text, b"", bytes(70_000))]
    return [*streams, bytes(cramjam.snappy.compress_raw(text))] if codec == compression.SNAPPY else streams


def check_plain(data: bytes, plain: bytes | memoryview) -> None:
    assert len(plain) <= OUTPUT_LIMIT


def codec(number: int) -> Subject:
    return Subject(
        f"compression-{compression.CODEC_NAMES[number]}",
        lambda data: compression.decompress(number, data, OUTPUT_LIMIT),
        lambda: good_streams(number),
        check_plain,
        (KafkaError,),
        FIXED_BYTES + 2 * OUTPUT_LIMIT,
    )


# ------------------------------------------------------------------------------------------------------- message sets

UNPACKED_BYTES = 16 * 1024 * 1024
"""What conversions may take besides: gzip makes a thousand bytes of one, and several copies of them are needed."""

OLD_CODECS = (compression.NONE, compression.GZIP, compression.SNAPPY, compression.LZ4)


def good_sets(codecs: tuple[int, ...] = OLD_CODECS, magics: tuple[int, ...] = (0, 1), time: int = -1) -> list[bytes]:
    """`time` is set by a broker: no client sends it."""
    records = [
        Record(-1, 1_700_000_000_000, b"key", b"value"),
        Record(-1, 5, None, b"v" * 300),
        Record(9, 5, b"k", None),
    ]
    return [
        bytes(legacy.build(records, magic, codec=codec, log_append_time_ms=time))
        for magic in magics
        for codec in codecs
    ]


def good_client_and_stored_sets() -> list[bytes]:
    """With the flags that `read_set` takes."""
    sent = [bytes((flags,)) + good for good in good_sets() for flags in (0, 3, 5)]
    return sent + [b"\3" + good for good in good_sets(time=7)]


def sealed(data: bytes) -> bytes:
    """The messages of a set with right CRCs, as far as they are whole: a fuzzer does not find them."""
    out, position = bytearray(data), 0
    while position + message_set.CRC_START < len(out):
        (size,) = message_set.LENGTH.unpack_from(out, position + 8)
        end = position + batch.LOG_OVERHEAD + size
        if not position + message_set.CRC_START < end <= len(out):
            break
        crc = crc32(memoryview(out)[position + message_set.CRC_START : end])
        out[position + 12 : position + message_set.CRC_START] = crc.to_bytes(4, "big")
        position = end
    return bytes(out)


def read_set(data: bytes) -> bytearray:
    """The first byte says whether CRCs are mended, whether the set comes from a log, and what a batch may have."""
    flags = data[0] if data else 0
    content = sealed(data[1:]) if flags & 1 else data[1:]
    if flags & 2:
        return up_convert_stored(content).data
    return up_convert(content, 400 if flags & 4 else 1 << 20)


def read_wrapped_set(data: bytes) -> bytearray:
    """The first byte says which magic and codec the wrapper around the rest has, and whether it comes from a log."""
    flags, inner = data[0] if data else 0, sealed(data[1:])
    magic, kind = flags & 1, flags & 8
    codec = OLD_CODECS[flags >> 1 & 3]
    content: bytes | bytearray = compression.compress(codec, inner)
    if codec == compression.LZ4 and magic == 0:
        content = lz4.with_broken_checksum(content)
    wrapper = message_set.encode(magic, codec | kind if magic else codec, flags >> 5, 5, None, content)
    return up_convert_stored(wrapper).data if flags & 16 else up_convert(wrapper)


def good_wrapped_sets() -> list[bytes]:
    """In each codec, of a client and of a log."""
    return [
        bytes((magic | flags,)) + good
        for magic in (0, 1)
        for flags in (0, 2, 4, 6, 16, 18)
        for good in good_sets((compression.NONE,), (magic,))
    ]


def check_sets(data: bytes, made: bytearray) -> None:
    """What comes of a client's set are batches that a topic can store."""
    is_stored, is_converted = data[:1] and data[0] & 2, data[17:18] != b"\2"
    if is_stored or not is_converted:
        return
    for header, view in batch.split(made):
        assert batch.check_crc(view)
        assert len(list(batch.iterate(view))) == header.records_count


def good_bodies() -> list[bytes]:
    """A byte for what an old reader wants, and the records of a batch."""
    return [bytes((flags,)) + good[batch.HEADER_SIZE :] for good in good_batches()[:1] for flags in range(0, 64, 7)]


def old_reader(data: bytes) -> tuple[bytes, int, int]:
    """A batch with these records, in a codec, and what a reader asks: magic and room. The first byte tells."""
    flags = data[0] if data else 0
    codec = (flags >> 2) % 5
    content = compression.compress(codec, data[1:])
    return batch.HEADER.pack(*batch_head(content, codec)) + content, flags & 1, 50 if flags & 2 else 1 << 20


def read_as_an_old_reader(data: bytes) -> legacy.ConvertedRecords:
    stored, magic, room = old_reader(data)
    return down_convert(stored, magic, 7, room)


def check_an_old_reader(data: bytes, converted: legacy.ConvertedRecords) -> None:
    """It gets the records, as far as their offsets increase."""
    stored, _, room = old_reader(data)
    try:
        records = list(batch.iterate(stored))
    except KafkaError:
        return
    if [record.offset for record in records] != [7, 8, 9] or room < len(stored):
        return
    got = [(record.offset, record.key, record.value) for record in legacy.iterate(converted.data)]
    assert got == [(record.offset, record.key, record.value) for record in records]
    assert converted.next_offset == 10


def batch_head(content: bytes, codec: int) -> batch.BatchHeader:
    """The header of a batch of three records, from offset 7 on."""
    head = batch.read_header(batch.build([Record(-1, 1_700_000_000_000)] * 3, base_offset=7))
    return head._replace(attributes=codec, batch_length=batch.HEADER_SIZE - batch.LOG_OVERHEAD + len(content))


def validate(data: bytes, slice_bytes: int = 1 << 20) -> list[tuple[int, ErrorCode, str]]:
    """A compacted topic's look at a batch with these records."""
    head = batch_head(data, compression.NONE)
    validator = RecordValidator(head, data, needs_keys=True, earliest=0, latest=1_800_000_000_000)
    while validator.left:
        validator.validate_next(slice_bytes)
    return validator.errors


def check_validation(data: bytes, errors: list[tuple[int, ErrorCode, str]]) -> None:
    """In slices the errors are the same; what has none is iterated."""
    assert validate(data, 20) == errors
    whole = batch.HEADER.pack(*batch_head(data, compression.NONE)) + data
    # A leader does not look at the names of headers
    assert errors or fault(lambda: list(batch.iterate(whole))) in {None, "UnicodeDecodeError"}


def fault(read: Callable[[], Any]) -> str | None:
    """What a KafkaError that is raised came from."""
    try:
        read()
    except KafkaError as error:
        return type(error.__context__).__name__
    return None


# --------------------------------------------------------------------------------------------------- internal topics


NO_VALUE = 255


def group_records() -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of every type and version."""
    for kind, (key, value) in offsets.RECORDS.items():
        for version in range(value.versions.first, value.versions.last + 1):
            yield kind.to_bytes(2, "big") + written(full(key, 0), 0), prefixed(full(value, version), version)


def prefixed(value: Message, version: int) -> bytes:
    return version.to_bytes(2, "big") + written(value, version)


def good_group_records() -> list[bytes]:
    return [bytes((len(key),)) + key + value for key, value in group_records()]


def read_group_record(data: bytes) -> Any:
    """The first byte says how long the key is, or that there is no value."""
    size, rest = (data[0], data[1:]) if data else (0, b"")
    return offsets.decode(rest, None) if size == NO_VALUE else offsets.decode(rest[:size], rest[size:])


def good_offsets() -> list[bytes]:
    values = [offsets.OffsetCommitValue(5, 1, "", 7), offsets.OffsetCommitValue(5, 1, "", 7, -1, bytes(range(16)))]
    return [prefixed(full(offsets.OffsetCommitValue, v), v) for v in range(5)] + [
        prefixed(value, 4) for value in values
    ]


def check_offset(data: bytes, value: Any) -> None:
    offsets.check_offset(data)


def good_metadata() -> list[bytes]:
    return [
        metadata.encode(full(record, version), version)
        for record in metadata.RECORDS.values()
        for version in range(record.versions.first, record.versions.last + 1)
    ]


def good_snapshots() -> list[bytes]:
    records = [metadata.decode(value) for value in good_metadata() if not value[2]]
    return [bytes(finish(metadata_snapshot.encode_steps(some, 0, 1))) for some in (records, records * 60)]


def good_protocol(cls: type[Any]) -> list[bytes]:
    return [consumer_protocol.encode(full(cls, version), version) for version in range(4)]


# ---------------------------------------------------------------------------------------------------------------- all

OTHERS = [
    Subject(
        "request-header", lambda data: read_request_header(memoryview(data)), good_request_headers, check_request_header
    ),
    Subject(
        "response-header",
        read_any_response_header,
        lambda: [b"\1\x0c\0\0\0\7\0", b"\1\x0c\0\0\0\7\1\5\1x"],
        check_response_header,
    ),
    Subject("frames", read_frames, lambda: [b"\2\0\0\0\5hello\0\0\0\0\0\0\0\1x", b"\x50\0\0\0\5hello"], check_frames),
    Subject("responses", read_responses, good_responses),
    Subject("batches", read_batches, good_batches, check_batches, (KafkaError,)),
    *(codec(number) for number in (compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD)),
    Subject("group-record", read_group_record, good_group_records),
    Subject("group-offset", offsets.decode_offset, good_offsets, check_offset),
    Subject("metadata-record", metadata.decode, good_metadata),
    Subject("metadata-snapshot", metadata_snapshot.decode_all, good_snapshots),
    Subject(
        "subscription",
        consumer_protocol.decode_subscription,
        lambda: good_protocol(consumer_protocol.ConsumerProtocolSubscription),
    ),
    Subject(
        "subscribed-topics",
        consumer_protocol.decode_topics,
        lambda: good_protocol(consumer_protocol.ConsumerProtocolSubscription),
    ),
    Subject(
        "assignment",
        consumer_protocol.decode_assignment,
        lambda: good_protocol(consumer_protocol.ConsumerProtocolAssignment),
    ),
    Subject(
        "message-set",
        read_set,
        good_client_and_stored_sets,
        check_sets,
        (KafkaError,),
        UNPACKED_BYTES,
    ),
    Subject(
        "wrapped-message-set",
        read_wrapped_set,
        good_wrapped_sets,
        nothing,
        (KafkaError,),
        UNPACKED_BYTES,
    ),
    Subject(
        "record-validation",
        validate,
        lambda: [good[batch.HEADER_SIZE :] for good in good_batches()[:1]],
        check_validation,
        (KafkaError,),
    ),
    Subject("old-reader", read_as_an_old_reader, good_bodies, check_an_old_reader, (KafkaError,), UNPACKED_BYTES),
]
"""What is no message of an API."""

SUBJECTS = MESSAGES | {subject.name: subject for subject in OTHERS}
