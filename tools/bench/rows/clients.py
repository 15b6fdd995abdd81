"""Rows with stock clients: Kafka's own Java tools, librdkafka. The figures are about the broker's CPU."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headgate.tools.bench.measuring.figures import Sample
from headgate.tools.bench.measuring.generator import LoadResult
from headgate.tools.bench.measuring.target import Target
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.rows.coordinators.groups import new_group, wait_until_served
from headgate.tools.bench.rows.row import BATCH_16K, KIBIBYTE, MEBIBYTE, BatchShape, Row, Run, filled_topic

RECORD_BYTES = KIBIBYTE
_SILENCE_MS = 15_000

# 3000 records sent, 4278.9 records/sec (4.17 MB/sec), 62.37 ms avg latency, 114.00 ms max latency, 59 ms 50th, ...
_PRODUCED = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec .* (\d+) ms 50th, .* (\d+) ms 99th, ", re.MULTILINE)
# start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms
_CONSUMED = re.compile(r"^[\d-]+ [\d:]+, [\d-]+ [\d:]+, ([\d.]+), [\d.]+, (\d+), [\d.]+, (\d+), (\d+), ", re.MULTILINE)
_MEAN = re.compile(r"^Avg latency: ([\d.]+) ms$", re.MULTILINE)
_PERCENTILES = re.compile(r"^Percentiles: 50th = (\d+), 99th = (\d+),", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProducerPerformanceRow(Row):
    """org.apache.kafka.tools.ProducerPerformance: records of 1 KiB, acks=all, all else at its defaults.

    Both brokers get the same number of records, not of seconds: a producer is slow while its JVM is cold.
    """

    warm_up_share: float = 0.3
    least_seconds: float = math.inf
    batch_bytes: int = 16 * KIBIBYTE
    records_per_second: int = 100_000

    api = frames.PRODUCE

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        def run(seconds: float) -> Sample:
            records = max(1, int(seconds * self.records_per_second))
            with target.topic(self.partitions) as topic:
                command = self.command(target, topic.name, records)
                target.touch_pages(records * RECORD_BYTES)
                return target.measure(lambda: read_producer_performance(output_of(command), records))

        yield run

    def command(self, target: Target, topic: str, records: int) -> list[str]:
        tool = java_tool(target, "ProducerPerformance", "-Xmx512m")
        words = ["--topic", topic, "--num-records", records, "--record-size", RECORD_BYTES, "--throughput", -1]
        settings = [f"bootstrap.servers={target.address}", "acks=all", f"batch.size={self.batch_bytes}"]
        return [*tool, *map(str, (*words, *self.options(topic))), "--producer-props", *settings]

    def options(self, topic: str) -> Sequence[str]:
        """More options of the tool."""
        return ()


@dataclass(frozen=True, slots=True)
class TransactionalPerformanceRow(ProducerPerformanceRow):
    """The same producer with a transactional id. It commits every `transaction_ms`, and waits for each commit."""

    transaction_ms: int = 50

    def options(self, topic: str) -> Sequence[str]:
        return "--transactional-id", topic, "--transaction-duration-ms", str(self.transaction_ms)


@dataclass(frozen=True, slots=True)
class ConsumerPerformanceRow(Row):
    """org.apache.kafka.tools.ConsumerPerformance: a new group of one consumer reads resident data from its start.

    The number of records is fixed, not the time; at most all resident records. `group_protocol`: the client's setting.
    """

    warm_up_share: float = 0.3
    least_seconds: float = math.inf
    batch: BatchShape = BATCH_16K
    resident_bytes: int = 256 * MEBIBYTE
    group_protocol: str = "classic"
    records_per_second: int = 120_000

    api = frames.FETCH

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        topic, _, batches = filled_topic(target, self.batch, self.resident_bytes)
        resident_records = topic.partitions * batches * self.batch.records

        def run(seconds: float) -> Sample:
            records = max(1, min(resident_records, int(seconds * self.records_per_second)))
            group = new_group(self.name)
            wait_until_served(target.broker.client, [group])
            command = self.command(target, topic.name, group, records)
            return target.measure(lambda: read_consumer_performance(output_of(command), records))

        yield run

    def command(self, target: Target, topic: str, group: str, records: int) -> list[str]:
        path = target.scratch_file(f"{self.name}.properties")
        path.write_text(f"group.protocol={self.group_protocol}\n")
        tool = java_tool(target, "ConsumerPerformance", "-Xmx512m")
        words = ["--bootstrap-server", target.address, "--topic", topic, "--group", group, "--messages", records]
        return [*tool, *map(str, words), "--consumer.config", str(path), "--timeout", str(_SILENCE_MS)]


@dataclass(frozen=True, slots=True)
class EndToEndLatencyRow(Row):
    """org.apache.kafka.tools.EndToEndLatency: one record of 100 bytes after the other, acks=all, read by assignment."""

    warm_up_share: float = 0.3
    least_seconds: float = math.inf
    messages_per_second: int = 1500

    api = frames.FETCH

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        def run(seconds: float) -> Sample:
            messages = max(1, int(seconds * self.messages_per_second))
            with target.topic(self.partitions) as topic:
                words = [target.address, topic.name, str(messages), "all", "100"]
                command = [*java_tool(target, "EndToEndLatency", "-Xmx256m"), *words]
                return target.measure(lambda: read_end_to_end_latency(output_of(command), messages))

        yield run


@dataclass(frozen=True, slots=True)
class LibrdkafkaRow(Row):
    """A consumer with its defaults, assigned to four partitions of resident data, which it reads again and again."""

    warm_up_share: float = 0.3
    least_seconds: float = math.inf
    batch: BatchShape = BATCH_16K
    resident_bytes: int = 256 * MEBIBYTE

    api = frames.FETCH

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        topic = filled_topic(target, self.batch, self.resident_bytes).topic

        def run(seconds: float) -> Sample:
            words = [target.address, topic.name, str(topic.partitions), str(seconds)]
            command = [sys.executable, "-m", "headgate.tools.bench.rows.librdkafka_consumer", *words]
            return target.measure(lambda: read_consumer(output_of(command)))

        yield run


def java_tool(target: Target, name: str, heap: str) -> list[str]:
    """The command that runs a class of Kafka's tools, with the heap of Kafka's own start script.

    The JVM uses only its quick compiler: the other one takes more of the server's cores than sending a few hundred MB.
    """
    if not target.java:
        raise BenchError(f"{name} needs java and Kafka's jars: install a JRE 17 or newer, run `make jars`")
    return [*target.java, heap, "-XX:TieredStopAtLevel=1", f"org.apache.kafka.tools.{name}"]


def output_of(command: Sequence[str], within_seconds: float = 120.0) -> str:
    """The output of a command, standard error included; the parser of the output decides whether it succeeded."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=within_seconds,
        )
    except subprocess.TimeoutExpired as expired:
        raise BenchError(f"{command[0]} did not end in {within_seconds:g} s: {' '.join(command)}") from expired
    return done.stdout


