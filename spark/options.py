"""The options of the formats `kafka` and `headgate`: names, defaults, tuned values; and `headgate spark options`.

Spark ignores a misspelt option without a word: `check_options` refuses it with the nearest name. Names of Spark's own
options and defaults: "Structured Streaming + Kafka Integration Guide" of Spark 4.1. Names after `kafka.`: the settings
of Kafka's consumer and producer 3.9, which the connector brings.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from typing import Final, NamedTuple

from headgate.spark.sink import write_options
from headgate.spark.source import option_table
from headgate.tools.output import CommandResult, Row, add_format_options, format_table, print_result, wants_table

KAFKA, HEADGATE = "kafka", "headgate"
FORMATS: Final = (KAFKA, HEADGATE)
_CLIENT: Final = "kafka."


class Use(Enum):
    """What a query does with a topic."""

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


class UnknownOption(ValueError):
    """An option that no format knows, or that this one does not honour; the text names the nearest."""


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


def _with_uses(name: str, uses: frozenset[Use], default: str, meaning: str) -> Option:
    """A row of another table: its meaning may begin with the only use."""
    kind, _, rest = meaning.partition(" only: ")
    only = {"batch": _BATCH, "stream": _STREAM}.get(kind) if rest else None
    if only is None:
        return Option(name, uses, default, meaning)
    return Option(name, uses, default, meaning) if uses == _WRITE else Option(name, only, default, rest)


HEADGATE_OPTIONS: Final = (
    *(_with_uses(one.name, READS, one.default, one.meaning) for one in option_table.READ_OPTIONS.values()),
    *(_with_uses(one.name, _WRITE, one.default, one.meaning) for one in write_options.WRITE_OPTIONS.values()),
)

# Settings that the connector refuses, or overwrites
REFUSED: Final[Mapping[str, str]] = {
    "kafka.auto.offset.reset": "set startingOffsets",
    "kafka.key.deserializer": "columns are bytes: cast the column key",
    "kafka.value.deserializer": "columns are bytes: cast the column value",
    "kafka.key.serializer": "write a column key of text or bytes",
    "kafka.value.serializer": "write a column value of text or bytes",
    "kafka.enable.auto.commit": "a query's positions are in its checkpoint",
    "kafka.interceptor.classes": "interceptors may change records",
}

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
    return frozenset(f"{_CLIENT}{name}" for name in names.split())


CONSUMER_SETTINGS: Final = _settings(_COMMON + " " + _CONSUMER)
PRODUCER_SETTINGS: Final = _settings(_COMMON + " " + _PRODUCER)

# A class of the user's own may read settings of any name
_OWN_CLASSES: Final = frozenset(
    f"{_CLIENT}{name}"
    for name in (
        "metric.reporters",
        "partitioner.class",
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "security.providers",
        "ssl.engine.factory.class",
    )
)


def format_options(format_name: str) -> Sequence[Option]:
    """The options of a format, in the order of its documentation."""
    return KAFKA_OPTIONS if format_name == KAFKA else HEADGATE_OPTIONS


def known_names(format_name: str, use: Use) -> dict[str, str]:
    """The options of a format for one use by their names in lower case: Spark takes names in any case."""
    names = {option.name for option in format_options(format_name) if use in option.uses}
    if format_name == HEADGATE and use in READS:
        names |= {f"{_CLIENT}{name}" for name in option_table.WITHOUT_EFFECT}
    elif format_name == KAFKA:
        names |= PRODUCER_SETTINGS if use is Use.WRITE else CONSUMER_SETTINGS
    return {name.lower(): name for name in names}


def refusals(format_name: str, use: Use) -> dict[str, str]:
    """Refused options by their names in lower case, each with what to do instead."""
    if format_name == KAFKA:
        return {name.lower(): cure for name, cure in REFUSED.items()}
    if use is Use.WRITE:
        return {}
    settings = {f"{_CLIENT}{name}": cure for name, cure in option_table.REFUSED_SETTINGS.items()}
    for prefix, cure in option_table.REFUSED_PREFIXES.items():
        settings |= {name: cure for name in CONSUMER_SETTINGS if name.startswith(f"{_CLIENT}{prefix}")}
    return {**option_table.REFUSED_OPTIONS, **settings}


def check_options(format_name: str, use: Use, names: Iterable[str]) -> None:
    """Raise UnknownOption for the first option that the format does not have for this use, or refuses."""
    given = {name.lower(): name for name in names}
    known, refused = known_names(format_name, use), refusals(format_name, use)
    has_own_class = format_name == KAFKA and not _OWN_CLASSES.isdisjoint(given)
    for lower, name in given.items():
        if lower in refused:
            raise UnknownOption(f"the format {format_name} refuses the option {name}: {refused[lower]}")
        if lower in known or (lower.startswith(_CLIENT) and has_own_class):
            continue
        raise UnknownOption(_unknown(format_name, use, name, known))


def _unknown(format_name: str, use: Use, name: str, known: Mapping[str, str]) -> str:
    near = get_close_matches(name.lower(), known, n=1)
    nearest = f"the nearest is {known[near[0]]}" if near else f"`headgate spark options {format_name}` lists all"
    others = sorted(other.value for other in Use if name.lower() in known_names(format_name, other))
    if others:
        return f"the option {name} is for {' and '.join(others)}, not for {use.value}; {nearest}"
    return f"the format {format_name} has no option {name}; {nearest}"


def tuned_options(format_name: str, use: Use) -> dict[str, str]:
    """The tuned values of a format for one use; 1.1 to 1.6 times as fast as the defaults for records of 100 bytes."""
    return {one.name: one.tuned for one in format_options(format_name) if one.tuned and use in one.uses}


# ------------------------------------------------------------------------------------------------------------- command


def main(arguments: Sequence[str]) -> int:
    """Run `headgate spark options <arguments>`; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="headgate spark options",
        description="The options of a format, with defaults and tuned values. Other settings of Kafka's consumer and "
        "producer 3.9 are options too, with kafka. before the name: --all lists them.",
    )
    parser.add_argument("format", nargs="?", choices=FORMATS, default=KAFKA, help="default: kafka")
    parser.add_argument("--use", choices=[use.value for use in Use], help="for one use only")
    parser.add_argument("--tuned", action="store_true", help="only those with a tuned value")
    parser.add_argument("--all", action="store_true", help="of kafka: every setting of Kafka's clients too")
    add_format_options(parser)
    options = parser.parse_args(arguments)
    rows = option_rows(options.format, options.use, is_tuned=options.tuned, is_all=options.all)
    result = CommandResult(rows)
    print_result("spark options", result, is_table=wants_table(options), tables=format_table)
    return result.code


