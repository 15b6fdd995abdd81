"""The options of the format `headgate` for reading: names, defaults, and what each is for.

Names are those of Spark's "Structured Streaming + Kafka Integration Guide"; case does not matter. An option is
honoured, has no effect on the rows (and is accepted, so that a job may keep it), or is refused with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Option(NamedTuple):
    """An option: its name as documented, the default as text, and its meaning."""

    name: str
    default: str
    meaning: str


_READ: Final = (
    Option("subscribe", "", "topics to read, separated by commas"),
    Option("subscribePattern", "", "a regular expression; topics whose names contain a match are read"),
    Option("assign", "", 'partitions to read: {"topicA":[0,1]}'),
    Option("startingOffsets", "earliest (batch), latest (stream)", 'earliest, latest, or {"topicA":{"0":23,"1":-2}}'),
    Option("startingOffsetsByTimestamp", "", 'times in ms of each partition: {"topicA":{"0":1700000000000}}'),
    Option("startingTimestamp", "", "a time in ms for all partitions"),
    Option("startingOffsetsByTimestampStrategy", "error", "error or latest, if no record is that new"),
    Option("endingOffsets", "latest", 'batch only: latest, or {"topicA":{"0":50,"1":-1}}'),
    Option("endingOffsetsByTimestamp", "", "batch only: times in ms of each partition"),
    Option("endingTimestamp", "", "batch only: a time in ms for all partitions"),
    Option("failOnDataLoss", "true", "false: go on where records are gone, and say so in the log"),
    Option("includeHeaders", "false", "true: a column of headers"),
    Option("pushFilters", "false", "batch only: use pushed filters; give each filtered query a load() of its own"),
    Option("minPartitions", "", "split large ranges until there are about so many tasks"),
    Option("maxRecordsPerPartition", "", "split ranges of more offsets than this"),
    Option("maxOffsetsPerTrigger", "", "stream only: the largest batch, in offsets"),
    Option("minOffsetsPerTrigger", "", "stream only: wait for so many offsets"),
    Option("maxTriggerDelay", "15m", "stream only: the longest wait for minOffsetsPerTrigger"),
    Option("fetchOffset.numRetries", "3", "attempts if the broker reports an end before a known offset"),
    Option("fetchOffset.retryIntervalMs", "1000", "the time between these attempts"),
    Option("kafkaConsumer.pollTimeoutMs", "120000", "the longest wait of a task for a broker"),
    Option("groupIdPrefix", "", "no effect: no consumer group takes part"),
    Option("logDirs", "", "log directories of a broker, separated by commas: read files, not the broker's answers"),
    Option("kafka.bootstrap.servers", "", "host:port,...; needed unless logDirs is given"),
    Option("kafka.isolation.level", "read_uncommitted", "read_committed hides aborted and open transactions"),
    Option("kafka.max.partition.fetch.bytes", "8388608", "the size of a response"),
    Option("kafka.fetch.max.bytes", "52428800", "the same: the smaller one counts"),
    Option("kafka.fetch.max.wait.ms", "500", "how long a broker may wait for new records"),
    Option("kafka.request.timeout.ms", "30000", "the longest wait of the driver for a broker"),
)

READ_OPTIONS: Final[Mapping[str, Option]] = {option.name.lower(): option for option in _READ}
"""Honoured options by lower-case name."""

WITHOUT_EFFECT: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "check.crcs",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "internal.leave.group.on.close",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
"""Settings of Kafka's consumer that change its speed, its metrics or its group, and no row."""

_SECURITY: Final = "Headgate's client speaks PLAINTEXT only; use the format `kafka` for TLS and SASL"

REFUSED_SETTINGS: Final[Mapping[str, str]] = {
    "auto.offset.reset": "startingOffsets says where reading starts",
    "enable.auto.commit": "Spark keeps the positions in its checkpoint; nothing is committed while reading",
    "interceptor.classes": "interceptors are classes of Java, and may change records",
    "key.deserializer": "keys are bytes; decode them with expressions of Spark",
    "value.deserializer": "values are bytes; decode them with expressions of Spark",
    "metric.reporters": "reporters are classes of Java",
    "config.providers": "providers are classes of Java",
}

REFUSED_PREFIXES: Final[Mapping[str, str]] = {"ssl.": _SECURITY, "sasl.": _SECURITY, "security.": _SECURITY}

REFUSED_OPTIONS: Final[Mapping[str, str]] = {
    "topic": "it names the topic of a write; a read takes subscribe",
    "path": "topics are named by subscribe, log directories by logDirs: call load() without a path",
}
