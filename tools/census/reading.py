"""The census of a cluster, read from its topic over the wire."""

from __future__ import annotations

from functools import partial
from typing import Final

from headgate.protocol.census.records import CensusRecords
from headgate.protocol.census.rows import TOPIC
from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.records import batch
from headgate.protocol.records.batch import HEADER_SIZE
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import Client, ClientError
from headgate.tools.client.cluster import Answers, Cluster
from headgate.tools.groups.offsets import CONSUMER_REPLICA_ID, is_unknown_partition, list_ends

PARTITION: Final = TopicPartition(TOPIC, 0)
NO_CENSUS: Final = (
    f"the cluster has no census: there is no topic {TOPIC}. A Headgate with headgate.census=true creates the topic a"
    " minute after its first client"
)
PIECE_BYTES: Final = 1 << 20
_NEWEST_WITH_NAMES: Final = 12
_OLDEST_WITH_BATCHES: Final = 4


def read_census(cluster: Cluster) -> CensusRecords:
    """All records of the census. Raises ClientError, also if there is none, or no leader answers."""
    ends = list_ends(cluster, [PARTITION])
    if ends.failed:
        raise ClientError(_sentence(ends.failed[PARTITION]))
    records, offset, end = CensusRecords(), ends.starts[PARTITION], ends.ends[PARTITION]
    while offset < end:
        found, failed = cluster.ask_leaders([PARTITION], partial(_fetch, offset))
        if failed:
            raise ClientError(_sentence(failed[PARTITION]))
        next_offset = _replay(found[PARTITION], offset, records)
        if next_offset == offset:  # the records that were there are compacted away
            break
        offset = next_offset
    return records


def _sentence(failure: Failure) -> str:
    return NO_CENSUS if is_unknown_partition(failure) else f"the census cannot be read: {failure}"


def _fetch(offset: int, client: Client, _partitions: list[TopicPartition]) -> Answers[TopicPartition, bytes]:
    version = client.version(FetchRequest, newest=_NEWEST_WITH_NAMES, oldest=_OLDEST_WITH_BATCHES)
    wanted = FetchPartition(partition=PARTITION.number, fetch_offset=offset, partition_max_bytes=PIECE_BYTES)
    topic = FetchTopic(topic=TOPIC, partitions=[wanted])
    request = FetchRequest(replica_id=CONSUMER_REPLICA_ID, min_bytes=1, max_bytes=PIECE_BYTES, topics=[topic])
    for row in (row for found in client.ask(request, version).responses for row in found.partitions):
        yield PARTITION, Failure.of(row.error_code) if row.error_code else bytes(row.records or b"")


def _replay(data: bytes, offset: int, records: CensusRecords) -> int:
    """Replay the whole batches of a piece. Returns the offset behind them. Raises ClientError for a damaged one."""
    view, position = memoryview(data), 0
    try:
        while len(data) - position >= HEADER_SIZE:
            header = batch.read_header(view, position)
            if header.size > len(data) - position:
                break
            if not header.is_control:
                for record in batch.iterate(view[position : position + header.size]):
                    records.replay(record.key, record.value)
            position += header.size
            offset = header.last_offset + 1
    except KafkaError as error:
        raise ClientError(f"{TOPIC} is damaged behind offset {offset}: {error.message}") from None
    return offset
