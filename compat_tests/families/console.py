"""Kafka's own console tools 4.1, a JVM a call and partition. A time becomes an offset by `kafka-get-offsets --time`."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Mapping

from compat_tests.families.family import CONSUME_LIMIT_S, Family, FromOffset, FromTime, Start, Tail
from compat_tests.families.kcat import run_together
from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import CONSOLE_CONSUMER, CONSOLE_PRODUCER, GET_OFFSETS, java, run_tool
from compat_tests.harness.records import Headers, Received, Sent, Traits

PRINTED = ("timestamp", "partition", "offset", "headers", "key", "value")


class Console(Family):
    name = "console-tools-4.1"
    traits = Traits(sets_partition=False, sets_timestamp=False, text_only=True)
    knows_when_parked = False
    # It reads one a process, and a process is a JVM of a second or two
    partitions = 1

    def check(self) -> None:
        toolchain.jars("broker")

    def configuration(self, option: str) -> list[str]:
        return [] if self.security is None else [option, self.security.java_file()]

    def produce(self, bootstrap: str, topic: str, records: Iterable[Sent], codec: str) -> None:
        # Its own three retries end before a broker is back
        arguments = [
            "--bootstrap-server",
            bootstrap,
            "--topic",
            topic,
            "--compression-codec",
            codec,
            *properties("parse"),
            *self.configuration("--producer.config"),
        ]
        command = java(CONSOLE_PRODUCER, *arguments, "--message-send-max-retries", "1000")
        with tempfile.TemporaryFile() as output:
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output) as process:
                assert process.stdin is not None
                process.stdin.writelines(line(record) for record in records)
                process.stdin.close()
                process.wait(CONSUME_LIMIT_S)
            output.seek(0)
            said = output.read().decode()
        assert process.returncode == 0, said
        assert "ERROR" not in said, said

    def consume(self, bootstrap: str, topic: str, start: Start, limits: Mapping[int, int]) -> list[Received]:
        first = offsets(bootstrap, topic, start, *self.configuration("--command-config"))
        more = self.configuration("--consumer.config")
        commands = [
            consumer(bootstrap, topic, partition, first.get(partition, "earliest"), "--max-messages", str(count), *more)
            for partition, count in limits.items()
            if count > 0
        ]
        return [received(text) for output in run_together(commands) for text in output.splitlines() if is_record(text)]

    def tail(self, bootstrap: str, topic: str) -> Tail:
        # An empty topic's beginning is its end; with "latest" it could not be told which records it has to show
        command = consumer(bootstrap, topic, 0, "earliest", *self.configuration("--consumer.config"))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

        def run(tail: Tail) -> None:
            with process:
                assert process.stdout is not None
                for text in process.stdout:
                    tail.arrived(received(text.rstrip("\n")).value)

        # On SIGTERM it may spend half a minute in closing its connections
        return Tail(run, process.kill)


def properties(verb: str) -> list[str]:
    """`parse` for the producer, `print` for the consumer."""
    wanted = ("key", "headers") if verb == "parse" else PRINTED
    return [word for name in wanted for word in ("--property", f"{verb}.{name}=true")]


def consumer(bootstrap: str, topic: str, partition: int, offset: str, *more: str) -> list[str]:
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", str(partition), "--offset", offset]
    return java(CONSOLE_CONSUMER, *where, *properties("print"), *more)


def offsets(bootstrap: str, topic: str, start: Start, *more: str) -> dict[int, str]:
    match start:
        case FromOffset(wanted):
            return {partition: str(offset) for partition, offset in wanted.items()}
        case FromTime(timestamp_ms):
            where = ("--bootstrap-server", bootstrap, "--topic", topic, *more)
            printed = run_tool(GET_OFFSETS, *where, "--time", str(timestamp_ms))
            lines = [text.rsplit(":", 2) for text in printed.split()]
            return {int(partition): offset for _, partition, offset in lines}
    return {}


def line(record: Sent) -> bytes:
    pairs = b",".join(b"%b:%b" % (name.encode(), value or b"") for name, value in record.headers)
    return b"%b\t%b\t%b\n" % (pairs, record.key or b"", record.value or b"")


def is_record(text: str) -> bool:
    """Both outputs of the tool come together: records begin with their timestamp's type."""
    return text.startswith(("CreateTime:", "LogAppendTime:"))


def received(text: str) -> Received:
    timestamp, partition, offset, pairs, key, value = text.split("\t", 5)
    numbers = [int(field.partition(":")[2]) for field in (partition, offset, timestamp)]
    headers: Headers = tuple(header(pair) for pair in pairs.split(","))
    return Received(numbers[0], numbers[1], numbers[2], key.encode(), value.encode(), headers)


def header(pair: str) -> tuple[str, bytes]:
    name, _, value = pair.partition(":")
    return name, value.encode()
