"""The table of options of the formats `kafka` and `headgate`: names, uses, defaults, tuned values, refusals.

Names of Spark's own options and defaults: "Structured Streaming + Kafka Integration Guide" of Spark 4.1. Names after
`kafka.`: the settings of Kafka's consumer and producer 3.9, which the connector brings. Spark takes names in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple


class Use(Enum):
    """The use of a topic by a query."""

    BATCH = "batch"
    STREAM = "stream"
    WRITE = "write"


READS: Final = frozenset({Use.BATCH, Use.STREAM})
ALL: Final = frozenset(Use)


class Option(NamedTuple):
    """One option. `default` and `tuned`: as text, "" without one."""

    name: str
    uses: frozenset[Use]
    default: str
    summary: str
    tuned: str = ""


_BATCH, _STREAM, _WRITE = (frozenset({use}) for use in Use)

KAFKA_OPTIONS: Final = (
    Option("kafka.bootstrap.servers", ALL, "", "addresses of brokers: host:port,..."),
    Option("subscribe", READS, "", "topics: a,b"),
    Option("subscribePattern", READS, "", "a regular expression, found anywhere in a name"),
    Option("assign", READS, "", 'partitions: {"a":[0,1]}'),
    Option("startingOffsets", READS, "batch: earliest; stream: latest", 'earliest, latest or {"a":{"0":23,"1":-2}}'),
    Option("startingTimestamp", READS, "", "ms since 1970, for all partitions; before startingOffsets"),
    Option("startingOffsetsByTimestamp", READS, "", 'ms since 1970: {"a":{"0":1000}}'),
    Option("startingOffsetsByTimestampStrategy", READS, "error", "no record is so new: error or latest"),
    Option("endingOffsets", _BATCH, "latest", 'latest or {"a":{"0":50,"1":-1}}'),
    Option("endingTimestamp", _BATCH, "", "ms since 1970, for all partitions; before endingOffsets"),
    Option("endingOffsetsByTimestamp", _BATCH, "", 'ms since 1970: {"a":{"0":1000}}'),
    Option("failOnDataLoss", READS, "true", "false: go on where wanted records are gone"),
    Option("includeHeaders", ALL, "false", "true: a column headers"),
    Option("minPartitions", READS, "", "split into about so many tasks"),
    Option("maxRecordsPerPartition", READS, "", "split a task with more records"),
    Option("maxOffsetsPerTrigger", _STREAM, "", "at most so many offsets a batch"),
    Option("minOffsetsPerTrigger", _STREAM, "", "wait for so many offsets, up to maxTriggerDelay"),
    Option("maxTriggerDelay", _STREAM, "15m", "longest wait for minOffsetsPerTrigger"),
    Option("groupIdPrefix", READS, "spark-kafka-source", "prefix of the group ids that Spark makes"),
    Option("kafkaConsumer.pollTimeoutMs", READS, "120000", "a task's limit for one poll"),
    Option("fetchOffset.numRetries", READS, "3", "tries for the offsets of a batch"),
    Option("fetchOffset.retryIntervalMs", READS, "1000", "wait between these tries"),
    Option("topic", _WRITE, "", "the target of all rows; without it the column topic"),
    Option("kafka.isolation.level", READS, "read_uncommitted", "read_committed hides aborted and open transactions"),
    Option("kafka.max.poll.records", READS, "500", "records of one poll", "20000"),
    Option("kafka.max.partition.fetch.bytes", READS, "1048576", "a partition's bytes in one fetch", "16777216"),
    Option("kafka.fetch.min.bytes", READS, "1", "the broker waits for so many bytes", "1048576"),
    Option("kafka.compression.type", _WRITE, "none", "none, gzip, snappy, lz4 or zstd"),
)


HEADGATE_OPTIONS: Final = (
    Option("subscribe", READS, "", "topics to read, separated by commas"),
    Option("subscribePattern", READS, "", "a regular expression; topics whose names contain a match are read"),
    Option("assign", READS, "", 'partitions to read: {"topicA":[0,1]}'),
    Option(
        "startingOffsets", READS, "earliest (batch), latest (stream)", 'earliest, latest, or {"topicA":{"0":23,"1":-2}}'
    ),
    Option("startingOffsetsByTimestamp", READS, "", 'times in ms of each partition: {"topicA":{"0":1700000000000}}'),
    Option("startingTimestamp", READS, "", "a time in ms for all partitions"),
    Option("startingOffsetsByTimestampStrategy", READS, "error", "error or latest, if no record is that new"),
    Option("endingOffsets", _BATCH, "latest", 'latest, or {"topicA":{"0":50,"1":-1}}'),
    Option("endingOffsetsByTimestamp", _BATCH, "", "times in ms of each partition"),
    Option("endingTimestamp", _BATCH, "", "a time in ms for all partitions"),
    Option("failOnDataLoss", READS, "true", "false: go on where records are gone, and say so in the log"),
    Option("includeHeaders", READS, "false", "true: a column of headers"),
    Option("pushFilters", _BATCH, "false", "use pushed filters; give each filtered query a load() of its own"),
    Option("minPartitions", READS, "", "split large ranges until there are about so many tasks"),
    Option("maxRecordsPerPartition", READS, "", "split ranges of more offsets than this"),
    Option("maxOffsetsPerTrigger", _STREAM, "", "the largest batch, in offsets"),
    Option("minOffsetsPerTrigger", _STREAM, "", "wait for so many offsets"),
    Option("maxTriggerDelay", _STREAM, "15m", "the longest wait for minOffsetsPerTrigger"),
    Option("fetchOffset.numRetries", READS, "3", "attempts if the broker reports an end before a known offset"),
    Option("fetchOffset.retryIntervalMs", READS, "1000", "the time between these attempts"),
    Option("kafkaConsumer.pollTimeoutMs", READS, "120000", "the longest wait of a task for a broker"),
    Option("groupIdPrefix", READS, "", "no effect: no consumer group takes part"),
    Option(
        "logDirs", READS, "", "log directories of a broker, separated by commas: read files, not the broker's answers"
    ),
    Option("kafka.bootstrap.servers", READS, "", "host:port,...; needed unless logDirs is given"),
    Option("kafka.isolation.level", READS, "read_uncommitted", "read_committed hides aborted and open transactions"),
    Option("kafka.max.partition.fetch.bytes", READS, "8388608", "the size of a response"),
    Option("kafka.fetch.max.bytes", READS, "52428800", "the same: the smaller one counts"),
    Option("kafka.fetch.max.wait.ms", READS, "500", "how long a broker may wait for new records"),
    Option("kafka.request.timeout.ms", READS, "30000", "the longest wait of the driver for a broker"),
    Option("kafka.bootstrap.servers", _WRITE, "", "host:port,..."),
    Option("kafka.security.protocol", ALL, "PLAINTEXT", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
    Option("kafka.sasl.mechanism", ALL, "GSSAPI", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI"),
    Option("kafka.sasl.jaas.config", ALL, "", "the login module with user and password, or a delegation token"),
    Option("kafka.ssl.truststore.location", ALL, "", "the brokers' authority; a file on driver and executors"),
    Option("kafka.ssl.truststore.certificates", ALL, "", "the same as PEM here; kafka.ssl.truststore.type=PEM"),
    Option("topic", _WRITE, "", "the target of all rows; without it the column topic"),
    Option("name", _WRITE, "the query's name", "stream only: the sink's name in the cluster, the same at each start"),
    Option("queryName", _WRITE, "", "stream only: the sink's name, if there is no option name"),
    Option("checkpointLocation", _WRITE, "", "stream only: the folder of the query's checkpoint"),
    Option("group", _WRITE, "the sink's name", "stream only: the group that has the query's positions"),
    Option("once", _WRITE, "", "batch only: an id; a repeated write with the id of the last one writes nothing"),
    Option("kafka.compression.type", _WRITE, "none", "none, gzip, snappy, lz4 or zstd"),
    Option("kafka.transaction.timeout.ms", _WRITE, "600000", "the longest time of a batch"),
    Option("kafka.batch.size", _WRITE, "900000", "the largest batch of Kafka in bytes, before compression"),
    Option("kafka.delivery.timeout.ms", _WRITE, "120000", "the longest wait for a broker"),
    Option("kafka.acks", _WRITE, "all", "all: nothing else is exactly once"),
    Option("kafka.enable.idempotence", _WRITE, "true", "true: nothing else is exactly once"),
    Option("includeHeaders", _WRITE, "true", "the column headers is written if there is one"),
)
READ_OPTIONS, WRITE_OPTIONS = (
    {option.name.lower(): option for option in HEADGATE_OPTIONS if option.uses & uses} for uses in (READS, _WRITE)
)
"""The options of the format `headgate` by lower-case name."""

_COMMON: Final = """bootstrap.servers client.dns.lookup client.id connections.max.idle.ms enable.metrics.push
    interceptor.classes metadata.max.age.ms metadata.recovery.strategy
    metric.reporters auto.include.jmx.reporter metrics.num.samples metrics.recording.level metrics.sample.window.ms
    receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms
    retry.backoff.ms send.buffer.bytes security.protocol security.providers socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
    ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
    ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
    ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
    ssl.truststore.type"""
_CONSUMER: Final = """allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs client.rack
    default.api.timeout.ms enable.auto.commit exclude.internal.topics fetch.max.bytes fetch.max.wait.ms
    fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    isolation.level key.deserializer max.partition.fetch.bytes max.poll.interval.ms max.poll.records
    partition.assignment.strategy session.timeout.ms value.deserializer"""
_PRODUCER: Final = """acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level delivery.timeout.ms enable.idempotence key.serializer linger.ms max.block.ms
    max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys retries transaction.timeout.ms transactional.id value.serializer"""


def _settings(names: str) -> frozenset[str]:
    return frozenset(f"kafka.{name}" for name in names.split())


CONSUMER_SETTINGS: Final = _settings(_COMMON + " " + _CONSUMER)
PRODUCER_SETTINGS: Final = _settings(_COMMON + " " + _PRODUCER)


WITHOUT_EFFECT: Final = _settings(
    """allow.auto.create.topics auto.commit.interval.ms check.crcs client.dns.lookup client.id client.rack
    connections.max.idle.ms default.api.timeout.ms enable.metrics.push exclude.internal.topics fetch.min.bytes
    group.id group.instance.id group.protocol heartbeat.interval.ms internal.leave.group.on.close
    max.poll.interval.ms max.poll.records metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
    metadata.recovery.strategy metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partition.assignment.strategy receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    retry.backoff.max.ms retry.backoff.ms send.buffer.bytes session.timeout.ms
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms"""
)
"""Settings of Kafka's consumer that change its speed, its metrics or its group, and no row: `headgate` accepts them."""

