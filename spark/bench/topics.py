"""Fills a topic with equal batches, as fast as a broker takes them: each batch is built once and sent many times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Final

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.records import batch, compression
from headgate.protocol.records.batch import Record
from headgate.tools.client.client import Client, ClientError

BATCH_BYTES: Final = 16 << 10  # batch.size of Kafka's Java producer, by default
_DIFFERENT = 50
_SENT_AHEAD = 8
_FIRST_MS = 1_700_000_000_000
_PRODUCE = 9


def values(size: int, count: int, random: Random, *, compressible: bool) -> list[bytes]:
    """Values of this size: random bytes, or documents that a codec makes about four times smaller."""
    if not compressible:
        return [random.randbytes(size) for _ in range(count)]
    return [_document(size, random) for _ in range(count)]


def _document(size: int, random: Random) -> bytes:
    rows: list[object] = []
    while len(text := json.dumps(rows)) < size:
        city = random.choice(("Lisbon", "Oslo", "Nairobi", "Lima"))
        rows.append({"customer": random.randrange(10**9), "city": city, "total": random.randrange(10**6) / 100})
    return text[:size].encode()


def batches(size: int, codec: int, seed: int = 1) -> tuple[list[bytes], int]:
    """Different batches of about BATCH_BYTES, with keys, and the count of records in each."""
    random = Random(seed)
    plain = BATCH_BYTES * (4 if codec else 1)
    count = max(1, plain // (size + 16))
    made = []
    for number in range(_DIFFERENT):
        contents = values(size, count, random, compressible=bool(codec))
        records = [
            Record(timestamp=_FIRST_MS + number * count + index, key=b"%08x" % random.getrandbits(32), value=content)
            for index, content in enumerate(contents)
        ]
        made.append(bytes(batch.build(records, compression=codec)))
    return made, count


def fill(bootstrap: str, topic: str, partitions: int, count: int, size: int, codec: str) -> int:
    """Append at least `count` records to a topic of one broker; return their number. Raises ClientError."""
    made, in_each = batches(size, compression.CODEC_NAMES.index(codec))
    rounds = -(-count // (in_each * partitions))
    with Client(bootstrap) as client:
        waiting = 0
        for request in _requests(topic, partitions, made, rounds):
            client.send(request, _PRODUCE)
            waiting += 1
            if waiting == _SENT_AHEAD:
                _check(client)
                waiting -= 1
        for _ in range(waiting):
            _check(client)
    return rounds * in_each * partitions


def _requests(topic: str, partitions: int, made: list[bytes], rounds: int) -> Iterator[ProduceRequest]:
    for number in range(rounds):
        rows = [
            PartitionProduceData(index=index, records=made[(number + index) % len(made)]) for index in range(partitions)
        ]
        yield ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=rows)])


def _check(client: Client) -> None:
    for topic in client.receive().responses:
        for row in topic.partition_responses:
            if row.error_code:
                raise ClientError(f"{topic.name}-{row.index}: {ErrorCode(row.error_code).name}")
