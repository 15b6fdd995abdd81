"""Snapshots of the metadata log: the records of the image at one offset, in Apache Kafka's layout (KIP-630).

A snapshot is a sequence of record batches. Its records have their own offsets, from 0 on:

    control batch    SNAPSHOT_HEADER: version i16 = 0 | timestamp of the last covered record i64 | tagged fields
    batches          metadata records, as in the log
    control batch    SNAPSHOT_FOOTER: version i16 = 0 | tagged fields

The footer proves that the snapshot is complete. Source: Kafka's `SnapshotHeaderRecord.json`,
`SnapshotFooterRecord.json`, `RecordsSnapshotWriter`, `RecordsSnapshotReader`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from headgate.protocol.errors import KafkaError, MalformedRequest
from headgate.protocol.internal.metadata import MetadataRecord, decode, encode
from headgate.protocol.records import batch, control
from headgate.protocol.records.batch import BatchHeader, Record
from headgate.protocol.steps import Steps

RECORDS_A_BATCH = 100
RECORDS_A_STEP = 10
"""The encoding yields after so many records, some ten microseconds of work."""

_VERSION = 0
_HEADER, _FOOTER = control.TYPE_NAMES.index("SNAPSHOT_HEADER"), control.TYPE_NAMES.index("SNAPSHOT_FOOTER")
_KEY = struct.Struct(">hh")
_HEADER_VALUE = struct.Struct(">hqB")  # the last byte counts the tagged fields
_FOOTER_VALUE = struct.Struct(">hB")


def encode_steps(records: Iterable[MetadataRecord], epoch: int, now_ms: int) -> Steps[bytearray]:
    """Encode a snapshot in steps. `epoch`: the leader epoch of the last record that the snapshot covers."""
    data = _control(_HEADER, _HEADER_VALUE.pack(_VERSION, now_ms, 0), 0, epoch, now_ms)
    offset = 1
    rows: list[Record] = []
    for record in records:
        rows.append(Record(timestamp=now_ms, value=encode(record)))
        if len(rows) == RECORDS_A_BATCH:
            data += batch.build(rows, base_offset=offset, leader_epoch=epoch)
            offset += len(rows)
            rows.clear()
        if not len(rows) % RECORDS_A_STEP:
            yield
    if rows:
        data += batch.build(rows, base_offset=offset, leader_epoch=epoch)
        offset += len(rows)
    data += _control(_FOOTER, _FOOTER_VALUE.pack(_VERSION, 0), offset, epoch, now_ms)
    return data


def _control(kind: int, value: bytes, offset: int, epoch: int, now_ms: int) -> bytearray:
    record = Record(timestamp=now_ms, key=_KEY.pack(_VERSION, kind), value=value)
    return batch.build([record], base_offset=offset, is_control=True, leader_epoch=epoch)


def decode_all(data: bytes) -> list[MetadataRecord]:
    """Return all records of a snapshot. Raises MalformedRequest if it is damaged, cut, or of a newer version."""
    try:
        return _decode_batches(batch.split(data))
    except KafkaError as error:
        raise MalformedRequest(error.message) from None


def _decode_batches(batches: list[tuple[BatchHeader, memoryview]]) -> list[MetadataRecord]:
    if len(batches) < 2:
        raise MalformedRequest(f"a snapshot of {len(batches)} batches has no header and footer")
    records: list[MetadataRecord] = []
    offset, last = 0, len(batches) - 1
    for number, (header, view) in enumerate(batches):
        if header.base_offset != offset:
            raise MalformedRequest(f"a batch has offset {header.base_offset}, but {offset} is the next")
        if not batch.check_crc(view):
            raise MalformedRequest(f"the checksum of the batch at offset {offset} is wrong")
        offset = header.last_offset + 1
        if number in (0, last):
            _check_control(header, view, _FOOTER if number else _HEADER)
        elif header.is_control:
            raise MalformedRequest(f"a control batch is at offset {header.base_offset}, between the records")
        else:
            records += [decode(record.value or b"") for record in batch.iterate(view)]
    return records


def _check_control(header: BatchHeader, view: memoryview, kind: int) -> None:
    record = next(batch.iterate(view))
    found, _ = control.decode(record.key, record.value)
    if not header.is_control or found != kind:
        raise MalformedRequest(f"there is no {control.TYPE_NAMES[kind]} at offset {header.base_offset}")
