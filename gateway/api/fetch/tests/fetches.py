"""Fetches for tests: requests, what is in the log, and what comes of it."""

import os
from typing import Any

import pytest

from headgate.gateway.runtime.tests.fake_scheduler import HeldThreads
from headgate.gateway.tests.builders import HandlerBroker, parked
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from headgate.protocol.records.batch import Record, build
from headgate.storage.files import File
from headgate.storage.log.validation import CONVERTED
from headgate.storage.segment.file_slice import FileSlice

NOW_MS = 1_700_000_000_000


def append(node: HandlerBroker, name: str, *values: bytes, index: int = 0) -> int:
    """Append one batch; returns its size in bytes."""
    batch = build([Record(timestamp=NOW_MS, value=value) for value in values])
    node.services.partitions.get(name, index).append(memoryview(batch), 1, NOW_MS)
    return len(batch)


RECORDS = [
    Record(0, NOW_MS, b"key", b"value", [("name", b"content")]),
    Record(1, NOW_MS + 1, None, None, []),
    Record(2, NOW_MS + 2, b"", bytes(1_000), []),
]


def put(node: HandlerBroker, *records: Record, codec: int = 0, name: str = "t", index: int = 0, **options: Any) -> int:
    """Append one batch; returns the offset behind it."""
    partition = node.services.partitions.get(name, index)
    batch = build(records or RECORDS, compression=codec, **options)
    return partition.append(memoryview(batch), 1, NOW_MS, CONVERTED).last_offset + 1


def old(node: HandlerBroker, version: int, *partitions: FetchPartition, **options: Any) -> Any:
    """What the handler makes of a fetch of topic t."""
    return node.handle(request(wanted(node, "t", version, *partitions), **options), version)


def wanted(node: HandlerBroker, name: str, version: int, *partitions: FetchPartition) -> FetchTopic:
    topic = node.services.metadata.image.topics.get(name)
    topic_id = bytes(range(16)) if topic is None else topic.topic_id
    return FetchTopic(topic=name, topic_id=topic_id if version >= 13 else bytes(16), partitions=list(partitions))


def from_offset(offset: int, index: int = 0, max_bytes: int = 1 << 20, **options: Any) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **options)


def request(*topics: FetchTopic, **options: Any) -> FetchRequest:
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **options}, topics=list(topics))


def rows(response: Any) -> list[Any]:
    assert isinstance(response, FetchResponse)
    return [row for topic in response.responses for row in topic.partitions]


def sizes(response: Any) -> list[int]:
    """Bytes of every row; gives the pieces back."""
    found = []
    for row in rows(response):
        found.append(len(row.records))
        if isinstance(row.records, FileSlice):
            row.records.release()
    return found


def parked_fetch(node: HandlerBroker, fetch: FetchRequest, version: int = 12) -> list[Any]:
    """Where the answer of a fetch that has to wait comes."""
    return parked(node, node.handle(fetch, version))


def let_cool(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> HeldThreads:
    """Nothing on the disk is in memory until a thread has read it; the threads, which a test lets run."""
    brought: set[tuple[int, int]] = set()

    def read_cached(file: File, length: int, position: int) -> bytes | None:
        return file.read_at(length, position) if (os.fstat(file.fileno).st_ino, position) in brought else None

    def warm(file: File, length: int, position: int) -> None:
        brought.add((os.fstat(file.fileno).st_ino, position))

    monkeypatch.setattr(File, "read_cached", read_cached)
    monkeypatch.setattr(File, "warm", warm)
    return node.time.scheduler.hold()
