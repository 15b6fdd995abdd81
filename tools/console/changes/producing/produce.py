"""Write one message to a topic, with acks of all in-sync replicas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.client.key_partitioner import partition_of_key
from headgate.protocol.messages.metadata import MetadataResponseTopic
from headgate.protocol.records import batch
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.arguments import now_ms
from headgate.tools.client.cluster import Cluster
from headgate.tools.client.producing import append_batch
from headgate.tools.configs import describe_topic_configs
from headgate.tools.console.changes.plan import ChangeLine, ChangePlan, ChangeResult, counted
from headgate.tools.console.changes.producing.avro_content import AvroEncoder
from headgate.tools.console.changes.producing.message_parameters import WrittenMessage, parse_message, shorten_content
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resources.topics.topic import find_topic

_INTERNAL: Final = "{} belongs to the brokers: most of them refuse clients, and a wrong record there can stop groups"
_TOMBSTONE: Final = "without a value the message is a tombstone: compaction removes the key {}"
_KEPT_TOMBSTONE: Final = "{} is not compacted: a message without a value removes nothing there"
_UNKNOWN: Final = "the configs of {} cannot be read, so that cleanup.policy and max.message.bytes are not checked: {}"
_EMPTY: Final = "0 bytes: empty, and not null"


class _Choice(NamedTuple):
    """A partition, and the reason for it."""

    number: int
    reason: str


class _TopicConfigs(NamedTuple):
    """The configs that decide about a message; `unknown`: why they cannot be read."""

    is_compacted: bool | None = None
    max_message_bytes: int | None = None
    has_append_time: bool = False
    unknown: str = ""


def produce(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Write a message to `topic`. Raises BadParameter, ClientError.

    `partition`: its number; without one the key decides, and without a key `seed`, a number that the page has drawn.
    The other parameters are those of `parse_message`.
    """
    topic = find_topic(cluster, parameters.text("topic"))
    name = topic.name or ""
    message = parse_message(parameters, AvroEncoder(name, parameters))
    choice = _choose(topic, message.key, parameters)
    partition = TopicPartition(name, choice.number)
    configs = _read_configs(cluster, name)
    size_bytes = len(batch.build([message.record(0)]))
    is_internal = topic.is_internal or name.startswith("__")
    what = "tombstone" if message.value is None else "message"
    return ChangePlan(
        f"Write a {what} to {partition}: {_sizes(message)}",
        list(_lines(message, partition, choice, configs, size_bytes)),
        lambda cluster: _write(cluster, partition, message),
        problems=list(_problems(topic, choice.number, message, configs, size_bytes)),
        warnings=list(_warnings(name, message, configs, is_internal=is_internal)),
        confirmation=name if is_internal else "",
    )


def _choose(topic: MetadataResponseTopic, key: bytes | None, parameters: Parameters) -> _Choice:
    count = len(topic.partitions)
    if parameters.text("partition", ""):
        number = parameters.number("partition")
        if number >= count:
            present = f"its partitions are 0 to {count - 1}" if count > 1 else "its one partition is 0"
            raise BadParameter(f"{topic.name} has no partition {number}: {present}")
        return _Choice(number, "as given")
    if key is not None:
        return _Choice(partition_of_key(key, count), "by the key, as Kafka's Java producer")
    led = sorted(row.partition_index for row in topic.partitions if row.leader_id >= 0) or [0]
    return _Choice(led[parameters.number("seed", 0) % len(led)], "at random: there is no key")


def _read_configs(cluster: Cluster, name: str) -> _TopicConfigs:
    found, failed = describe_topic_configs(cluster, [name])
    for failure in failed.values():
        return _TopicConfigs(unknown=failure.text)
    values = {row.name: row.value or "" for row in found.get(name, ())}
    limit = values.get("max.message.bytes", "")
    return _TopicConfigs(
        is_compacted="compact" in values["cleanup.policy"] if "cleanup.policy" in values else None,
        max_message_bytes=int(limit) if limit.isdecimal() else None,
        has_append_time=values.get("message.timestamp.type") == "LogAppendTime",
    )


def _sizes(message: WrittenMessage) -> str:
    """Nothing of the content: the log has this."""
    key = "no key" if message.key is None else f"a key of {counted(len(message.key), 'byte')}"
    value = "no value" if message.value is None else f"a value of {counted(len(message.value), 'byte')}"
    return ", ".join([key, value, *([counted(len(message.headers), "header")] if message.headers else [])])


def _lines(
    message: WrittenMessage, partition: TopicPartition, choice: _Choice, configs: _TopicConfigs, size_bytes: int
) -> Iterator[ChangeLine]:
    yield ChangeLine("partition", None, str(partition), choice.reason)
    yield _content_line("key", message.key, "null, the message has no key")
    yield _content_line("value", message.value, "null, a tombstone")
    for part, schema in message.schemas.items():
        yield ChangeLine(f"schema of the {part}", None, schema, "Avro")
    for name, content in message.headers:
        yield _content_line(f"header {shorten_content(name.encode())}", content, "no value")
    time = "now" if message.timestamp_ms is None else f"{message.timestamp_ms} ms"
    yield ChangeLine("timestamp", None, time, "the topic has LogAppendTime" if configs.has_append_time else "")
    limit = configs.max_message_bytes
    note = "" if limit is None else f"max.message.bytes is {limit:,}"
    yield ChangeLine("batch", None, counted(size_bytes, "byte"), note)


def _content_line(subject: str, content: bytes | None, null: str) -> ChangeLine:
    if content is None:
        return ChangeLine(subject, None, shorten_content(content), null)
    return ChangeLine(subject, None, shorten_content(content), counted(len(content), "byte") if content else _EMPTY)


def _problems(
    topic: MetadataResponseTopic, number: int, message: WrittenMessage, configs: _TopicConfigs, size_bytes: int
) -> Iterator[str]:
    if configs.is_compacted and message.key is None:
        yield f"{topic.name} is compacted: its broker refuses messages without a key; an empty key is enough"
    limit = configs.max_message_bytes
    if limit is not None and size_bytes > limit:
        yield f"the message has {counted(size_bytes, 'byte')}, and max.message.bytes of {topic.name} is {limit:,}"
    if any(row.partition_index == number and row.leader_id < 0 for row in topic.partitions):
        yield f"{topic.name}-{number} has no leader at the moment; choose another partition, or try again later"


def _warnings(name: str, message: WrittenMessage, configs: _TopicConfigs, *, is_internal: bool) -> Iterator[str]:
    if is_internal:
        yield _INTERNAL.format(name)
    if configs.unknown:
        yield _UNKNOWN.format(name, configs.unknown)
    if message.value is None and message.key is not None:
        is_kept = configs.is_compacted is False
        yield _KEPT_TOMBSTONE.format(name) if is_kept else _TOMBSTONE.format(shorten_content(message.key))


def _write(cluster: Cluster, partition: TopicPartition, message: WrittenMessage) -> ChangeResult:
    appended = append_batch(cluster, partition, [message.record(now_ms())])
    if isinstance(appended, Failure):
        return ChangeResult([], [appended.text], {"link": ["/topics", partition.topic, "messages"]})
    number, offset = str(partition.number), str(appended.base_offset)
    search = {"start": "offset", "offset": offset, "partition": number, "at": f"{number}:{offset}"}
    return ChangeResult(
        [f"Written to {partition} at offset {offset}"],
        details={"link": ["/topics", partition.topic, "messages", search], "partition": number, "offset": offset},
    )
