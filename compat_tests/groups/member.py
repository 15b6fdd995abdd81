"""A member of a group under test: one process of a stock client, what it said, and what it can be told."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from compat_tests.families.json_lines import Kafkajs
from compat_tests.harness import client_jvm, toolchain
from compat_tests.harness.apache_kafka import ROOT
from compat_tests.harness.waiting import until

SERVER = "server"
COMMIT_LIMIT_S = 60.0
END_LIMIT_S = 60.0


@dataclass(frozen=True)
class Kind:
    """A client and how it shares partitions: by an assignor of its own, or `server` (KIP-848)."""

    client: str
    assignor: str
    has_static_members: bool = True
    # Where it does not, a commit on a connection that is gone is repeated by the tests
    tells_failed_commits: bool = True

    @property
    def name(self) -> str:
        return f"{self.client}-{self.assignor}"

    @property
    def group_type(self) -> str:
        """Of a group of nothing else."""
        return "consumer" if self.assignor == SERVER else "classic"

    def command(self) -> list[str]:
        """What runs the member program; ends the test where the client is not on this machine."""
        return COMMANDS[self.client]()

    def environment(self) -> Mapping[str, str] | None:
        return Kafkajs().environment() if self.client.startswith("kafkajs") else None


def python(module: str) -> Callable[[], list[str]]:
    # Warnings of clients are not ours to mend
    return lambda: [sys.executable, "-W", "ignore", "-m", f"compat_tests.groups.{module}"]


COMMANDS: dict[str, Callable[[], list[str]]] = {
    "confluent-kafka": python("confluent_member"),
    "kafka-python": python("kafka_python_member"),
    "aiokafka": python("aiokafka_member"),
    "java-4.4": lambda: client_jvm.command("GroupMember"),
    "franz-go": lambda: [toolchain.go_program("franz-go"), "member"],
    "sarama": lambda: [toolchain.go_program("sarama"), "member"],
    "kafkajs": lambda: [*Kafkajs().command(), "member"],
    "kafkajs-1.12": lambda: [*Kafkajs().command(), "member", "--package", "kafkajs-1.12"],
}

KINDS = (
    Kind("confluent-kafka", "range"),
    Kind("confluent-kafka", "cooperative-sticky"),
    Kind("confluent-kafka", SERVER),
    Kind("java-4.4", "range"),
    Kind("java-4.4", "cooperative-sticky"),
    Kind("java-4.4", SERVER),
    Kind("kafka-python", "range"),
    Kind("kafka-python", "cooperative-sticky"),
    Kind("aiokafka", "roundrobin", has_static_members=False),
    Kind("aiokafka", "sticky", has_static_members=False),
    Kind("franz-go", "range"),
    Kind("franz-go", "cooperative-sticky"),
    # A static member's goodbye comes without its instance id there (v1.22), which Kafka and we refuse
    Kind("franz-go", SERVER, has_static_members=False),
    Kind("sarama", "range", tells_failed_commits=False),
    Kind("sarama", "sticky", tells_failed_commits=False),
    Kind("kafkajs", "roundrobin", has_static_members=False),
)


class Member:
    """A running member. `owned`, `records`, `assignments` and `failures` are what it said so far."""

    def __init__(
        self,
        kind: Kind,
        bootstrap: str,
        topic: str,
        group: str,
        session_ms: int,
        instance: str | None = None,
        reset: str | None = None,
    ) -> None:
        options = {"bootstrap": bootstrap, "topic": topic, "group": group, "assignor": kind.assignor}
        options |= {"session-ms": str(session_ms)} | ({} if instance is None else {"instance": instance})
        options |= {} if reset is None else {"reset": reset}
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self.kind = kind
        self.topic = topic
        self.name = f"{kind.name}{f' ({instance})' if instance else ''}"
        self.owned: frozenset[int] = frozenset()
        self.assignments: list[frozenset[int]] = []
        self.records: list[tuple[int, int]] = []
        self.commits: list[str] = []
        self.failures: list[str] = []
        self.last_words = ""
        command = [*kind.command(), *words]
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by end()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=ROOT,
            env=kind.environment(),
        )
        self.listener = threading.Thread(target=self.listen, name=self.name, daemon=True)
        self.listener.start()

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.hear(json.loads(line))

    def hear(self, event: dict[str, Any]) -> None:
        if "owned" in event:
            self.owned = frozenset(event["owned"])
            self.assignments.append(self.owned)
        elif "committed" in event:
            self.commits.append(event["committed"])
        elif "error" in event:
            self.failures.append(event["error"])
        else:
            self.records.append((event["partition"], event["offset"]))

    def assert_running(self) -> None:
        assert self.process.poll() is None, f"{self.name} ended by itself: {self.failures[-3:]} {self.said()}"

    def said(self) -> str:
        """The end of its standard error."""
        if not self.errors.closed:
            self.errors.seek(0)
            self.last_words = self.errors.read().decode(errors="replace")[-2000:]
        return self.last_words

    def commit(self) -> None:
        """Have it commit, again while the group has it join anew."""
        deadline_s = time.monotonic() + COMMIT_LIMIT_S
        while failure := self.try_to_commit():
            assert time.monotonic() < deadline_s, f"{self.name} cannot commit: {failure}"

    def try_to_commit(self) -> str:
        """Why it could not, or nothing."""
        assert self.process.stdin is not None
        before = len(self.commits)
        self.process.stdin.write("commit\n")
        self.process.stdin.flush()
        until(lambda: self.has_committed(before), f"{self.name} to commit", COMMIT_LIMIT_S)
        return self.commits[-1]

    def has_committed(self, before: int) -> bool:
        self.assert_running()
        return len(self.commits) > before

    def leave(self) -> None:
        """Have it close its client and end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait(END_LIMIT_S)
        self.listener.join()
        said = self.said()
        self.end()
        assert status == 0, f"{self.name} ended with {status}: {said}"

    def crash(self) -> None:
        """SIGKILL: it says goodbye to nobody."""
        self.process.kill()
        self.process.wait()
        self.listener.join()
        self.end()

    def end(self) -> None:
        """Let go of what is still held, whatever happened."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.listener.join()
        self.said()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None and not stream.closed:
                stream.close()
        self.owned = frozenset()
