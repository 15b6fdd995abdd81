"""Requests of transactions, of both protocols, against kio and the project's own messages; and the generator's file."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.protocol.compiler import read
from headgate.protocol.header import read_request_header
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.records.batch import read_header
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.group_frames import TopicPartitions
from headgate.tools.bench.requests.tests.test_frames import TOPIC_ID, read_with_kio
from headgate.tools.bench.requests.transaction_frames import (
    NEW,
    OLD,
    Producer,
    describe_transactions,
    transactional_batch,
    write_requests,
)

BATCH = transactional_batch([b"value"] * 3)
PRODUCER = Producer("id", TopicPartitions("topic", [1, 2], TOPIC_ID), BATCH, group_id="group")


def every_request() -> Iterator[frames.RequestWriter]:
    yield describe_transactions(["id", "other"])
    yield from PRODUCER.requests(OLD)
    yield from (writer for writer in PRODUCER.requests(NEW) if writer.key != frames.PRODUCE)


@pytest.mark.parametrize("writer", list(every_request()), ids=lambda writer: f"{writer.key} v{writer.version}")
def test_kio_reads_the_same(writer: frames.RequestWriter) -> None:
    header, _ = read_with_kio(writer.frame())
    assert (header.request_api_key, header.request_api_version) == (writer.key, writer.version)


def test_a_produce_has_a_batch_of_the_transaction_for_each_partition() -> None:
    (produce,) = (writer for writer in PRODUCER.requests(NEW) if writer.key == frames.PRODUCE)
    frame = produce.frame()
    _, version, _, _, start = read_request_header(memoryview(frame)[4:])
    request, _ = read(ProduceRequest, version, memoryview(frame)[4 + start :])
    assert (request.transactional_id, request.acks, request.topic_data[0].topic_id) == ("id", -1, TOPIC_ID)
    for row, index in zip(request.topic_data[0].partition_data, (1, 2), strict=True):
        assert row.index == index
        assert isinstance(row.records, memoryview)
        header = read_header(row.records)
        assert header.is_transactional
        assert (header.size, header.records_count) == (len(BATCH), 3)
        assert frame[produce.marks[f"batch {index}"] :].startswith(BATCH)


def test_each_mark_is_where_the_generator_patches() -> None:
    for writer in (*PRODUCER.requests(OLD), *PRODUCER.requests(NEW)):
        if "producer" not in writer.marks:
            continue
        frame = bytearray(writer.frame())
        struct.pack_into(">qh", frame, writer.marks["producer"], 123_456_789_012, 77)
        if "committed_offset" in writer.marks:
            struct.pack_into(">q", frame, writer.marks["committed_offset"], 5)
        _, request = read_with_kio(bytes(frame))
        names = request.__slots__
        producer_id = next(name for name in names if name.endswith("producer_id"))
        assert getattr(request, producer_id) == 123_456_789_012
        assert getattr(request, producer_id.replace("_id", "_epoch")) == 77
        if "committed_offset" in writer.marks:
            assert request.topics[0].partitions[0].committed_offset == 5


def test_the_steps_of_a_transaction_are_those_of_its_protocol() -> None:
    init, add_partitions, produce, add_offsets = 22, 24, 0, 25
    commit, end = 28, 26
    assert [writer.key for writer in PRODUCER.requests(OLD)] == [
        init, add_partitions, produce, add_offsets, commit, end,
    ]  # fmt: skip
    assert [writer.key for writer in PRODUCER.requests(NEW)] == [init, produce, commit, end]
    without_offsets = Producer("id", PRODUCER.topic_partitions, BATCH, is_commit=False)
    assert [writer.key for writer in without_offsets.requests(OLD)] == [init, add_partitions, produce, end]


def test_the_file_has_each_frame_behind_its_patches(tmp_path: Path) -> None:
    path = tmp_path / "requests"
    writers = PRODUCER.requests(NEW)
    write_requests(path, writers)
    data, at = path.read_bytes(), 0
    kinds = []
    for writer in writers:
        length, count = struct.unpack_from("<II", data, at)
        patches = [struct.unpack_from("<II", data, at + 8 + 8 * number) for number in range(count)]
        kinds.append([kind for kind, _ in patches])
        assert [position for _, position in patches] == list(writer.marks.values())
        at += 8 + 8 * count + length
        assert data[at - length : at] == writer.frame()
    assert at == len(data)
    assert kinds == [[], [2, 2], [1, 3], [1]]
