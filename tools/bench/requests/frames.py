"""Request frames, written by hand from Kafka's message definitions, without `protocol`.

So no code of the broker under measurement takes part in its requests. A frame remembers the positions of the fields
that a load generator patches. Kafka is big-endian; from a message's first flexible version on, lengths are varints plus
one, and every struct ends with tags.
"""

import gzip
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count as count_from
from itertools import repeat
from typing import TypeVar

import cramjam
import crc32c

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 0, 1, 2, 3, 18, 19, 20
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = range(8, 15)
INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 22, 24, 25, 26, 28
DESCRIBE_CONFIGS, ELECT_LEADERS, INCREMENTAL_ALTER_CONFIGS = 32, 43, 44
DESCRIBE_TRANSACTIONS, CONSUMER_GROUP_HEARTBEAT = 65, 68
SASL_HANDSHAKE, CREATE_ACLS, SASL_AUTHENTICATE, ALTER_CLIENT_QUOTAS, ALTER_USER_SCRAM_CREDENTIALS = 17, 30, 36, 49, 51
_NEVER = 1 << 15
FLEXIBLE_SINCE = {
    PRODUCE: 9,
    FETCH: 12,
    LIST_OFFSETS: 6,
    METADATA: 9,
    OFFSET_COMMIT: 8,
    OFFSET_FETCH: 6,
    FIND_COORDINATOR: 3,
    JOIN_GROUP: 6,
    HEARTBEAT: 4,
    LEAVE_GROUP: 4,
    SYNC_GROUP: 4,
    API_VERSIONS: 3,
    CREATE_TOPICS: 5,
    DELETE_TOPICS: 4,
    INIT_PRODUCER_ID: 2,
    ADD_PARTITIONS_TO_TXN: 3,
    ADD_OFFSETS_TO_TXN: 3,
    END_TXN: 3,
    TXN_OFFSET_COMMIT: 3,
    DESCRIBE_CONFIGS: 4,
    ELECT_LEADERS: 2,
    INCREMENTAL_ALTER_CONFIGS: 1,
    DESCRIBE_TRANSACTIONS: 0,
    CONSUMER_GROUP_HEARTBEAT: 0,
    SASL_HANDSHAKE: _NEVER,
    CREATE_ACLS: 2,
    SASL_AUTHENTICATE: 2,
    ALTER_CLIENT_QUOTAS: 1,
    ALTER_USER_SCRAM_CREDENTIALS: 0,
}
CLIENT_ID = "bench"

T = TypeVar("T")


def varint(value: int) -> bytes:
    """Unsigned LEB128."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    """Signed LEB128 of at most 64 bits, as in records."""
    return varint((value << 1) ^ (value >> 63))


@dataclass(slots=True)
class RequestWriter:
    """Writes one request. `marks`: name -> position in the finished frame."""

    key: int
    version: int
    out: bytearray = field(default_factory=bytearray)
    marks: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.out += bytes(4) + struct.pack(">hhi", self.key, self.version, 0)
        self.out += struct.pack(">h", len(CLIENT_ID)) + CLIENT_ID.encode()
        self.tags()

    @property
    def flexible(self) -> bool:
        return self.version >= FLEXIBLE_SINCE[self.key]

    def mark(self, name: str) -> None:
        self.marks[name] = len(self.out)

    def int8(self, value: int) -> None:
        self.out += struct.pack(">b", value)

    def int16(self, value: int) -> None:
        self.out += struct.pack(">h", value)

    def int32(self, value: int) -> None:
        self.out += struct.pack(">i", value)

    def int64(self, value: int) -> None:
        self.out += struct.pack(">q", value)

    def float64(self, value: float) -> None:
        self.out += struct.pack(">d", value)

    def raw(self, value: bytes) -> None:
        self.out += value

    def length(self, value: int, code: str) -> None:
        """A length before its elements; -1 is null. `code`: the struct code of the length in versions without tags."""
        self.out += varint(value + 1) if self.flexible else struct.pack(">" + code, value)

    def string(self, value: str | None) -> None:
        encoded = (value or "").encode()
        self.length(-1 if value is None else len(encoded), "h")
        self.out += encoded

    def blob(self, value: bytes) -> None:
        self.length(len(value), "i")
        self.out += value

    def array(self, values: Iterable[T] | None, write: Callable[[T], None]) -> None:
        elements = None if values is None else list(values)
        self.length(-1 if elements is None else len(elements), "i")
        for element in elements or ():
            write(element)

    def tags(self) -> None:
        """No tagged fields: one zero byte where the version is flexible."""
        if self.flexible:
            self.out.append(0)

    def frame(self) -> bytes:
        struct.pack_into(">i", self.out, 0, len(self.out) - 4)
        return bytes(self.out)


def record(value: bytes, offset_delta: int, key: bytes | None = None) -> bytes:
    """A record of format v2 without headers, at the batch's base timestamp."""
    keyed = zigzag(-1) if key is None else zigzag(len(key)) + key
    body = b"\x00" + zigzag(0) + zigzag(offset_delta) + keyed + zigzag(len(value)) + value + zigzag(0)
    return zigzag(len(body)) + body


