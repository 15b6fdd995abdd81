"""Java's kafka-clients 4.4: the program in java/clients/src, its JVM kept between calls."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping

from compat_tests.families.family import Family, FromOffset, FromTime, Start, Tail
from compat_tests.harness import client_jvm, toolchain
from compat_tests.harness.records import Received, Sent
from compat_tests.security.client_security import Security

Process = subprocess.Popen[str]


class JavaClient(Family):
    name = "java-4.4"

    def __init__(self) -> None:
        self.idle: list[Process] = []

    def check(self) -> None:
        toolchain.compiled_java("clients")

    def close(self) -> None:
        while self.idle:
            end(self.idle.pop())

    @contextlib.contextmanager
    def driver(self) -> Iterator[Process]:
        """A JVM that waits for commands: an idle one or a new one. One that failed in mid-command is not used again."""
        process = self.idle.pop() if self.idle else start(self.security)
        try:
            if self.security is not None:
                command(process, "settings", self.security.java_file())
                assert list(answers(process)) == []
            yield process
        except BaseException:
            process.kill()
            end(process)
            raise
        self.idle.append(process)

    def produce(self, bootstrap: str, topic: str, records: Iterable[Sent], codec: str) -> None:
        with self.driver() as process:
            command(process, "produce", bootstrap, topic, codec)
            assert process.stdin is not None
            process.stdin.writelines(line(record) for record in records)
            command(process, "end")
            assert list(answers(process)) == []

    def consume(self, bootstrap: str, topic: str, start: Start, limits: Mapping[int, int]) -> list[Received]:
        with self.driver() as process:
            command(process, "consume", bootstrap, topic, numbers(limits), describe(start))
            return [received(answer) for answer in answers(process)]

    def tail(self, bootstrap: str, topic: str) -> Tail:
        process = start(self.security)

        def run(tail: Tail) -> None:
            command(process, "tail", bootstrap, topic)
            for answer in answers(process):
                if answer == "ready":
                    tail.is_parked.set()
                else:
                    tail.arrived(received(answer).value)
            end(process)

        return Tail(run, lambda: command(process, "stop"))


def start(security: Security | None) -> Process:
    arguments = client_jvm.command("CompatClient")
    more = {} if security is None else security.environment()
    pipe = subprocess.PIPE
    return subprocess.Popen(
        arguments,
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1 << 16,
        env={**os.environ, **more},
    )


def end(process: Process) -> None:
    """Close its input, at which it ends by itself, and both pipes."""
    with process:
        pass


def command(process: Process, *fields: str) -> None:
    assert process.stdin is not None
    process.stdin.write("\t".join(fields) + "\n")
    process.stdin.flush()


def answers(process: Process) -> Iterator[str]:
    """The lines of an answer, without the last, which tells how it ended."""
    assert process.stdout is not None
    for text in process.stdout:
        answer = text.rstrip("\n")
        if answer == "done":
            return
        assert not answer.startswith("error"), answer
        yield answer
    raise AssertionError(f"the Java client ended with {process.wait()} in the middle of an answer")


def line(record: Sent) -> str:
    headers = ",".join(f"{encode(name.encode())}:{encode(value)}" for name, value in record.headers)
    time = "-" if record.timestamp_ms is None else record.timestamp_ms
    return f"{record.partition}\t{time}\t{encode(record.key)}\t{encode(record.value)}\t{headers}\n"


def received(answer: str) -> Received:
    partition, offset, timestamp, key, value, headers = answer.split("\t")
    pairs = tuple(header(pair) for pair in headers.split(",") if pair)
    return Received(int(partition), int(offset), int(timestamp), decode(key), decode(value), pairs)


def header(pair: str) -> tuple[str, bytes | None]:
    name, _, value = pair.partition(":")
    return (decode(name) or b"").decode(), decode(value)


def encode(data: bytes | None) -> str:
    return "-" if data is None else base64.b64encode(data).decode()


def decode(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text)


def numbers(values: Mapping[int, int]) -> str:
    return ",".join(f"{partition}={number}" for partition, number in values.items())


def describe(start: Start) -> str:
    match start:
        case FromOffset(offsets):
            return f"offset {numbers(offsets)}"
        case FromTime(timestamp_ms):
            return f"time {timestamp_ms}"
    return "start"
