"""Java's kafka-clients from 0.8.2 on: one program, java/matrix, run with the jars of each version.

0.8.2 has a producer only; there the Scala SimpleConsumer of the broker's own jar reads.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from compat_tests.families import java_client
from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import TOOL_OPTIONS
from compat_tests.harness.broker import TARGET
from compat_tests.harness.records import Received, Sent
from compat_tests.harness.stored import CODECS
from compat_tests.harness.waiting import until
from compat_tests.matrix.client import BEFORE_HEADERS, BEFORE_TIMES, MODERN, Abilities, Client
from compat_tests.security.client_security import Security, write_properties
from compat_tests.zookeeper.old_consumer import OldConsumer

OLDEST, OLD_NEWEST = "matrix/0.8.2.2", "matrix/3.9.1"


LIMIT_S: Final = 40.0
# A client that ends says by a warning that it renews its ticket no more
QUIET_TICKETS: Final = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.security.kerberos=error"
SINCE_0_10: Final = frozenset(("sasl.mechanism", "sasl.jaas.config"))
# Kafka 0.9 asks a class for the realm that newer JDKs keep to themselves
KERBEROS_OF_JDK: Final = ("--add-exports", "java.security.jgss/sun.security.krb5=ALL-UNNAMED")


class Call(NamedTuple):
    """A call of a program: records to send, or else so many to read from the beginning on."""

    bootstrap: str
    security: Security
    topic: str
    records: Sequence[Sent] = ()
    record_count: int = 0


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

    def each(self, calls: Sequence[Call], directory: Path) -> list[list[Received]]:
        """Several calls in one JVM, in their order; the files of the calls are put into `directory`."""
        calls = list(calls)
        options = dict.fromkeys(option for call in calls for option in call.security.java_options())
        command = self.command()
        with_options = [command[0], *options, QUIET_TICKETS, *self.jaas_options(calls, directory), *command[1:], "each"]
        text = "".join(f"{self.line_of_call(call, directory / str(index))}\n" for index, call in enumerate(calls))
        done = subprocess.run(with_options, input=text, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        found = list(self.answers(done.stdout))
        assert not done.stderr, done.stderr
        return found

    def line_of_call(self, call: Call, path: Path) -> str:
        settings = call.security.of_java()
        login = call.security.login
        if login is not None and login.token:
            settings = self.with_token(settings, login.token, path.with_suffix(".token"))
        if self.version.startswith("0.9"):
            settings = {name: value for name, value in settings.items() if name not in SINCE_0_10}
            # It asks for a group where it needs none
            settings |= {} if call.records else {"group.id": "unused"}
        file = write_properties(path.with_suffix(".properties"), settings)
        options = {"bootstrap": call.bootstrap, "topic": call.topic, "count": str(call.record_count)}
        source = "-"
        if call.records:
            records = path.with_suffix(".records")
            records.write_text("".join(f"{line}\n" for line in ("none", *map(self.line_of, call.records))))
            source = str(records)
        words = (word for name, value in options.items() for word in (f"--{name}", value))
        return "\t".join((file, source, "produce" if call.records else "read", *words))

    def with_token(self, settings: dict[str, str], token: str, path: Path) -> dict[str, str]:
        """From 3.1 on the client reads a token by itself; before, by a class of the user's, as here."""
        if self.version == NEWEST.version:
            return settings
        path.write_text(token)
        del settings["sasl.oauthbearer.token.endpoint.url"]
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        own = {
            "sasl.jaas.config": f'{module} required file="{path}";',
            "sasl.login.callback.handler.class": "TokenFile",
        }
        return {**settings, **own}

    def jaas_options(self, calls: Sequence[Call], directory: Path) -> list[str]:
        """Before 0.10.2 (KIP-85), a JAAS line stood in a file of the JVM alone."""
        lines = [call.security.login.kerberos_jaas() for call in calls if call.security.login]
        if not self.version.startswith("0.9") or not lines:
            return []
        path = directory / "jaas.conf"
        path.write_text(f"KafkaClient {{ {lines[0]} }};")
        return [f"-Djava.security.auth.login.config={path}", *KERBEROS_OF_JDK]

    def answers(self, output: str) -> Iterator[list[Received]]:
        """The records of each call."""
        found: list[Received] = []
        for line in output.splitlines():
            assert not line.startswith("error"), line
            if line == "done":
                yield found
                found = []
            else:
                found.append(self.record_of(line))

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