KAFKA_REFUSED: Final[Mapping[str, str]] = {
    "kafka.auto.offset.reset": "set startingOffsets",
    "kafka.key.deserializer": "columns are bytes: cast the column key",
    "kafka.value.deserializer": "columns are bytes: cast the column value",
    "kafka.key.serializer": "write a column key of text or bytes",
    "kafka.value.serializer": "write a column value of text or bytes",
    "kafka.enable.auto.commit": "a query's positions are in its checkpoint",
    "kafka.interceptor.classes": "interceptors may change records",
}
"""Settings that the format `kafka` refuses or overwrites, each with what to do instead."""


READ_REFUSED: Final[Mapping[str, str]] = {
    "topic": "it names the topic of a write; a read takes subscribe",
    "path": "topics are named by subscribe, log directories by logDirs: call load() without a path",
    "kafka.auto.offset.reset": "startingOffsets says where reading starts",
    "kafka.enable.auto.commit": "Spark keeps the positions in its checkpoint; nothing is committed while reading",
    "kafka.interceptor.classes": "interceptors are classes of Java, and may change records",
    "kafka.key.deserializer": "keys are bytes; decode them with expressions of Spark",
    "kafka.value.deserializer": "values are bytes; decode them with expressions of Spark",
    "kafka.metric.reporters": "reporters are classes of Java",
    "kafka.config.providers": "providers are classes of Java",
}
"""Options that a read with the format `headgate` refuses, each with what to do instead."""

WRITE_REFUSED: Final[Mapping[str, str]] = {
    "kafka.transactional.id": "the option name makes it",
    "path": "a topic is named by the option topic",
}
"""Options that a write with the format `headgate` refuses, each with what to do instead."""
