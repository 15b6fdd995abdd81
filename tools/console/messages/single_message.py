"""One message by its partition and offset: all its fields, or the bytes of a part."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.messages import rows
from headgate.tools.console.messages.fetching import PieceFetcher
from headgate.tools.console.messages.query import MessageQuery
from headgate.tools.console.messages.record_batches import FetchedMessage, PieceReader
from headgate.tools.console.messages.rows import MessageDecoder
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.groups.offsets import READ_COMMITTED, list_ends

KEY, VALUE, HEADER, BATCH = "key", "value", "header", "batch"
PARTS: Final = (VALUE, KEY, HEADER, BATCH)
_LEAST_BYTES: Final = 4096


class MessageInBatch(NamedTuple):
    """A message, and the bytes of exactly its batch."""

    message: FetchedMessage
    content: memoryview


def read_details(cluster: Cluster, query: MessageQuery, decoder: MessageDecoder) -> dict[str, Any]:
    """All fields of the message at the query's only partition and its offset. Raises ClientError."""
    found = find(cluster, query)
    return rows.details(decoder.decode(found.message), found.content)


def read_part(cluster: Cluster, query: MessageQuery, parameters: Parameters) -> bytes:
    """The bytes of the key, the value, a header or the batch. Raises ClientError, BadParameter."""
    part = parameters.choice("part", PARTS)
    found = find(cluster, query)
    record = found.message.record
    if part == BATCH:
        return bytes(found.content)
    if part == HEADER:
        index = parameters.number("index")
        if index >= len(record.headers):
            raise BadParameter(f"the message has {len(record.headers)} headers; index={index} is none")
        return record.headers[index][1] or b""
    return (record.key if part == KEY else record.value) or b""


def find(cluster: Cluster, query: MessageQuery) -> MessageInBatch:
    """Raises ClientError if there is no such message."""
    [number], offset = query.partitions, query.offset
    partition = TopicPartition(query.topic, number)
    ends = list_ends(cluster, [partition], READ_COMMITTED)
    if partition in ends.failed:
        raise ClientError(f"{partition} cannot be read: {ends.failed[partition].text}")
    start, end = ends.starts[partition], ends.ends[partition]
    if not start <= offset < end:
        raise ClientError(f"{partition} has no offset {offset}; its offsets are from {start} to before {end}")
    fetcher = PieceFetcher(cluster, query.topic, {number: ends.stable[partition]}, is_committed=False)
    pieces, failures = fetcher.fetch({number: offset}, _LEAST_BYTES)
    if failures:
        raise ClientError(f"{partition} cannot be read: {failures[number].text}")
    reader = PieceReader(number, pieces[number])
    try:
        for message in reader.messages(offset):
            content = next(content for header, content in reader.batches() if header == message.header)
            return _exact(MessageInBatch(message, content), partition, offset)
    except KafkaError as error:
        raise ClientError(f"{partition}, offset {offset}: {error.message}") from None
    raise ClientError(f"{partition} has no message at offset {offset}: compaction has removed it")


def _exact(found: MessageInBatch, partition: TopicPartition, offset: int) -> MessageInBatch:
    """Raises ClientError for a later message."""
    at = found.message.record.offset
    if at != offset:
        raise ClientError(f"{partition} has no message at offset {offset}; the next one is at {at}")
    return found
