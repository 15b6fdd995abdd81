"""Clients written in Python."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar, Final

from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import ROOT
from compat_tests.harness.records import Sent, Traits
from compat_tests.harness.stored import CODECS
from compat_tests.matrix.client import BEFORE_HEADERS, BEFORE_TIMES, Abilities, Client

# A header of theirs has a value
HEADERS: Final = Traits(null_headers=False)


class PythonProgram(Client):
    """A program of compat_tests/matrix/python, by this interpreter."""

    module: ClassVar[str]

    def command(self) -> list[str]:
        # Warnings of clients are not ours to mend
        return [sys.executable, "-W", "ignore", "-m", f"compat_tests.matrix.python.{self.module}"]

    def produce_each(self, bootstrap: str, topic: str, batches: Mapping[str, Sequence[Sent]]) -> None:
        """In one process: a line for each codec goes before."""
        lines = (
            line for codec, records in batches.items() for line in (json.dumps(codec), *map(self.line_of, records))
        )
        self.feed(self.arguments("produce", bootstrap, topic), lines)

    def path(self) -> tuple[Path, ...]:
        """Where modules are looked for before they are in the environment."""
        return (ROOT,)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": os.pathsep.join(map(str, self.path()))}


class KafkaPython(PythonProgram):
    family = "kafka-python"
    module = "kafka_python"


class OldKafkaPython(KafkaPython):
    """A version that is not the environment's."""

    def path(self) -> tuple[Path, ...]:
        return (toolchain.old_client(f"{self.family}-{self.version}"), *super().path())

    def command(self) -> list[str]:
        self.path()
        return super().command()


class KafkaPython081(OldKafkaPython):
    """It is alone in its group, and commits with OffsetCommit 0."""

    needs_zookeeper = True

    def __init__(self, version: str, abilities: Abilities) -> None:
        super().__init__(version, abilities, "0.8.1")
        self.commits_to_zookeeper = True


class Pykafka(OldKafkaPython):
    """Brokers and members are in ZooKeeper, offsets with the coordinator."""

    family = "pykafka"
    module = "pykafka_lines"
    needs_zookeeper = True


class Aiokafka(PythonProgram):
    family = "aiokafka"
    module = "aiokafka_lines"


OLDEST: Final = replace(BEFORE_TIMES, writes=CODECS[:3], reads=CODECS[:3])
BEFORE_ZSTD: Final = Abilities(writes=CODECS[:4], reads=CODECS[:4], traits=HEADERS)

ROWS: Final[tuple[Client, ...]] = (
    OldKafkaPython("1.4.7", BEFORE_TIMES, "0.8.2"),
    KafkaPython081("1.4.7", OLDEST),
    OldKafkaPython("1.4.7", BEFORE_TIMES, "0.9"),
    OldKafkaPython("1.4.7", BEFORE_HEADERS, "0.10.2"),
    OldKafkaPython("1.4.7", BEFORE_ZSTD),
    OldKafkaPython("2.0.2", BEFORE_TIMES, "0.8.2"),
    OldKafkaPython("2.0.2", BEFORE_TIMES, "0.9"),
    OldKafkaPython("2.0.2", BEFORE_HEADERS, "0.10.2"),
    OldKafkaPython("2.0.2", Abilities(traits=HEADERS)),
    KafkaPython(version("kafka-python"), Abilities(traits=HEADERS, transactions=True)),
    Pykafka("2.8.0", OLDEST, "0.8.2"),
    Aiokafka(version("aiokafka"), Abilities(transactions=True)),
)
