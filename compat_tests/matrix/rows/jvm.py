"""Java's kafka-clients from 0.8.2 on: one program, java/matrix, run with the jars of each version.

0.8.2 has a producer only; there the Scala SimpleConsumer of the broker's own jar reads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from compat_tests.families import java_client
from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import TOOL_OPTIONS
from compat_tests.harness.broker import TARGET
from compat_tests.harness.records import Received, Sent
from compat_tests.harness.stored import CODECS
from compat_tests.harness.waiting import until
from compat_tests.matrix.client import BEFORE_HEADERS, BEFORE_TIMES, MODERN, Abilities, Client
from compat_tests.zookeeper.old_consumer import OldConsumer

OLDEST, OLD_NEWEST = "matrix/0.8.2.2", "matrix/3.9.1"


class Jvm(Client):
    """`group_protocol`: how it reads in a group; from 4.0 on it may be that of KIP-848."""

    family = "java"

    def __init__(self, version: str, abilities: Abilities = MODERN, group_protocol: str = "") -> None:
        super().__init__(version, abilities)
        self.group_protocol = group_protocol

    def command(self) -> list[str]:
        newest = toolchain.jars("clients")
        own = newest if self.version == NEWEST.version else toolchain.jars(f"matrix/{self.version}")
        compiled = toolchain.compiled("matrix", os.pathsep.join(map(toolchain.jars, (OLD_NEWEST, OLDEST))))
        logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        classes = os.pathsep.join((compiled, own))
        return [toolchain.program("java", "install a JDK"), *TOOL_OPTIONS, logging, "-cp", classes, "MatrixClient"]

    def arguments(self, subcommand: str, bootstrap: str, topic: str, **options: str) -> list[str]:
        # Kafka 3.9 has the newer protocol only where it is asked to try it
        if self.group_protocol and subcommand == "group" and TARGET != "kafka39":
            options["protocol"] = self.group_protocol
        return super().arguments(subcommand, bootstrap, topic, **options)

    def produce_each(self, bootstrap: str, topic: str, batches: Mapping[str, Sequence[Sent]]) -> None:
        """In one JVM, whose start costs more than anything that it does here: a line for each codec goes before."""
        lines = (line for codec, records in batches.items() for line in (codec, *map(self.line_of, records)))
        self.feed(self.arguments("produce", bootstrap, topic), lines)

    def line_of(self, record: Sent) -> str:
        return java_client.line(record).rstrip("\n")

    def end_of(self, end: str) -> str:
        return end

    def record_of(self, line: str) -> Received:
        return java_client.received(line)


class Scala(Jvm):
    """Kafka 0.8: in a group it reads with the consumer of the broker's own jar, which lives in ZooKeeper."""

    needs_zookeeper = True

    def __init__(self, version: str, abilities: Abilities = MODERN) -> None:
        super().__init__(version, abilities)
        self.name += " with ZooKeeper"
        self.commits_to_zookeeper = True

    def read_in_group(self, bootstrap: str, topic: str, group: str, count: int, zookeeper: str = "") -> list[Received]:
        with OldConsumer(self.version, zookeeper, group, topic) as consumer:
            until(lambda: len(consumer.records) >= count, f"{count} messages: {consumer.errors}")
        found = consumer.records
        return [Received(read.partition, read.offset, -1, read.key, read.value, ()) for read in found]


TRANSACTIONAL: Final = replace(MODERN, transactions=True)
BEFORE_ZSTD: Final = replace(TRANSACTIONAL, writes=CODECS[:4], reads=CODECS[:4])
NEWEST: Final = Jvm("4.4.0", TRANSACTIONAL, group_protocol="consumer")
ROWS: Final[tuple[Client, ...]] = (
    Jvm("0.8.2.2", replace(BEFORE_TIMES, groups=False)),
    Scala("0.8.2.2", BEFORE_TIMES),
    Jvm("0.9.0.1", BEFORE_TIMES),
    Jvm("0.10.2.2", BEFORE_HEADERS),
    Jvm("0.11.0.3", BEFORE_ZSTD),
    Jvm("1.1.1", BEFORE_ZSTD),
    Jvm("2.8.2", TRANSACTIONAL),
    Jvm("3.9.1", TRANSACTIONAL),
    NEWEST,
)
