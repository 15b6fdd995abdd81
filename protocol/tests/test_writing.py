"""What writers promise besides agreeing with construct: splices, tagged fields, long lengths."""

from __future__ import annotations

import struct

import pytest

from headgate.protocol import compiler
from headgate.protocol.emitter import STEP_ELEMENTS, STEP_NUMBERS
from headgate.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from headgate.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headgate.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from headgate.protocol.messages.produce import LeaderIdAndEpoch, ProduceRequest, TopicProduceData
from headgate.protocol.schema import Message
from headgate.protocol.steps import lazy_map
from headgate.protocol.tests.values import written
from headgate.protocol.wire import Splice


class Piece:
    """A splice that is not read."""

    fileno = -1
    position = 0
    disk = ""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        raise AssertionError("nothing of a splice passes through the writer")

    def read_cached(self, start: int, length: int) -> bytes | None:
        raise AssertionError("nothing of a splice passes through the writer")

    def is_cached(self, start: int, length: int) -> bool:
        raise AssertionError("whoever sends it asks")

    def warm(self, start: int, length: int) -> None:
        raise AssertionError("whoever sends it asks for that")

    def release(self) -> None:
        raise AssertionError("a splice belongs to whoever gets the list")


def fetched(*records: bytes | bytearray | memoryview | Splice | None) -> FetchResponse:
    lazy_map = [PartitionData(index, records=record) for index, record in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse("t", partitions=lazy_map)])


@pytest.mark.parametrize("version", [4, 11, 12, 18])
@pytest.mark.parametrize("lengths", [[5], [0], [127, 128], [1 << 20, 3, 0]])
def test_splices_leave_a_hole_of_their_length(version: int, lengths: list[int]) -> None:
    pieces = [Piece(length) for length in lengths]
    out = bytearray(b"head")
    splices: list[tuple[int, Splice]] = []
    compiler.write(fetched(*pieces), version, out, splices)
    assert [splice for _, splice in splices] == pieces
    for position, splice in reversed(splices):
        out[position:position] = bytes(len(splice))
    assert out == b"head" + written(fetched(*(bytes(length) for length in lengths)), version)


@pytest.mark.parametrize("version", [11, 12])
def test_bytes_of_any_type_are_copied(version: int) -> None:
    expected = written(fetched(b"abc"), version)
    for records in (bytearray(b"abc"), memoryview(b"xabcx")[1:4]):
        splices: list[tuple[int, Splice]] = []
        out = bytearray()
        compiler.write(fetched(records), version, out, splices)
        assert (bytes(out), splices) == (expected, [])


def test_only_tagged_fields_without_their_default_are_written() -> None:
    def size(row: PartitionData) -> int:
        return len(written(FetchResponse(responses=[FetchableTopicResponse("t", partitions=[row])]), 12))

    plain = size(PartitionData())
    assert size(PartitionData(diverging_epoch=EpochEndOffset())) == plain
    assert size(PartitionData(diverging_epoch=EpochEndOffset(3, 7))) == plain + 2 + 13
    assert size(PartitionData(current_leader=LeaderIdAndEpoch(leader_epoch=0))) == plain + 2 + 9
    tagged = EpochEndOffset()
    tagged.unknown_tags = {4: b"kept"}
    assert size(PartitionData(diverging_epoch=tagged)) == plain + 2 + 13 + 6


def test_many_elements_and_long_texts_are_written() -> None:
    """On both sides of one byte of varint, and of the arrays that have a struct made for their length."""
    for count in (15, 16, 17, 126, 127, 128, 16_384):
        partition = MetadataResponsePartition(replica_nodes=list(range(count)))
        topic = MetadataResponseTopic(name="n" * count, partitions=[partition])
        value = MetadataResponse(topics=[topic])
        for version in (8, 12):
            assert compiler.read(MetadataResponse, version, written(value, version))[0] == value


def test_a_value_that_does_not_fit_raises() -> None:
    with pytest.raises(AttributeError):
        written(ProduceRequest(topic_data=[TopicProduceData(name=None)]), 8)  # type: ignore[arg-type]
    with pytest.raises(struct.error):
        written(ProduceRequest(acks=2**15), 8)


def steps_of(value: Message, version: int) -> int:
    """How often a writer in steps yields; it writes what the other one does."""
    out = bytearray()
    steps = sum(1 for _ in compiler.writer_in_steps(type(value), version)(value, out, []))
    assert bytes(out) == written(value, version)
    return steps


def test_a_writer_in_steps_yields_after_every_few_elements() -> None:
    partitions = lazy_map(range(100), MetadataResponsePartition)
    topics = lazy_map(["t"] * 70, lambda name: MetadataResponseTopic(name=name, partitions=partitions))
    assert steps_of(MetadataResponse(topics=topics), 9) == 70 * 101 // STEP_ELEMENTS


def test_a_writer_in_steps_yields_within_long_arrays_of_numbers() -> None:
    row = ListOffsetsPartitionResponse(old_style_offsets=list(range(10 * STEP_NUMBERS)))
    assert steps_of(ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [row])]), 0) == 10