def compressed(codec: int, data: bytes) -> bytes:
    """The data compressed with a codec by Kafka's number: 0 none, 1 gzip, 3 lz4, 4 zstd."""
    match codec:
        case 0:
            return data
        case 1:
            return gzip.compress(data, mtime=0)
        case 3:
            lz4 = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
            lz4.compress(data)
            return bytes(lz4.finish())
        case 4:
            return bytes(cramjam.zstd.compress(data, level=3))
    raise ValueError(f"codec {codec}")


def message(magic: int, attributes: int, offset: int, timestamp_ms: int, value: bytes) -> bytes:
    """A message of format v0 or v1 without key."""
    time = struct.pack(">q", timestamp_ms) if magic else b""
    checked = struct.pack(">bb", magic, attributes) + time + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


def message_set(values: list[bytes], magic: int, codec: int = 0) -> bytes:
    """The message set of a producer before Kafka 0.11: plain messages, or one compressed message with all of them."""
    now_ms = time.time_ns() // 1_000_000
    messages = b"".join(message(magic, 0, number, now_ms, value) for number, value in enumerate(values))
    return message(magic, codec, len(values) - 1, now_ms, compressed(codec, messages)) if codec else messages


def batch(
    values: list[bytes], timestamp_ms: int | None = None, codec: int = 0, keys: Iterable[bytes | None] = repeat(None)
) -> bytes:
    """A record batch v2 of a producer without idempotence, with a valid CRC.

    The default timestamp is now: Kafka's retention would delete a batch from 1970 during a run.
    """
    now_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    records = compressed(codec, b"".join(map(record, values, count_from(), keys)))
    count = len(values)
    # attributes, last offset delta, base and max timestamp, producer id and epoch, base sequence, count
    checked = struct.pack(">hiqqqhii", codec, count - 1, now_ms, now_ms, -1, -1, -1, count) + records
    # base offset, length of the rest, partition leader epoch, magic, CRC
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c.crc32c(checked)) + checked


def api_versions(version: int = 0) -> RequestWriter:
    """ApiVersions 0 to 2, without fields."""
    return RequestWriter(API_VERSIONS, version)


def metadata(version: int, topics: list[str] | None) -> RequestWriter:
    """Metadata 1 to 13; None asks for all topics. Never creates a topic."""
    writer = RequestWriter(METADATA, version)

    def write_topic(name: str) -> None:
        if version >= 10:
            writer.raw(bytes(16))
        writer.string(name)
        writer.tags()

    writer.array(topics, write_topic)
    if version >= 4:
        writer.int8(0)
    if 8 <= version <= 10:
        writer.int8(0)
    if version >= 8:
        writer.int8(0)
    writer.tags()
    return writer


def create_topic(
    name: str,
    partitions: int,
    timeout_ms: int = 30_000,
    configs: Mapping[str, str] | None = None,
    assignments: Sequence[Sequence[int]] = (),
) -> RequestWriter:
    """CreateTopics v4, the broker's default configuration but for `configs`.

    `assignments`: the replicas of each partition by broker, in place of `partitions` with one replica each.
    """
    writer = RequestWriter(CREATE_TOPICS, 4)

    def write_topic(topic: str) -> None:
        writer.string(topic)
        writer.int32(-1 if assignments else partitions)
        writer.int16(-1 if assignments else 1)
        writer.array(enumerate(assignments), write_assignment)
        writer.array(configs or (), write_config)

    def write_assignment(numbered: tuple[int, Sequence[int]]) -> None:
        partition, replicas = numbered
        writer.int32(partition)
        writer.array(replicas, writer.int32)

    def write_config(config: str) -> None:
        writer.string(config)
        writer.string((configs or {})[config])

    writer.array([name], write_topic)
    writer.int32(timeout_ms)
    writer.int8(0)
    return writer


def elect_preferred_leaders(topic: str, partitions: int, timeout_ms: int = 30_000) -> RequestWriter:
    """ElectLeaders v1: every partition of the topic back to the first of its replicas."""
    writer = RequestWriter(ELECT_LEADERS, 1)
    writer.int8(0)  # preferred

    def write_topic(name: str) -> None:
        writer.string(name)
        writer.array(range(partitions), writer.int32)

    writer.array([topic], write_topic)
    writer.int32(timeout_ms)
    return writer


