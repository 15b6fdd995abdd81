"""What readers promise besides agreeing with construct: views, copies, bounds, tags, and words for what is wrong."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from headgate.protocol import compiler
from headgate.protocol.emitter import STEP_ELEMENTS, STEP_NUMBERS
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal.metadata import PartitionRecord
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest
from headgate.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headgate.protocol.messages.fetch import FetchRequest, FetchTopic
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.offset_commit import OffsetCommitRequest
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from headgate.protocol.messages.sasl_handshake import SaslHandshakeResponse
from headgate.protocol.reading import MAX_ELEMENTS_AT_ONCE, reader
from headgate.protocol.schema import Message, tree
from headgate.protocol.steps import finish
from headgate.protocol.tests.values import written


def refusal(cls: type[Message], version: int, data: str) -> str:
    with pytest.raises(MalformedRequest) as caught:
        compiler.read(cls, version, bytes.fromhex(data))
    return str(caught.value)


PRODUCE = ProduceRequest(acks=1, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"batch")])])


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_read_from_any_position(kind: Any, version: int) -> None:
    encoded = written(PRODUCE, version)
    value, position = compiler.read(ProduceRequest, version, kind(b"head" + encoded + b"tail"), 4)
    assert (value, position) == (PRODUCE, 4 + len(encoded))


@pytest.mark.parametrize("version", [8, 9])
def test_records_are_views_and_can_be_patched_in_place(version: int) -> None:
    frame = bytearray(written(PRODUCE, version))
    value, _ = compiler.read(ProduceRequest, version, frame)
    records = value.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[:2] = b"BA"
    assert b"BAtch" in frame


@pytest.mark.parametrize("size", [3, 300])
def test_all_other_blobs_are_copied(size: int) -> None:
    frame = bytearray(written(SaslAuthenticateRequest(b"x" * size), 2))
    value, _ = compiler.read(SaslAuthenticateRequest, 2, frame)
    frame[:] = bytes([0xDD]) * len(frame)
    assert value.auth_bytes == b"x" * size


def test_bytes_after_a_message_are_not_read() -> None:
    assert compiler.read(MetadataRequest, 1, b"\xff\xff\xff\xffrest") == (MetadataRequest(topics=None), 4)


def test_the_remaining_bytes_bound_an_array() -> None:
    """A count of two thousand million in a few bytes costs nothing: neither time nor memory."""
    assert "topics cannot have length 2147483647" in refusal(MetadataRequest, 0, "7fffffff0000")
    assert "topics cannot have length 4294967294" in refusal(MetadataRequest, 9, "ffffffff0f0000")


def test_the_minimum_size_of_structs_bounds_their_array() -> None:
    """60 bytes are left, and a FetchTopic takes 6 at least: no list of 11 is made."""
    assert "topics cannot have length 11" in refusal(FetchRequest, 0, "00" * 12 + "0000000b" + "00" * 60)
    assert "topics cannot have length" not in refusal(FetchRequest, 0, "00" * 12 + "0000000a" + "ff" * 60)


def produce_of(*sizes: int) -> bytes:
    """A Produce request of so many topics, each with so many partitions."""
    topics = (b"\0\x01t" + struct.pack(">i", size) + bytes(8) * size for size in sizes)
    return struct.pack(">hhii", -1, 1, 30_000, len(sizes)) + b"".join(topics)


def test_a_request_has_one_limit_for_all_arrays() -> None:
    """What is the only element of its array was counted with what holds it."""
    read = reader(tree(ProduceRequest, 7), "Produce", 100)
    assert read(produce_of(*[0] * 100))
    assert read(produce_of(*[1] * 100))
    assert read(produce_of(*[19] * 5))
    with pytest.raises(MalformedRequest, match="101 topic_data, but a request may have only 100 more"):
        read(produce_of(*[0] * 101))
    with pytest.raises(MalformedRequest, match="20 partition_data, but a request may have only 18 more"):
        read(produce_of(19, 19, 19, 20, 20))


def test_texts_and_tagged_fields_count_too() -> None:
    read = reader(tree(DeleteTopicsRequest, 0), "DeleteTopics", 10)
    assert read(struct.pack(">i", 10) + b"\0\x01t" * 10 + bytes(4))
    with pytest.raises(MalformedRequest, match="11 topic_names, but a request may have only 10 more"):
        read(struct.pack(">i", 11) + b"\0\x01t" * 11 + bytes(4))
    read = reader(tree(MetadataRequest, 9), "Metadata", 10)
    assert read(b"\x01\0\0\0\x0a" + b"\x05\0" * 10)
    with pytest.raises(MalformedRequest, match="11 tagged fields, but a request may have only 10 more"):
        read(b"\x01\0\0\0\x0b" + b"\x05\0" * 11)


def test_a_request_may_have_many_partitions_but_not_too_many() -> None:
    """Ten numbers count as one element."""
    numbers = [7] * (10 * MAX_ELEMENTS_AT_ONCE)
    request = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic("t", numbers)])
    assert compiler.read(OffsetFetchRequest, 5, written(request, 5))[0] == request
    numbers += [7] * 10
    with pytest.raises(MalformedRequest, match="1000010 partition_indexes, but a request may have only 1000000 more"):
        compiler.read(OffsetFetchRequest, 5, written(request, 5))
    with pytest.raises(MalformedRequest, match="100001 topic_data, but a request may have only 100000 more"):
        compiler.read(ProduceRequest, 7, produce_of(*[0] * (MAX_ELEMENTS_AT_ONCE + 1)))


def test_an_array_of_many_uuids_is_read() -> None:
    ids = [number.to_bytes(16, "big") for number in range(40)]
    record = PartitionRecord(directories=ids)
    encoded = written(record, 1)
    assert compiler.read(PartitionRecord, 1, encoded) == (record, len(encoded))
    for length in range(len(encoded)):
        with pytest.raises(MalformedRequest):
            compiler.read(PartitionRecord, 1, encoded[:length])


def test_the_last_of_two_equal_tags_wins() -> None:
    start = bytes.fromhex("00" * 25 + "010101")
    for data, value in (("02 00020263 00020264", "d"), ("02 0000 00020263", "c")):
        encoded = start + bytes.fromhex(data)
        assert compiler.read(FetchRequest, 12, encoded)[0].cluster_id == value
        assert tree(FetchRequest, 12).parse(encoded).cluster_id == value


def test_a_response_has_no_limit_of_elements() -> None:
    data = struct.pack(">hi", 0, MAX_ELEMENTS_AT_ONCE + 1) + b"\0\x01m" * (MAX_ELEMENTS_AT_ONCE + 1)
    assert len(compiler.read(SaslHandshakeResponse, 1, data)[0].mechanisms) == MAX_ELEMENTS_AT_ONCE + 1


def test_refusals_name_message_version_and_position() -> None:
    assert refusal(MetadataRequest, 1, "00000001ffff") == "MetadataRequest v1, at byte 6: name cannot have length -1"
    assert refusal(MetadataRequest, 1, "0000000100056162").startswith(
        "MetadataRequest v1, at byte 6: unpack_from requires"
    )
    assert "at byte 6: 'utf-8' codec can't decode" in refusal(MetadataRequest, 1, "000000010002c328")
    assert "key cannot have length 32768" in refusal(FindCoordinatorRequest, 3, "818002" + "61" * 0x8000 + "0000")
    assert "varint is longer than 5 bytes" in refusal(MetadataRequest, 9, "808080808001")


def test_null_is_refused_in_a_field_that_is_not_nullable() -> None:
    assert "topics cannot have length -1" in refusal(MetadataRequest, 0, "ffffffff")
    assert "topics cannot have length -2" in refusal(MetadataRequest, 1, "fffffffe")
    assert "records cannot have length -2" in refusal(
        ProduceRequest, 2, "000100000000000000010001740000000100000000fffffffe"
    )
    assert "topics cannot have length -1" in refusal(FetchRequest, 12, "00" * 25 + "00")


def test_records_do_not_reach_past_the_end() -> None:
    frame = bytearray(written(PRODUCE, 8))
    frame[-9:-5] = struct.pack(">i", 6)
    assert "records cannot have length 6" in refusal(ProduceRequest, 8, frame.hex())


def test_unknown_tags_are_kept_and_written_again() -> None:
    request = FetchRequest(topics=[FetchTopic("t")], cluster_id="c")
    request.topics[0].unknown_tags = {3: b"three", 200: b"x" * 200}
    request.unknown_tags = {7: b""}
    encoded = written(request, 12)
    value, _ = compiler.read(FetchRequest, 12, encoded)
    assert value.topics[0].unknown_tags == {3: b"three", 200: b"x" * 200}
    assert (value.cluster_id, value.unknown_tags) == ("c", {7: b""})
    assert written(value, 12) == encoded


def test_a_tagged_field_has_exactly_its_size() -> None:
    start = "00" * 25 + "010101"
    assert compiler.read(FetchRequest, 12, bytes.fromhex(start + "0100020263"))[0].cluster_id == "c"
    assert "cluster_id cannot have length 3" in refusal(FetchRequest, 12, start + "010003026300")
    assert "unpack_from" in refusal(FetchRequest, 12, start + "0100020363")
    assert "tag 0 cannot have length 9" in refusal(FetchRequest, 12, start + "0100090263")


def test_nullable_structs_are_read() -> None:
    topics = "01000007d0"
    read = compiler.read(DescribeTopicPartitionsRequest, 0, bytes.fromhex(topics + "ff00"))[0]
    assert read.cursor is None
    read = compiler.read(DescribeTopicPartitionsRequest, 0, bytes.fromhex(topics + "010274000000050000"))[0]
    assert read.cursor is not None
    assert (read.cursor.topic_name, read.cursor.partition_index) == ("t", 5)


def test_fields_of_other_versions_have_their_defaults() -> None:
    value, _ = compiler.read(OffsetCommitRequest, 0, written(OffsetCommitRequest(group_id="g"), 0))
    assert (value.generation_id_or_member_epoch, value.member_id, value.group_instance_id) == (-1, "", None)


def test_default_arrays_are_not_shared() -> None:
    first, _ = compiler.read(FetchRequest, 4, written(FetchRequest(), 4))
    second, _ = compiler.read(FetchRequest, 4, written(FetchRequest(), 4))
    assert first.forgotten_topics_data is not second.forgotten_topics_data


def steps_of(cls: type[Message], version: int, data: bytes) -> int:
    """How often a reader in steps yields."""
    return sum(1 for _ in compiler.reader_in_steps(cls, version)(data))


def test_a_reader_in_steps_yields_after_every_few_elements() -> None:
    nested = [ListOffsetsTopic("t", [ListOffsetsPartition(index) for index in range(100)]) for _ in range(30)]
    request = ListOffsetsRequest(topics=nested)
    assert steps_of(ListOffsetsRequest, 5, written(request, 5)) == 3030 // STEP_ELEMENTS
    names = DeleteTopicsRequest(topic_names=["t"] * 1000)
    assert steps_of(DeleteTopicsRequest, 5, written(names, 5)) == 999 // STEP_ELEMENTS


def test_a_reader_in_steps_yields_within_long_arrays_of_numbers() -> None:
    numbers = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", list(range(10 * STEP_NUMBERS)))])
    encoded = written(numbers, 5)
    assert steps_of(OffsetFetchRequest, 5, encoded) == 10
    assert finish(compiler.reader_in_steps(OffsetFetchRequest, 5)(encoded))[0] == numbers


def test_a_reader_in_steps_yields_between_many_tagged_fields() -> None:
    tagged = MetadataRequest(topics=None)
    tagged.unknown_tags = dict.fromkeys(range(10 * STEP_ELEMENTS), b"")
    encoded = written(tagged, 9)
    assert steps_of(MetadataRequest, 9, encoded) == 10
    assert finish(compiler.reader_in_steps(MetadataRequest, 9)(encoded))[0] == tagged
    with pytest.raises(MalformedRequest):
        finish(compiler.reader_in_steps(MetadataRequest, 9)(encoded[:-1]))


def test_a_reader_in_steps_makes_no_struct_in_advance() -> None:
    """A request may claim more than it has, up to as many bytes: that must not be made at once."""
    encoded = written(MetadataRequest([MetadataRequestTopic(name="t")] * 1000), 1)
    steps = compiler.reader_in_steps(MetadataRequest, 1)(encoded)
    next(steps)
    topics = steps.gi_frame.f_locals  # type: ignore[attr-defined]
    assert {len(value) for value in topics.values() if isinstance(value, list)} == {STEP_ELEMENTS}


@pytest.mark.parametrize("limit", [999, 1000])
def test_a_reader_in_steps_has_the_same_limit(limit: int) -> None:
    read_all = reader(tree(DeleteTopicsRequest, 0), "DeleteTopics", limit, in_steps=True)
    encoded = written(DeleteTopicsRequest(topic_names=["t"] * 1000), 0)
    if limit < 1000:
        with pytest.raises(MalformedRequest, match="1000 topic_names, but a request may have only 999 more"):
            finish(read_all(encoded))
    else:
        assert len(finish(read_all(encoded))[0].topic_names) == 1000