def read_producer_performance(output: str, records: int) -> LoadResult:
    """The result of ProducerPerformance, which continues after an error and counts failed records as sent."""
    found = _PRODUCED.search(output)
    if found is None or int(found[1]) != records or "Exception" in output:
        raise BenchError(f"ProducerPerformance did not produce {records} records:\n{output[-2000:]}")
    seconds = records / float(found[2])
    return LoadResult(records, records * RECORD_BYTES, seconds, int(found[3]) * 1e3, int(found[4]) * 1e3)


def read_consumer_performance(output: str, records: int) -> LoadResult:
    """The result of ConsumerPerformance, which may read some more records than asked for, from the last batch."""
    found = _CONSUMED.search(output)
    if found is None or int(found[2]) < records or "Exception" in output:
        raise BenchError(f"ConsumerPerformance did not read {records} records:\n{output[-2000:]}")
    seconds = (int(found[3]) + int(found[4])) / 1e3
    return LoadResult(int(found[2]), round(float(found[1]) * MEBIBYTE), seconds)


def read_end_to_end_latency(output: str, messages: int) -> LoadResult:
    """The result of EndToEndLatency, whose printed result counts: its commit at the end fails without groups."""
    mean, percentiles = _MEAN.search(output), _PERCENTILES.search(output)
    if mean is None or percentiles is None:
        raise BenchError(f"EndToEndLatency printed no latencies:\n{output[-2000:]}")
    p50_us, p99_us = (int(number) * 1e3 for number in percentiles.groups())
    mean_us = float(mean[1]) * 1e3
    return LoadResult(messages, messages * 100, messages * mean_us / 1e6, p50_us, p99_us, mean_us=mean_us)


def read_consumer(output: str) -> LoadResult:
    try:
        return LoadResult(**json.loads(output))
    except (ValueError, TypeError) as error:
        raise BenchError(f"the librdkafka consumer gave no result:\n{output[-2000:]}") from error
