"""Clients that are not Python's: a program a client (go/, node/), a process a call, records as lines of JSON.

The command line that they share is described in go/lines/lines.go; for the rows of the matrix in matrix/client.py.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, ClassVar

from compat_tests.families.confluent import Confluent
from compat_tests.families.family import CONSUME_LIMIT_S, AsksOffsets, FromOffset, FromStart, FromTime, Start, Tail
from compat_tests.harness import toolchain
from compat_tests.harness.records import Received, Sent, Traits
from compat_tests.security.client_security import Security


class Lines(ABC):
    """A command line of subcommands; `protocol` is the Kafka version whose protocol it speaks, by default its own."""

    # Whether it may write to standard error although all went well
    complains: ClassVar[bool] = False
    # How it reaches the broker; None: without security
    security: Security | None = None

    def __init__(self, protocol: str = "") -> None:
        self.protocol = protocol

    @abstractmethod
    def command(self) -> list[str]:
        """What runs the program, without its arguments; ends the test where it is not on this machine."""

    def environment(self) -> dict[str, str]:
        return {**os.environ, **({} if self.security is None else self.security.environment())}

    def arguments(self, subcommand: str, bootstrap: str, topic: str, **options: str) -> list[str]:
        if self.protocol:
            options["protocol"] = self.protocol
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return [*self.command(), subcommand, "--bootstrap", bootstrap, "--topic", topic, *words]

    def produce(self, bootstrap: str, topic: str, records: Iterable[Sent], codec: str) -> None:
        self.feed(self.arguments("produce", bootstrap, topic, codec=codec), map(self.line_of, records))

    def feed(self, arguments: list[str], lines: Iterable[str]) -> None:
        """Write lines to the program, which ends well and says nothing."""
        with tempfile.TemporaryFile() as errors:
            with self.start(arguments, errors) as process:
                assert process.stdin is not None
                # A program that ended says why below
                with contextlib.suppress(BrokenPipeError), process.stdin:
                    process.stdin.writelines(f"{line}\n" for line in lines)
                process.wait(CONSUME_LIMIT_S)
            errors.seek(0)
            said = errors.read().decode()
        assert process.returncode == 0, said
        assert self.complains or not said, said

    def line_of(self, record: Sent) -> str:
        """A record as the program takes it."""
        return json.dumps(to_json(record))

    def start(self, arguments: list[str], output: IO[bytes] | int) -> subprocess.Popen[str]:
        """With its input as a pipe; what it says besides its records goes where they go, or to our own errors."""
        errors = None if output == subprocess.PIPE else output
        pipe, environment = subprocess.PIPE, self.environment()
        return subprocess.Popen(arguments, stdin=pipe, stdout=output, stderr=errors, text=True, env=environment)

    def run(self, arguments: list[str]) -> Iterator[Any]:
        """What the lines say that the program printed, after it ended well."""
        return map(json.loads, self.lines(arguments))

    def lines(self, arguments: list[str]) -> list[str]:
        """The lines that the program printed, after it ended well."""
        limit_s = CONSUME_LIMIT_S + 10
        done = subprocess.run(
            arguments, capture_output=True, text=True, timeout=limit_s, check=False, env=self.environment()
        )
        assert done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stderr[-2000:]}"
        assert self.complains or not done.stderr, done.stderr
        return done.stdout.splitlines()


class Program(Lines, AsksOffsets):
    """A client of the tests of families."""

    def check(self) -> None:
        self.command()

    def consume(self, bootstrap: str, topic: str, start: Start, limits: Mapping[int, int]) -> list[Received]:
        options = {"limits": numbers(limits), "start": describe(start)}
        return [received(found) for found in self.run(self.arguments("consume", bootstrap, topic, **options))]

    def tail(self, bootstrap: str, topic: str) -> Tail:
        arguments = self.arguments("tail", bootstrap, topic)
        process = self.start(arguments, subprocess.PIPE)
        assert process.stdin is not None

        def follow(tail: Tail) -> None:
            with process:
                assert process.stdout is not None
                for line in process.stdout:
                    found = json.loads(line)
                    if "parked" in found:
                        tail.is_parked.set()
                    else:
                        tail.arrived(received(found).value)
            assert process.returncode == 0, f"{self.name} ended with {process.returncode}"

        return Tail(follow, process.stdin.close)

    def offsets(self, bootstrap: str, topic: str, at: str) -> dict[int, int]:
        found = self.run(self.arguments("offsets", bootstrap, topic, at=at))
        return {one["partition"]: one["offset"] for one in found}


class FranzGo(Program):
    name: ClassVar[str] = "franz-go"
    # One with an empty value
    uncompressed_records: ClassVar[int] = 1

    def command(self) -> list[str]:
        return [toolchain.go_program(self.name)]


class Sarama(Program):
    name: ClassVar[str] = "sarama"

    def command(self) -> list[str]:
        return [toolchain.go_program(self.name)]


class Kafkajs(Program):
    """It asks the broker for offsets, and reads in groups only: from there another client reads what it wrote."""

    name: ClassVar[str] = "kafkajs"
    # It takes headers as an object: a name is in it once, with a list of values, and a value is not null
    traits: ClassVar[Traits] = Traits(null_headers=False, headers_by_name=True)
    reads_by_assignment: ClassVar[bool] = False

    def command(self) -> list[str]:
        return toolchain.node_program("kafkajs")

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **toolchain.NODE_ENVIRONMENT}

    def consume(self, bootstrap: str, topic: str, start: Start, limits: Mapping[int, int]) -> list[Received]:
        first = start if isinstance(start, FromOffset) else FromOffset(self.offsets(bootstrap, topic, describe(start)))
        reader = Confluent()
        reader.security = self.security
        return reader.consume(bootstrap, topic, first, limits)

    def tail(self, bootstrap: str, topic: str) -> Tail:
        raise AssertionError("kafkajs reads in groups only")


def to_json(record: Sent) -> dict[str, object]:
    return {
        "partition": record.partition,
        "timestamp_ms": record.timestamp_ms,
        "key": encode(record.key),
        "value": encode(record.value),
        "headers": [{"name": name, "value": encode(value)} for name, value in record.headers],
    }


def received(found: dict[str, Any]) -> Received:
    headers = tuple((header["name"], decode(header["value"])) for header in found["headers"])
    content = decode(found["key"]), decode(found["value"])
    return Received(found["partition"], found["offset"], found["timestamp_ms"], *content, headers)


def encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def numbers(values: Mapping[int, int]) -> str:
    return ",".join(f"{partition}={number}" for partition, number in values.items())


def describe(start: Start) -> str:
    match start:
        case FromStart():
            return "earliest"
        case FromOffset(offsets):
            return f"offset:{numbers(offsets)}"
        case FromTime(timestamp_ms):
            return f"time:{timestamp_ms}"
