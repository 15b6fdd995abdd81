"""Consumers of Kafka 0.8 to 0.11 that find brokers and each other in ZooKeeper: processes, and what they printed.

    with OldConsumer("0.8.2.2", zookeeper.connect, "group", "topic", storage="kafka", dual=True) as consumer:
        until(lambda: len(consumer.records) == 100, "100 messages")

`storage` and `dual` are the flags of 0.8.2 and newer by which a group goes over: offsets.storage, dual.commit.enabled.
Where a consumer leaves in order, it commits.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from compat_tests.families import java_client
from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import TOOL_OPTIONS, java
from compat_tests.harness.waiting import until

JAR_SETS: Final = {
    "0.8.1.1": "matrix/scala-0.8.1.1",
    "0.8.2.2": "broker08",
    "0.9.0.1": "matrix/scala-0.9.0.1",
    "0.11.0.3": "matrix/scala-0.11.0.3",
}
# What takes seconds by default, and says nothing here
SETTINGS: Final = {
    "auto.offset.reset": "smallest",
    "auto.commit.interval.ms": "500",
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.sync.time.ms": "200",
    "rebalance.backoff.ms": "300",
    "rebalance.max.retries": "40",
    "refresh.leader.backoff.ms": "200",
    "offsets.channel.backoff.ms": "200",
    "fetch.wait.max.ms": "200",
}
LOGGING: Final = """\
log4j.rootLogger = warn, stderr
log4j.logger.kafka.consumer.ZookeeperConsumerConnector = debug
log4j.appender.stderr = org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target = System.err
log4j.appender.stderr.layout = org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern = [%d] %p %m (%c)%n
"""
# A commit to the coordinator that fails returns like any other: its log alone says so
FAILED_COMMIT: Final = re.compile(r"Error while committing offsets|[1-9]\d* errors in offset commit response")
LIMIT_S: Final = 60.0
RETRY_S: Final = 0.2
_NUMBERS: Final = itertools.count()


class Read(NamedTuple):
    """A message as a consumer printed it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def jars(version: str) -> str:
    """The jar set of a version, or the end of the test where it is not here."""
    toolchain.jars(JAR_SETS[version])
    return JAR_SETS[version]


class OldConsumer:
    """A member of a group, started; `records` grows while it runs."""

    def __init__(
        self,
        version: str,
        connect: str,
        group: str,
        topic: str,
        *,
        streams: int = 1,
        storage: str = "zookeeper",
        dual: bool = False,
        pattern: str = "static",
        **settings: str,
    ) -> None:
        self.name = f"{version} {storage}{' dual' if dual else ''} {next(_NUMBERS)}"
        self.records: list[Read] = []
        self.signs: list[str] = []
        self.directory = Path(tempfile.mkdtemp(prefix="old-consumer-"))
        self.errors = self.directory / "stderr.log"
        lines = {"zookeeper.connect": connect, "group.id": group, **SETTINGS}
        # 0.8.1 has no other store
        if version != "0.8.1.1":
            lines |= {"offsets.storage": storage, "dual.commit.enabled": str(dual).lower()}
        lines |= {name.replace("_", "."): value for name, value in settings.items()}
        properties = self.directory / "consumer.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        compiled = toolchain.compiled("broker08", toolchain.jars("broker08"))
        arguments = (str(properties), pattern, topic, str(streams))
        command = java("ZooKeeperConsumer", *arguments, options=TOOL_OPTIONS, jar_set=jars(version))
        at = command.index("-cp")
        command[at + 1] = f"{compiled}:{command[at + 1]}"
        logging = self.directory / "log4j.properties"
        logging.write_text(LOGGING)
        # The last one counts
        command.insert(at, f"-Dlog4j.configuration={logging.as_uri()}")
        pipe = subprocess.PIPE
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("#"):
                self.signs.append(line.strip())
                continue
            topic, _, rest = line.rstrip("\n").partition("\t")
            found = java_client.received(rest)
            self.records.append(Read(topic, found.partition, found.offset, found.key, found.value))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.leave()
        else:
            self.kill()

    def wait_for_start(self) -> None:
        """Until it has its streams: its first rebalance is over."""
        until(lambda: self._has("#started"), f"{self.name} to start: {self.errors}", LIMIT_S)

    def commit(self) -> None:
        """Commit what it has read, until that is acknowledged."""
        assert self.process.stdin is not None
        deadline = time.monotonic() + LIMIT_S
        while True:
            assert time.monotonic() < deadline, f"{self.name} commits in vain: {self.errors}"
            count, logged = self.signs.count("#committed"), self.errors.stat().st_size
            self.process.stdin.write("commit\n")
            self.process.stdin.flush()
            until(partial(self._has, "#committed", count + 1), f"{self.name} to commit", LIMIT_S)
            if not FAILED_COMMIT.search(self.errors.read_bytes()[logged:].decode(errors="replace")):
                return
            time.sleep(RETRY_S)

    def leave(self) -> None:
        """The end of its input: it commits and leaves in order; its files are removed."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end:\n{self.said()}") from None
        self._reader.join()
        self.process.__exit__(None, None, None)
        assert self.process.returncode == 0, f"{self.name} ended with {self.process.returncode}:\n{self.said()}"
        shutil.rmtree(self.directory)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self._reader.join()
        # Its pipes are closed
        self.process.__exit__(None, None, None)

    def said(self) -> str:
        """The end of its log."""
        return self.errors.read_text(errors="replace")[-4000:]

    def _has(self, sign: str, count: int = 1) -> bool:
        assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}:\n{self.said()}"
        return self.signs.count(sign) >= count


class RollingGroup:
    """Two members of a group that are replaced one after the other; `gone` has what earlier ones read."""

    def __init__(self) -> None:
        self.members: list[OldConsumer] = []
        self.gone: list[Read] = []
        self.rebalances = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()

    @property
    def records(self) -> list[Read]:
        """What all have read until now."""
        return [*self.gone, *(record for member in self.members for record in member.records)]

    def bounce(self, new_member: Callable[[], OldConsumer]) -> None:
        """Replace both members, or start them."""
        for _ in range(2):
            if len(self.members) == 2:
                self.leave()
            self.members.append(new_member())
            self.members[-1].wait_for_start()
            self.rebalances += 1

    def leave(self) -> None:
        """The oldest member leaves."""
        member = self.members.pop(0)
        try:
            member.leave()
        except BaseException:
            member.kill()
            raise
        self.gone += member.records
        self.rebalances += 1

    def leave_all(self) -> None:
        while self.members:
            self.leave()
