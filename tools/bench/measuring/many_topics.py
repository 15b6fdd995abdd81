"""Ten thousand topics of one empty partition, made once a run for all rows that need many of them."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from headgate.tools.bench.measuring.target import Target, Topic
from headgate.tools.bench.requests import frames, many_frames
from headgate.tools.bench.requests.client import METADATA_WITH_IDS, BenchError, Client, Reader, read_metadata

MANY_TOPICS: Final = 10_000
_AT_ONCE: Final = 500
_ANSWERED_WITHIN_SECONDS: Final = 120.0
_SERVED_WITHIN_SECONDS: Final = 600.0
_PAUSE_SECONDS: Final = 0.1
_NO_TOPIC: Final = 3  # UNKNOWN_TOPIC_OR_PARTITION


def many_topics(target: Target, count: int = MANY_TOPICS) -> list[Topic]:
    """At least so many, each of them served. Apache Kafka takes a minute or more to make them."""
    client = target.broker.client
    names = [f"many-{number:05}" for number in range(len(target.many), count)]
    for chunk in chunks(names):
        check_errors(client, many_frames.create_topics(chunk), read_created)
    for chunk in chunks(names):
        target.many += served(client, chunk)
    return target.many[:count]


def chunks(names: Sequence[str], size: int = _AT_ONCE) -> list[Sequence[str]]:
    return [names[first : first + size] for first in range(0, len(names), size)]


def check_errors(
    client: Client, request: frames.RequestWriter, read: Callable[[Reader], list[int]], tolerated: int = 0
) -> None:
    """Raises BenchError for an error code in the answer that is neither 0 nor `tolerated`."""
    reader = client.call(request, _ANSWERED_WITHIN_SECONDS)
    reader.number("i")  # throttle time
    errors = [error for error in read(reader) if error not in (0, tolerated)]
    if errors:
        raise BenchError(f"request {request.key} v{request.version}: error code {errors[0]} in {len(errors)} rows")


def delete(client: Client, names: Sequence[str]) -> None:
    """Delete those of the topics that exist."""
    check_errors(client, many_frames.delete_topics(names), read_deleted, tolerated=_NO_TOPIC)


def read_created(reader: Reader) -> list[int]:
    """The error codes of a CreateTopics answer v7, from its topics on."""
    errors = []
    for _ in range(reader.count()):
        reader.string()
        reader.raw(16)
        errors.append(reader.number("h"))
        reader.string()
        reader.raw(6)  # partitions and replicas
        for _config in range(reader.count()):
            reader.string()
            reader.string()
            reader.raw(3)
            reader.tags()
        reader.tags()
    return errors


def read_deleted(reader: Reader) -> list[int]:
    """The error codes of a DeleteTopics answer v5, from its topics on."""
    errors = []
    for _ in range(reader.count()):
        reader.string()
        errors.append(reader.number("h"))
        reader.string()
        reader.tags()
    return errors


def read_committed(reader: Reader) -> list[int]:
    """The error codes of an OffsetCommit answer v8, from its topics on."""
    errors = []
    for _ in range(reader.count()):
        reader.string()
        for _partition in range(reader.count()):
            reader.number("i")
            errors.append(reader.number("h"))
            reader.tags()
        reader.tags()
    return errors


def served(client: Client, names: Sequence[str]) -> list[Topic]:
    """The topics, once Metadata names a leader of each and each answers for its end. Raises BenchError after 600 s."""
    deadline = time.monotonic() + _SERVED_WITHIN_SECONDS
    while True:
        reader = client.call(frames.metadata(METADATA_WITH_IDS, list(names)), _ANSWERED_WITHIN_SECONDS)
        topics = read_metadata(reader, METADATA_WITH_IDS).topics
        if all(topic.is_ready(1) for topic in topics) and not any(_end_errors(client, names)):
            return [Topic(topic.name or "", topic.topic_id, 1) for topic in topics]
        if time.monotonic() > deadline:
            raise BenchError(f"{names[0]} and others are not served after {_SERVED_WITHIN_SECONDS:g} s")
        time.sleep(_PAUSE_SECONDS)


def _end_errors(client: Client, names: Sequence[str]) -> list[int]:
    reader = client.call(frames.list_latest_offsets_of(dict.fromkeys(names, 1)), _ANSWERED_WITHIN_SECONDS)
    errors = []
    for _ in range(reader.count()):
        reader.string()
        reader.count()
        reader.number("i")
        errors.append(reader.number("h"))
        reader.raw(16)  # time and offset
    return errors
