"""Leader epochs in bytes: Metadata, ListOffsets, OffsetForLeaderEpoch and Fetch, as a consumer asks (KIP-320)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from compat_tests.groups.committed import Answer
from compat_tests.harness.wire import (
    FETCH,
    LIST_OFFSETS,
    METADATA,
    ask,
    connect,
    frame,
    receive_frame,
    request_header,
    string,
)

OFFSET_FOR_LEADER_EPOCH = 23
NO_EPOCH = -1
LATEST = -1
FETCH_VERSION = 12
MAX_BYTES = 1 << 20
NO_SESSION, ONLY_ONCE = 0, -1


class EpochEnd(NamedTuple):
    """The last epoch up to the one that was asked for, and the offset after its last record."""

    error: int
    epoch: int
    end_offset: int


class Fetched(NamedTuple):
    """A fetch of one partition; `diverging` is (epoch, end offset) where the two histories differ."""

    error: int
    high_watermark: int
    diverging: tuple[int, int] | None
    records_bytes: int


def leader_epoch(bootstrap: str, topic: str) -> tuple[int, int]:
    """(error, leader epoch) of partition 0, by Metadata v7."""
    with connect(bootstrap, 60) as stream:
        answer = Answer(ask(stream, METADATA, 7, struct.pack(">i", 1) + string(topic) + b"\0"))
    answer.take(">i")
    for _ in range(answer.take(">i")):
        answer.take(">i"), answer.text(), answer.take(">i"), answer.text()
    answer.text(), answer.take(">i"), answer.take(">i"), answer.take(">h")
    assert answer.text() == topic
    answer.take(">b"), answer.take(">i")
    error = answer.take(">h")
    answer.take(">i"), answer.take(">i")
    return error, answer.take(">i")


def epoch_end(bootstrap: str, topic: str, epoch: int, current_epoch: int = NO_EPOCH) -> EpochEnd:
    """OffsetForLeaderEpoch v3 of partition 0; `current_epoch` is the leader's, as the consumer knows it."""
    body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiii", 1, 0, current_epoch, epoch)
    with connect(bootstrap, 60) as stream:
        answer = ask(stream, OFFSET_FOR_LEADER_EPOCH, 3, body)
    error, _, found, end = struct.unpack(">hiiq", answer[-18:])
    return EpochEnd(error, found, end)


def end_with_epoch(bootstrap: str, topic: str) -> EpochEnd:
    """ListOffsets v4 of the end of partition 0: the error, the epoch there, and the offset."""
    one = struct.pack(">ibi", -1, 0, 1) + string(topic) + struct.pack(">iiiq", 1, 0, NO_EPOCH, LATEST)
    with connect(bootstrap, 60) as stream:
        answer = ask(stream, LIST_OFFSETS, 4, one)
    error, _, offset, epoch = struct.unpack(">hqqi", answer[-22:])
    return EpochEnd(error, epoch, offset)


def fetch(bootstrap: str, topic: str, offset: int, last_fetched_epoch: int, current_epoch: int = NO_EPOCH) -> Fetched:
    """Fetch v12 of partition 0, by a consumer whose last record was of that epoch."""
    partition = struct.pack(">iiqiqi", 0, current_epoch, offset, last_fetched_epoch, -1, MAX_BYTES) + b"\0"
    head = struct.pack(">iiiibii", -1, 0, 1, MAX_BYTES, 0, NO_SESSION, ONLY_ONCE)
    body = head + b"\x02" + _compact(topic) + b"\x02" + partition + b"\0" + b"\x01" + _compact("") + b"\0"
    with connect(bootstrap, 60) as stream:
        stream.sendall(frame(request_header(FETCH, FETCH_VERSION) + b"\0" + body))
        answer = _Flexible(receive_frame(stream))
    answer.skip(">iBi")  # correlation id, tags, throttle time
    assert answer.take(">h") == 0
    answer.skip(">i")
    assert answer.varint() == 1 + 1
    answer.data_of(answer.varint() - 1)
    assert answer.varint() == 1 + 1
    answer.skip(">i")
    error, high_watermark = answer.take(">h"), answer.take(">q")
    answer.skip(">qq")
    aborted = answer.varint() - 1
    assert aborted <= 0
    answer.skip(">i")
    size = max(answer.varint() - 1, 0)
    answer.data_of(size)
    return Fetched(error, high_watermark, _diverging(answer.tags()), size)


def _diverging(tags: dict[int, bytes]) -> tuple[int, int] | None:
    if 0 not in tags:
        return None
    epoch, end = struct.unpack_from(">iq", tags[0])
    return (epoch, end)


def _compact(text: str) -> bytes:
    assert len(text) < 0x7F
    return bytes([len(text) + 1]) + text.encode()


class _Flexible(Answer):
    """A response with the compact encodings of KIP-482."""

    def skip(self, layout: str) -> None:
        self.position += struct.calcsize(layout)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(">B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def data_of(self, size: int) -> bytes:
        self.position += size
        return self.data[self.position - size : self.position]

    def tags(self) -> dict[int, bytes]:
        return {self.varint(): self.data_of(self.varint()) for _ in range(self.varint())}