def option_rows(format_name: str, use: str | None, *, is_tuned: bool, is_all: bool) -> list[Row]:
    """One row for each option, in the order of the table; then the other settings of Kafka's clients by name."""
    uses = ALL if use is None else frozenset({Use(use)})
    rows = [
        _row(option.name, option.uses, option.default, option.tuned, option.summary)
        for option in format_options(format_name)
        if option.uses & uses and (option.tuned or not is_tuned)
    ]
    if is_all and not is_tuned and format_name == KAFKA:
        rows += _setting_rows(uses, {str(row["option"]) for row in rows})
    return rows


def _setting_rows(uses: frozenset[Use], shown: Iterable[str]) -> list[Row]:
    rows = []
    for name in sorted((CONSUMER_SETTINGS | PRODUCER_SETTINGS).difference(shown)):
        of = (READS if name in CONSUMER_SETTINGS else frozenset()) | (
            _WRITE if name in PRODUCER_SETTINGS else frozenset()
        )
        if of & uses:
            refused = REFUSED.get(name)
            rows.append(_row(name, of, "", "", f"refused: {refused}" if refused else "as in Kafka's documentation"))
    return rows


def _row(name: str, uses: frozenset[Use], default: str, tuned: str, summary: str) -> Row:
    return {
        "option": name,
        "use": [use.value for use in Use if use in uses],
        "default": default or None,
        "tuned": tuned or None,
        "summary": summary,
    }
