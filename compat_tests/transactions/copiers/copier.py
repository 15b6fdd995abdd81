"""A copier under test: a process that consumes, transforms and produces in transactions, killed and started again.

The programs in Python and Java share these options:

    --bootstrap --input --output   the broker and the two topics; a record keeps its partition
    --group --protocol             the group that reads the input, `classic` or `consumer` (KIP-848), and commits in
                                   the transactions
    --id --timeout-ms              the transactional id, and the timeout of its transactions
    --session-ms                   session timeout of a classic member
    --records --pause-ms           the most records of a transaction, and how long it stays open after the last one
    --commits-an-abort --seed      one of so many transactions is aborted, by chance, and copied again

A copier writes the value in upper case. It prints `{"committed": {"0": 8}}` for each transaction whose commit was
answered: the offsets committed in it. It ends with 3 when it is fenced, and ends at the end of its standard input.

A transaction may be overdue: on a busy machine the start of a broker takes longer than the timeout. Then the copier
ends, and starts again, as an application would: with the old protocol it is fenced, with the new one its commit is
refused with INVALID_TXN_STATE, by Kafka 4.1 too, and the Java client gives up.

A transaction may never begin while a broker is away: AddPartitionsToTxn is lost with the coordinator, or is refused
with CONCURRENT_TRANSACTIONS as long as a marker of the transaction before waits for the dead leader of a partition. If
the records time out meanwhile, librdkafka aborts all the same, and INVALID_TXN_STATE, Kafka's answer too, is fatal for
its producer. The copier makes a new producer, but only if nothing of the transaction was acknowledged.

`TransactionalMessageCopier` is Kafka's own, of its system tests: it copies one partition as it is, without a member of
a group, up to the end that the partition has when it starts. One of three of its transactions is aborted. It asks for
its offset before it asks for its transactional id: where the life before was killed with an open transaction, that
offset is stable only after the transaction's timeout, and the copier waits so long.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from compat_tests.harness import client_jvm, toolchain
from compat_tests.harness.apache_kafka import ROOT, java
from compat_tests.harness.broker import TARGET

MESSAGE_COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
FENCED = 3
INVALID = "InvalidTxnStateException"
SESSION_MS = 2_000
TRANSACTION_TIMEOUT_MS = 6_000
# Kafka 3.9 has the old protocol of transactions only, and that of groups unless it is told otherwise
IS_OLD = TARGET == "kafka39"


class Pace(NamedTuple):
    """The most records of a transaction, how long it stays open, and how many transactions there are to an abort."""

    records: int
    pause_ms: int
    commits_an_abort: int


STEADY = Pace(20, 50, 8)
FAST = Pace(500, 0, 1_000_000)


class Task(NamedTuple):
    """What a copier is to do."""

    bootstrap: str
    input: str
    output: str
    group: str
    transactional_id: str


@dataclass(frozen=True)
class Kind:
    """A client: whether it speaks the new protocol (KIP-890), and how many copiers of it share a group.

    `timeout_ms` is that of its transactions.
    """

    name: str
    has_new_protocol: bool = False
    members: int = 2
    partitions: int = 4
    timeout_ms: int = TRANSACTION_TIMEOUT_MS
    # Of the group
    protocol: str = "classic"

    def transform(self, value: bytes) -> bytes:
        """What a copier writes for a value."""
        return value.upper()

    def program(self) -> list[str]:
        """What runs the copier; ends the test where the client is not on this machine."""
        raise NotImplementedError

    def command(self, task: Task, pace: Pace, seed: str) -> list[str]:
        options = {
            "bootstrap": task.bootstrap,
            "input": task.input,
            "output": task.output,
            "group": task.group,
            "protocol": self.protocol,
            "id": task.transactional_id,
            "timeout-ms": self.timeout_ms,
            "session-ms": SESSION_MS,
            "records": pace.records,
            "pause-ms": pace.pause_ms,
            "commits-an-abort": pace.commits_an_abort,
            "seed": seed,
        }
        return [*self.program(), *(word for name, value in options.items() for word in (f"--{name}", str(value)))]

    def may_start_again(self, status: int, errors: str) -> bool:
        """Whether a copier that ended like this did what it should, if its transaction was overdue."""
        return status == FENCED or (self.has_new_protocol and INVALID in errors)


class Confluent(Kind):
    def program(self) -> list[str]:
        return [sys.executable, "-W", "ignore", "-m", "compat_tests.transactions.copiers.confluent_copier"]


@dataclass(frozen=True)
class JavaClient(Kind):
    jar_set: str = ""

    def program(self) -> list[str]:
        return client_jvm.command("TransactionalCopier", self.jar_set)


class MessageCopier(Kind):
    def transform(self, value: bytes) -> bytes:
        return value

    def program(self) -> list[str]:
        toolchain.jars("broker")
        return java(MESSAGE_COPIER, log_level="error")

    def command(self, task: Task, pace: Pace, seed: str) -> list[str]:
        options = {
            "--broker-list": task.bootstrap,
            "--input-topic": task.input,
            "--input-partition": "0",
            "--output-topic": task.output,
            "--consumer-group": task.group,
            "--transactional-id": task.transactional_id,
            "--transaction-timeout": str(self.timeout_ms),
            "--transaction-size": str(pace.records),
        }
        flags = ["--use-group-metadata", *(["--enable-random-aborts"] if pace is STEADY else [])]
        return [*self.program(), *flags, *(word for pair in options.items() for word in pair)]

    def may_start_again(self, status: int, errors: str) -> bool:
        """It ends well at the end of its partition."""
        return status == 0 or "ProducerFencedException" in errors or super().may_start_again(status, errors)


KINDS = (
    JavaClient(
        "java-4.4", protocol="classic" if IS_OLD else "consumer", has_new_protocol=not IS_OLD, jar_set="clients"
    ),
    JavaClient("java-3.9", jar_set="matrix/3.9.1"),
    Confluent("confluent-kafka"),
    MessageCopier("message-copier-4.1", has_new_protocol=not IS_OLD, members=1, partitions=1),
)


class Copier:
    """One copier, over all of its lives. `acknowledged` has the highest offset committed of each partition."""

    def __init__(self, kind: Kind, task: Task, directory: Path) -> None:
        self.kind = kind
        self.task = task
        self.directory = directory
        self.lives = 0
        self.commits = 0
        # Lives that ended because the transaction was overdue
        self.overdue = 0
        self._processed = 0
        self.acknowledged: dict[int, int] = {}
        self.process: subprocess.Popen[str] | None = None
        self.listener: threading.Thread | None = None

    @property
    def name(self) -> str:
        return self.task.transactional_id

    def start(self, pace: Pace) -> None:
        """A new life with the same transactional id."""
        assert self.process is None
        self.lives += 1
        command = self.kind.command(self.task, pace, f"{self.name}-{self.lives}")
        pipe = subprocess.PIPE
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, cwd=ROOT)
        self.listener = threading.Thread(target=self._listen, args=[self.process], name=self.name, daemon=True)
        self.listener.start()

    @property
    def errors(self) -> Path:
        """What the last life wrote to its standard error."""
        return self.directory / f"{self.name}-{self.lives}.log"

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                self._hear(json.loads(line))

    def _hear(self, event: dict[str, Any]) -> None:
        """Kafka's own copier tells with each poll how many records it has copied in this life."""
        if "committed" in event:
            self.commits += 1
            for partition, offset in event["committed"].items():
                self.acknowledged[int(partition)] = max(offset, self.acknowledged.get(int(partition), 0))
        elif (processed := event.get("totalProcessed", 0)) != self._processed:
            self.commits += processed > self._processed
            self._processed = processed

    def kill(self) -> None:
        """SIGKILL, in the middle of whatever it does."""
        if self.process is not None:
            self.process.kill()
            self._reap()

    def pause(self) -> None:
        """Stop it where it is; what it has sent is served."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)

    def _reap(self) -> int:
        process, self.process = self.process, None
        assert process is not None
        assert self.listener is not None
        status = process.wait()
        self.listener.join()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()
        return status

    def keep_alive(self, pace: Pace) -> None:
        """Start it again where it ended as it should; raises where it failed."""
        if self.process is None or self.process.poll() is None:
            return
        status = self._reap()
        said = self.errors.read_text(errors="replace")
        assert self.kind.may_start_again(status, said), f"{self.name} ended with {status}: {said[-3000:]}"
        self.overdue += status != 0
        self.start(pace)
