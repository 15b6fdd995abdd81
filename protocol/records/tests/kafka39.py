"""Apache Kafka's own message formats, conversions and checks: a process of Java over its jars.

3.9 is the last version that has all formats. compat_tests/java/broker39/src/MessageFormats.java says what can be asked.
"""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import ClassVar, Final, NamedTuple, Self

from compat_tests.harness import toolchain
from headgate.protocol.errors import ErrorCode
from headgate.protocol.records import Buffer
from headgate.protocol.records.batch import Record

WAIT_S: Final = 20
TYPES: Final = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


def run(program: str, *arguments: str) -> list[str]:
    """The lines that a program over the jars of 3.9 writes."""
    done = subprocess.run(
        [*_java("broker39"), program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _java(jar_set: str) -> list[str]:
    """The programs are compiled over 3.9, whatever they run over: once, as that takes ten times as long as a start."""
    programs = toolchain.compiled("broker39", toolchain.jars("broker39"))
    options = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return ["java", *options, "-cp", os.pathsep.join((programs, toolchain.jars(jar_set)))]


class Refused(Exception):
    """What Kafka refuses: its code, the indexes of refused records, and its sentence."""

    def __init__(self, code: ErrorCode, indexes: list[int], message: str) -> None:
        self.code = code
        self.indexes = indexes
        super().__init__(code, indexes, message)


class Batch(NamedTuple):
    """What Kafka reads. type: 0 CreateTime, 1 LogAppendTime, -1 for the messages of magic 0, which have no time."""

    magic: int
    codec: int
    type: int
    records: list[Record]


class Kafka39:
    """The process; a context manager, which ends it."""

    jars: ClassVar[str] = "broker39"

    def __init__(self) -> None:
        command = [*_java(self.jars), "MessageFormats"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=WAIT_S)

    def read(self, data: Buffer) -> list[Batch]:
        """All batches, with magic 0 and 1 each plain message is one."""
        return [_batch(text) for text in self._ask("read", in_base64(data)).split("|") if text]

    def build(
        self, records: Sequence[Record], magic: int, codec: int, *, base_offset: int = 0, append_time_ms: int = -1
    ) -> bytes:
        """A set, or a batch."""
        kind = TYPES[append_time_ms >= 0]
        written = ";".join([_written(record) for record in records])
        return base64.b64decode(self._ask("build", magic, codec, kind, base_offset, append_time_ms, written))

    def down(self, data: Buffer, magic: int, first_offset: int) -> bytes:
        """Down-converted, as Kafka does it for Fetch 0 to 3."""
        return base64.b64decode(self._ask("down", magic, first_offset, in_base64(data)))

    def validate(
        self,
        data: Buffer,
        *,
        append_time: bool = False,
        compacted: bool = False,
        now_ms: int = 0,
        before_ms: int = 1 << 60,
        after_ms: int = 1 << 60,
        codec: int | None = None,
    ) -> bytes:
        """What a leader stores of a produced set or batch, from offset 0 on. Raises Refused."""
        target = "producer" if codec is None else codec
        where = (TYPES[append_time], str(compacted).lower(), now_ms, before_ms, after_ms, target)
        return base64.b64decode(self._ask("validate", *where, in_base64(data)))

    def lookup(self, data: Buffer, times: Sequence[int]) -> list[int]:
        """The first offset at or after each time, then that of the newest record, in stored batches; -1 for none."""
        return [int(offset) for offset in self._ask("lookup", ",".join(map(str, times)), in_base64(data)).split(",")]

    def _ask(self, *words: object) -> str:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(" ".join(map(str, words)).encode() + b"\n")
        stdin.flush()
        line = stdout.readline().decode()
        assert line, "the process of Java has ended; what it said is above"
        answer = line.rstrip("\n")
        if answer.startswith("error "):
            _, code, indexes, message = answer.split(" ", 3)
            raise Refused(ErrorCode(int(code)), [int(index) for index in indexes.split(",") if index], message)
        return answer


class Kafka41(Kafka39):
    """The classes of Kafka 4.1, which has no down-conversion."""

    jars = "broker"


def in_base64(data: Buffer | None) -> str:
    return "-" if data is None else base64.b64encode(data).decode()


def _written(record: Record) -> str:
    return f"{record.offset},{record.timestamp},{in_base64(record.key)},{in_base64(record.value)}"


def _batch(text: str) -> Batch:
    head, _, records = text.partition(":")
    magic, codec, kind = map(int, head.split(","))
    return Batch(magic, codec, kind, [_record(one) for one in records.split(";") if one])


def _record(text: str) -> Record:
    offset, timestamp, key, value = text.split(",")
    return Record(int(offset), int(timestamp), _from_base64(key), _from_base64(value), [])


def _from_base64(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text)
