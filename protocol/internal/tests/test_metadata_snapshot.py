"""Snapshots of metadata: Kafka's layout byte for byte, and nothing that is damaged or cut passes for one."""

import pytest

from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal.metadata import FeatureLevelRecord, MetadataRecord, ProducerIdsRecord
from headgate.protocol.internal.metadata_snapshot import RECORDS_A_BATCH, RECORDS_A_STEP, decode_all, encode_steps
from headgate.protocol.records import batch, control
from headgate.protocol.steps import finish

EPOCH, NOW_MS = 3, 1_700_000_000_000


def records(count: int) -> list[MetadataRecord]:
    return [ProducerIdsRecord(broker_id=1, next_producer_id=number) for number in range(count)]


def encoded(count: int) -> bytes:
    return bytes(finish(encode_steps(records(count), EPOCH, NOW_MS)))


@pytest.mark.parametrize("count", [0, 1, RECORDS_A_BATCH, RECORDS_A_BATCH + 1, 3 * RECORDS_A_BATCH])
def test_encoded_records_are_decoded(count: int) -> None:
    assert decode_all(encoded(count)) == records(count)


def test_offsets_count_from_0() -> None:
    headers = [header for header, _ in batch.split(encoded(250))]
    assert [(header.base_offset, header.records_count) for header in headers] == [
        (0, 1),
        (1, 100),
        (101, 100),
        (201, 50),
        (251, 1),
    ]
    assert [header.is_control for header in headers] == [True, False, False, False, True]
    assert {(header.partition_leader_epoch, header.max_timestamp) for header in headers} == {(EPOCH, NOW_MS)}


def test_header_and_footer_have_kafkas_bytes() -> None:
    """Keys: version, type. Values: SnapshotHeaderRecord, SnapshotFooterRecord of version 0, without tagged fields."""
    (_, first), (_, last) = batch.split(encoded(0))
    (header,), (footer,) = batch.iterate(first), batch.iterate(last)
    assert (header.key, header.value) == (b"\0\0\0\3", b"\0\0" + NOW_MS.to_bytes(8, "big") + b"\0")
    assert (footer.key, footer.value) == (b"\0\0\0\4", b"\0\0" + b"\0")
    assert control.TYPE_NAMES[control.decode(header.key, header.value)[0]] == "SNAPSHOT_HEADER"


def test_encoding_yields_often() -> None:
    assert len(list(encode_steps(records(3 * RECORDS_A_BATCH), EPOCH, NOW_MS))) == 3 * RECORDS_A_BATCH // RECORDS_A_STEP


def test_any_changed_byte_is_refused() -> None:
    """Not those that no checksum covers either: but for the leader epoch, which says nothing here."""
    sound, accepted = encoded(3), set[int]()
    for at in range(len(sound)):
        data = bytearray(sound)
        data[at] ^= 0x10
        try:
            decode_all(bytes(data))
        except MalformedRequest:
            continue
        accepted.add(at)
    starts = [0]
    for header, _ in batch.split(sound):
        starts.append(starts[-1] + header.size)
    assert accepted == {start + 12 + byte for start in starts[:-1] for byte in range(4)}


def test_a_missing_part_is_refused() -> None:
    sound = encoded(150)
    for size in range(len(sound)):
        with pytest.raises(MalformedRequest):
            decode_all(sound[:size])
    pieces = [bytes(view) for _, view in batch.split(sound)]
    for number in range(len(pieces)):
        with pytest.raises(MalformedRequest):
            decode_all(b"".join(pieces[:number] + pieces[number + 1 :]))


def test_a_record_of_a_newer_version_is_refused() -> None:
    data = bytes(finish(encode_steps([FeatureLevelRecord(name="f", feature_level=1)], EPOCH, NOW_MS)))
    pieces = [view for _, view in batch.split(data)]
    future = batch.build([batch.Record(timestamp=NOW_MS, value=bytes((1, 99, 0)))], base_offset=1)
    with pytest.raises(MalformedRequest, match="type 99"):
        decode_all(bytes(pieces[0]) + bytes(future) + bytes(pieces[2]))