def incremental_alter_configs(kind: int, name: str, configs: Mapping[str, str]) -> RequestWriter:
    """IncrementalAlterConfigs v0: set configs of one resource. `kind` 2: a topic; 4: a broker, without a name all."""
    writer = RequestWriter(INCREMENTAL_ALTER_CONFIGS, 0)
    writer.int32(1)
    writer.int8(kind)
    writer.string(name)
    writer.int32(len(configs))
    for config, value in configs.items():
        writer.string(config)
        writer.int8(0)  # set
        writer.string(value)
    writer.int8(0)
    return writer


def list_latest_offsets(topic: str, partitions: int) -> RequestWriter:
    """ListOffsets v1 for the end of every partition of a topic."""
    return list_latest_offsets_of({topic: partitions})


def list_latest_offsets_of(topics: Mapping[str, int]) -> RequestWriter:
    """The same for several topics. `topics`: name -> number of partitions."""
    writer = RequestWriter(LIST_OFFSETS, 1)
    writer.int32(-1)  # replica id
    writer.int32(len(topics))
    for topic, partitions in topics.items():
        writer.string(topic)
        writer.int32(partitions)
        for partition in range(partitions):
            writer.int32(partition)
            writer.int64(-1)
    return writer


def delete_topic(name: str, timeout_ms: int = 30_000) -> RequestWriter:
    """DeleteTopics v3."""
    writer = RequestWriter(DELETE_TOPICS, 3)
    writer.array([name], writer.string)
    writer.int32(timeout_ms)
    return writer


def produce(
    version: int, topic: str, partition: int, records: bytes, topic_id: bytes = bytes(16), acks: int = 1
) -> RequestWriter:
    """Produce 0 to 13 for one partition."""
    return produce_each(version, topic, [partition], records, topic_id, acks)


def produce_each(
    version: int,
    topic: str,
    partitions: Iterable[int],
    records: bytes,
    topic_id: bytes = bytes(16),
    acks: int = 1,
    timeout_ms: int = 30_000,
) -> RequestWriter:
    """Produce 0 to 13 of the same records for each of these partitions of a topic."""
    writer = RequestWriter(PRODUCE, version)
    if version >= 3:
        writer.string(None)  # transactional id
    writer.int16(acks)
    writer.int32(timeout_ms)
    writer.length(1, "i")
    if version >= 13:
        writer.raw(topic_id)
    else:
        writer.string(topic)

    def write_partition(partition: int) -> None:
        writer.int32(partition)
        writer.blob(records)
        writer.tags()

    writer.array(partitions, write_partition)
    for _ in ("topic", "request"):
        writer.tags()
    return writer


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """The options of every fetch of a consumer."""

    max_bytes: int
    max_wait_ms: int = 500
    in_session: bool = False
    is_committed: bool = False
    """True: the isolation level is read_committed, from version 4 on."""


def fetch(version: int, topic: str, partition: int, wish: FetchOptions, topic_id: bytes = bytes(16)) -> RequestWriter:
    """Fetch 0 to 18 of one partition. Marks: `fetch_offset` (int64); in a session `session` (int32 id, int32 epoch)."""
    return fetch_of(version, [(topic, topic_id, [partition])], wish)


def fetch_of(version: int, topics: Iterable[tuple[str, bytes, Sequence[int]]], wish: FetchOptions) -> RequestWriter:
    """The same for several topics, each (name, id, partitions). No topics: those that a session (KIP-227) knows."""
    writer = RequestWriter(FETCH, version)
    if version <= 14:
        writer.int32(-1)  # replica id
    writer.int32(wish.max_wait_ms)
    writer.int32(1)
    if version >= 3:
        writer.int32(wish.max_bytes)
    if version >= 4:
        writer.int8(wish.is_committed)
    if version >= 7:
        if wish.in_session:
            writer.mark("session")
        writer.int32(0)
        writer.int32(0 if wish.in_session else -1)

    def write_topic(topic: tuple[str, bytes, Sequence[int]]) -> None:
        name, topic_id, partitions = topic
        if version >= 13:
            writer.raw(topic_id)
        else:
            writer.string(name)
        writer.array(partitions, lambda partition: _write_fetch_partition(writer, partition, wish.max_bytes))
        writer.tags()

    writer.array(topics, write_topic)
    if version >= 7:
        writer.length(0, "i")  # forgotten topics
    if version >= 11:
        writer.string("")  # rack
    writer.tags()
    return writer


def _write_fetch_partition(writer: RequestWriter, partition: int, max_bytes: int) -> None:
    writer.int32(partition)
    if writer.version >= 9:
        writer.int32(-1)  # current leader epoch
    writer.mark("fetch_offset")
    writer.int64(0)
    if writer.version >= 12:
        writer.int32(-1)  # last fetched epoch
    if writer.version >= 5:
        writer.int64(-1)  # log start offset
    writer.int32(max_bytes)
    writer.tags()
