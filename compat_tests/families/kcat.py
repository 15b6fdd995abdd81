"""kcat as Debian ships it (librdkafka 2.0), one process a call and partition.

Its producer takes one set of headers for all records of a run: a run for every block of records that share theirs.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterable, Mapping

from compat_tests.families.family import CONSUME_LIMIT_S, Family, FromOffset, FromTime, Start, Tail
from compat_tests.harness import toolchain
from compat_tests.harness.records import Headers, Received, Sent, Traits
from compat_tests.security.client_security import of_librdkafka

# Its own limit is ten seconds between two attempts
RECONNECT = ("-X", "reconnect.backoff.max.ms=500")


class Kcat(Family):
    name = "kcat"
    traits = Traits(sets_partition=False, sets_timestamp=False, text_only=True, headers_block=2500)

    def check(self) -> None:
        kcat()

    def produce(self, bootstrap: str, topic: str, records: Iterable[Sent], codec: str) -> None:
        for headers, block in itertools.groupby(records, lambda record: record.headers):
            produce_block([*RECONNECT, *self.options()], bootstrap, topic, headers, block, codec)

    def options(self) -> list[str]:
        return [word for name, value in of_librdkafka(self.security).items() for word in ("-X", f"{name}={value}")]

    def consume(self, bootstrap: str, topic: str, start: Start, limits: Mapping[int, int]) -> list[Received]:
        usual = [kcat(), "-C", "-b", bootstrap, "-t", topic, "-J", "-q", *self.options()]
        commands = [
            [*usual, "-p", str(partition), "-o", describe(start, partition), "-c", str(count)]
            for partition, count in limits.items()
            if count > 0
        ]
        return [received(line) for output in run_together(commands) for line in output.splitlines()]

    def tail(self, bootstrap: str, topic: str) -> Tail:
        command = [kcat(), "-C", "-E", "-b", bootstrap, "-t", topic, "-p", "0", "-o", "end", "-u", *RECONNECT]
        command += self.options()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

        def run(tail: Tail) -> None:
            with process:
                assert process.stdout is not None
                for line in process.stdout:
                    if line.startswith(b"% Reached end of topic"):
                        tail.is_parked.set()
                    elif not line.startswith(b"%"):
                        tail.arrived(line.rstrip(b"\n"))

        return Tail(run, process.terminate)


def kcat() -> str:
    return toolchain.program("kcat", "apt-get install kcat")


def produce_block(
    options: Iterable[str], bootstrap: str, topic: str, headers: Headers, block: Iterable[Sent], codec: str
) -> None:
    command = [kcat(), "-P", "-E", "-b", bootstrap, "-t", topic, "-K", "\t", "-z", codec, *options]
    command += ["-X", "enable.idempotence=true", "-X", "linger.ms=5"]
    command += [word for name, value in headers for word in ("-H", f"{name}={(value or b'').decode()}")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.writelines(b"%b\t%b\n" % (record.key or b"", record.value or b"") for record in block)
        _, errors = process.communicate(timeout=CONSUME_LIMIT_S)
    assert process.returncode == 0, errors.decode()
    assert b"Delivery failed" not in errors, errors.decode()


def run_together(commands: list[list[str]]) -> list[str]:
    """Run all at once, so that partitions are read side by side; their outputs in order."""
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True) for command in commands]
    try:
        outputs = [process.communicate(timeout=CONSUME_LIMIT_S)[0] for process in running]
    finally:
        for process in running:
            process.kill()
            process.communicate()
    for process, command, output in zip(running, commands, outputs, strict=True):
        assert process.returncode == 0, f"{command} ended with {process.returncode}: {output[-2000:]}"
    return outputs


def describe(start: Start, partition: int) -> str:
    match start:
        case FromOffset(offsets):
            return str(offsets[partition])
        case FromTime(timestamp_ms):
            return f"s@{timestamp_ms}"
    return "beginning"


def received(line: str) -> Received:
    found = json.loads(line)
    names_and_values = iter(found.get("headers", ()))
    headers = tuple((name, encode(next(names_and_values))) for name in names_and_values)
    key, value = encode(found["key"]), encode(found["payload"])
    return Received(found["partition"], found["offset"], found["ts"], key, value, headers)


def encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
