"""Random batches with lying headers, produced to a broker, beside `LogValidator` and the lookups of Kafka 3.9 and 4.1.

Compared: which batches are refused, with which code and which records; the stored maximum timestamp, the record that
each time finds and the newest one, and the time of each producer. Where only headers are checked, a leader gets only
claims that it can see through; `docs/records.md` has the others.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from headgate.gateway.api.handlers.tests.records.test_claimed_times import NEWEST, find, produce
from headgate.gateway.tests.builders import NOW_MS, HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.records import batch, legacy
from headgate.protocol.records.batch import Record, read_header, split
from headgate.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from headgate.protocol.records.lz4 import with_broken_checksum
from headgate.protocol.records.message_set import encode
from headgate.protocol.records.tests.kafka39 import Kafka39, Kafka41, Refused
from headgate.protocol.records.tests.test_frame_headers import FAULTY

pytestmark = [pytest.mark.sockets, pytest.mark.slow]  # a child process

IS_SOAK = os.environ.get("HEADGATE_SOAK", "") not in {"", "0"}
SEED, BATCHES = (secrets.randbits(32), 3_000) if IS_SOAK else (32, 120)
BEFORE_MS, AFTER_MS = 1_000, 500
LIMITS = {"message.timestamp.before.max.ms": str(BEFORE_MS), "message.timestamp.after.max.ms": str(AFTER_MS)}
TOPICS: dict[str, tuple[str, dict[str, str]]] = {
    "header": ("header", {}),
    "full": ("full", {}),
    "compacted": ("header", {"cleanup.policy": "compact"}),
    "zstd": ("header", {"compression.type": "zstd"}),
    "append time": ("header", {"message.timestamp.type": "LogAppendTime"}),
}
# A broken stream is an unexpected exception in Kafka; ours names the fault
OF_UNKNOWN_SERVER_ERROR = {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}


@pytest.fixture(scope="module", params=[Kafka39, Kafka41])
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka39]:
    with request.param() as process:
        yield process


def times(random: Random) -> list[int]:
    """Mostly within the limits, in any order; some without a time."""
    spread = random.choice([0, 3, AFTER_MS, AFTER_MS + 40])
    start = NOW_MS + random.choice([0, 0, -BEFORE_MS + 40, -BEFORE_MS])
    some = [start + random.randint(-min(3, spread), spread) for _ in range(random.randint(1, 8))]
    return [-1 if random.random() < 0.05 else time for time in some]


def claim(random: Random, base: int, latest: int, *, is_visible: bool) -> int:
    """What a header may claim; if `is_visible`, the header alone shows that it cannot be right."""
    seen = [-1, base - 1, base - 1_000, 0, -(1 << 63), (1 << 63) - 1, NOW_MS + AFTER_MS + 1, NOW_MS * 1_000]
    seen = [one for one in seen if one < base or one > NOW_MS + AFTER_MS]
    return random.choice(seen if is_visible else [*seen, base, latest - 1, latest + 1, NOW_MS + AFTER_MS])


def random_batch(random: Random, number: int, topic: str) -> bytes:
    """A batch, or a set; its producer is its number."""
    codec = random.choice([NONE, NONE, GZIP, SNAPPY, LZ4, ZSTD])
    found = times(random)
    records = [
        Record(offset=at, timestamp=time, key=None if random.random() < 0.01 else b"k%d" % number, value=b"v" * at)
        for at, time in enumerate(found)
    ]
    if random.random() < 0.15:
        return random_set(random, records, codec if codec != ZSTD else NONE)
    data = batch.build(records, compression=codec, producer_id=number, producer_epoch=0, base_sequence=0)
    header = read_header(data)
    if random.random() < 0.1:
        codec, content = random.choice([*FAULTY.values()])
        return bytes(batch.with_records(header._replace(attributes=codec), content))
    is_visible = topic == "header" or (topic == "zstd" and codec == ZSTD)
    is_late = not all(time == -1 or -BEFORE_MS <= time - NOW_MS <= AFTER_MS for time in found)
    if random.random() < 0.7 or (is_late and is_visible):
        batch.set_max_timestamp(data, claim(random, header.base_timestamp, max(found), is_visible=is_visible))
    return bytes(data)


def random_set(random: Random, records: list[Record], codec: int) -> bytes:
    """A message set, whose wrapper claims any time."""
    magic = random.choice([0, 1])
    if codec == NONE:
        return bytes(legacy.build(records, magic))
    content = compress(codec, legacy.build(records, magic))
    if codec == LZ4 and magic == 0 and random.random() < 0.8:
        content = bytes(with_broken_checksum(content))
    return bytes(encode(magic, codec, len(records) - 1, random.choice([-1, NOW_MS, NOW_MS + AFTER_MS]), None, content))


def theirs(kafka: Kafka39, data: bytes, topic: str) -> bytes | tuple[ErrorCode, list[int]]:
    configs = TOPICS[topic][1]
    try:
        return kafka.validate(
            data,
            append_time="message.timestamp.type" in configs,
            compacted="cleanup.policy" in configs,
            now_ms=NOW_MS,
            before_ms=BEFORE_MS,
            after_ms=AFTER_MS,
            codec=ZSTD if topic == "zstd" else None,
        )
    except Refused as error:
        return error.code, error.indexes


def stored(node: HandlerBroker) -> bytes:
    log = node.services.partitions.get("t", 0).log
    data, offset = b"", 0
    while (piece := log.read(offset, 1 << 30, log.end_offset, at_least_one=True)) is not None:
        data += piece.read()
        offset = split(data)[-1][0].last_offset + 1
    return data


def is_like(code: ErrorCode, expected: ErrorCode) -> bool:
    return code in OF_UNKNOWN_SERVER_ERROR if expected is ErrorCode.UNKNOWN_SERVER_ERROR else code is expected


@pytest.mark.parametrize("topic", TOPICS)
def test_what_kafka_accepts_is_stored_and_found_alike(kafka: Kafka39, topic: str, tmp_path: Path) -> None:
    random = Random(f"{SEED} {topic}")
    node = HandlerBroker(tmp_path, headgate_validate_records=TOPICS[topic][0])
    node.services.metadata.create_topic("t", 1, configs={**LIMITS, **TOPICS[topic][1]})
    log = node.services.partitions.get("t", 0).log
    expected, refused = b"", 0
    for number in range(BATCHES):
        data = random_batch(random, number, topic)
        where = f"seed {SEED}, batch {number}: {data.hex()}"
        is_set = legacy.is_legacy(data)
        row = produce(node, data, 2 if is_set else 9)
        answer = theirs(kafka, data, topic)
        if not isinstance(answer, bytes):
            refused += 1
            assert is_like(ErrorCode(row.error_code), answer[0]), where
            assert is_set or [error.batch_index for error in row.record_errors] == answer[1], where
            continue
        assert (row.error_code, row.base_offset) == (ErrorCode.NONE, log.end_offset - _count(answer)), where
        for header, part in split(bytearray(answer)):
            batch.patch(part, row.base_offset + header.base_offset, 0)
            expected += part
        if not is_set:
            assert log.producers.by_id[number].last_timestamp == read_header(answer).max_timestamp, where
    assert refused > BATCHES // 20
    ours = stored(node)
    assert [_summary(part) for _, part in split(ours)] == [_summary(part) for _, part in split(expected)]
    assert log.segments[0].max_timestamp == max(header.max_timestamp for header, _ in split(expected))
    wanted = sorted(random.sample(range(NOW_MS - BEFORE_MS - 2, NOW_MS + AFTER_MS + 2), 60))
    found = [*(find(node, time) for time in wanted), find(node, NEWEST)]
    assert found == kafka.lookup(expected, wanted)
    node.close()


def _count(data: bytes) -> int:
    return sum(header.records_count for header, _ in split(data))


def _summary(data: memoryview) -> tuple[object, ...]:
    """What two stored batches share, whatever library has compressed them."""
    header = read_header(data)
    assert batch.check_crc(data)
    skipped = {"crc": 0, "batch_length": 0, "partition_leader_epoch": 0}
    return (*header._replace(**skipped), [(record.offset, record.timestamp) for record in batch.iterate(data)])
