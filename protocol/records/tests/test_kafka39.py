"""All formats and both conversions beside Apache Kafka 3.9's own classes; what differs on purpose is said here."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from itertools import chain, product

import pytest
from hypothesis import given, settings

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import batch
from headgate.protocol.records.batch import HEADER_SIZE, Record
from headgate.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, decompress
from headgate.protocol.records.legacy import build, iterate
from headgate.protocol.records.lz4 import java_incompatibility_steps, with_broken_checksum, with_correct_checksum
from headgate.protocol.records.tests.kafka39 import Batch, Kafka39, Refused
from headgate.protocol.records.tests.sets import down_convert, expected, record, records, up_convert, up_convert_stored
from headgate.protocol.steps import finish

pytestmark = pytest.mark.sockets  # a child process
ALL = 1 << 30
OLD = [*product((0, 1), (NONE, GZIP, SNAPPY, LZ4))]
# For each format and codec
some_values = settings(max_examples=400 if os.environ.get("HEADGATE_SOAK") == "1" else 12, deadline=None)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka39]:
    with Kafka39() as process:
        yield process


def all_records(read: list[Batch]) -> list[Record]:
    return [*chain(*[one.records for one in read])]


def inner(data: bytes | bytearray, magic: int, codec: int) -> bytes:
    """What is in the only wrapper of a set."""
    content = data[34 if magic else 26 :]
    return bytes(decompress(codec, with_correct_checksum(content) if codec == LZ4 and magic == 0 else content))


@pytest.mark.parametrize("magic,codec", OLD)
@some_values
@given(some=records)
def test_sets_are_built_alike(kafka: Kafka39, magic: int, codec: int, some: list[Record]) -> None:
    """The bytes themselves where no codec decides on them."""
    numbered = expected(some, magic, 50)
    for time in (-1, 77) if magic else (-1,):
        ours = build(numbered, magic, codec=codec, log_append_time_ms=time)
        theirs = kafka.build(numbered, magic, codec, base_offset=50, append_time_ms=time)
        if codec == NONE:
            assert ours == theirs
        else:
            assert ours[16 : 26 if magic else 18] == theirs[16 : 26 if magic else 18]
            assert inner(ours, magic, codec) == inner(theirs, magic, codec)
        assert kafka.read(ours) == kafka.read(theirs)


@pytest.mark.parametrize("magic,codec", OLD)
@some_values
@given(some=records)
def test_sets_are_read_alike(kafka: Kafka39, magic: int, codec: int, some: list[Record]) -> None:
    numbered = expected(some, magic, 50, step=7)
    theirs = kafka.build(numbered, magic, codec, base_offset=50)
    assert list(iterate(theirs)) == numbered
    assert all_records(kafka.read(up_convert_stored(theirs).data)) == numbered


@pytest.mark.parametrize("magic,codec", OLD)
@some_values
@given(some=records)
def test_produced_sets_become_what_kafka_makes_of_them(
    kafka: Kafka39, magic: int, codec: int, some: list[Record]
) -> None:
    produced = kafka.build(expected(some, magic), magic, codec)
    ours, theirs = up_convert(produced), bytearray(kafka.validate(produced))
    batch.patch(theirs, 0, -1)
    if codec == NONE:
        assert ours == theirs
    else:
        skip = {"crc": 0, "batch_length": 0}  # these follow from the stream, which another library writes
        assert batch.read_header(ours)._replace(**skip) == batch.read_header(theirs)._replace(**skip)
        assert decompress(codec, ours[HEADER_SIZE:]) == decompress(codec, theirs[HEADER_SIZE:])
    assert kafka.read(ours) == kafka.read(theirs)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@some_values
@given(some=records)
def test_batches_become_what_kafka_makes_of_them(kafka: Kafka39, magic: int, codec: int, some: list[Record]) -> None:
    """But lz4 and zstd, which become gzip: Kafka leaves lz4, and refuses zstd."""
    numbered = expected(some, 1, 50, step=3)
    for time in (-1, 77):
        stored = batch.build(numbered, base_offset=50, compression=codec, log_append_time_ms=time)
        ours = down_convert(stored, magic, 50, ALL).data
        asked = stored if codec != ZSTD else finish(batch.recompress_steps(stored, GZIP))
        theirs = kafka.down(asked, magic, 50)
        if codec == NONE:
            assert ours == theirs
        read = kafka.read(ours)
        assert {one.codec for one in read} == {GZIP if codec in {LZ4, ZSTD} else codec}
        assert all_records(read) == all_records(kafka.read(theirs))
        assert [one.type for one in read] == [one.type for one in kafka.read(theirs)]


@some_values
@given(some=record)
def test_java_reads_our_lz4_frames(kafka: Kafka39, some: Record) -> None:
    data = batch.build([some._replace(offset=0)], compression=LZ4)
    assert finish(java_incompatibility_steps(data[HEADER_SIZE:])) is None
    assert all_records(kafka.read(data)) == [some._replace(offset=0)]


PLAIN_FRAME = bytes(batch.build([Record(offset=0, value=bytes(200_000))], compression=LZ4)[HEADER_SIZE:])
BODY_BYTES = len(decompress(LZ4, PLAIN_FRAME))
HEAD, REST = PLAIN_FRAME[:4], PLAIN_FRAME[6:]
FLAGS, DESCRIPTOR = PLAIN_FRAME[4], PLAIN_FRAME[5]


@pytest.mark.parametrize(
    "frame",
    [
        PLAIN_FRAME,
        with_correct_checksum(
            HEAD + bytes((FLAGS | 8, DESCRIPTOR)) + struct.pack("<Q", BODY_BYTES) + REST
        ),  # its size is told
        with_correct_checksum(HEAD + bytes((FLAGS & ~0x20, DESCRIPTOR)) + REST),  # blocks depend on each other
        with_correct_checksum(HEAD + bytes((FLAGS | 1, DESCRIPTOR)) + bytes(4) + REST),  # a dictionary
        with_correct_checksum(HEAD + bytes((FLAGS, 0x30)) + REST),  # no size of blocks that exists
        with_broken_checksum(PLAIN_FRAME),
        PLAIN_FRAME[:-4],
    ],
)
def test_java_reads_only_frames_without_an_incompatibility(kafka: Kafka39, frame: bytes) -> None:
    is_read = True
    try:
        kafka.read(batch.assemble(0, LZ4, 0, -1, -1, 1, frame))
    except Refused:
        is_read = False
    if frame == with_broken_checksum(PLAIN_FRAME):  # every decoder finds that
        assert not is_read
        with pytest.raises(KafkaError):
            decompress(LZ4, frame)
    else:
        assert is_read is (finish(java_incompatibility_steps(frame)) is None)
