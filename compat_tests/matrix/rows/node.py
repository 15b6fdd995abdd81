"""Clients for Node.js: programs of compat_tests/node."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from compat_tests.harness import toolchain
from compat_tests.harness.records import Traits
from compat_tests.harness.stored import CODECS
from compat_tests.matrix.client import BEFORE_HEADERS, BEFORE_TIMES, MODERN, Abilities, Client


class NodeClient(Client):
    def command(self) -> list[str]:
        return toolchain.node_program(self.family)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **toolchain.NODE_ENVIRONMENT}


class KafkaNode(NodeClient):
    family: ClassVar[str] = "kafka-node"


class NoKafka(NodeClient):
    family: ClassVar[str] = "no-kafka"


class Kafkajs(NodeClient):
    family: ClassVar[str] = "kafkajs"

    def __init__(self, version: str, abilities: Abilities, package: str = "kafkajs") -> None:
        super().__init__(version, abilities)
        self.package = package

    def arguments(self, subcommand: str, bootstrap: str, topic: str, **options: str) -> list[str]:
        return super().arguments(subcommand, bootstrap, topic, package=self.package, **options)


OLD_CODECS: Final = ("none", "gzip", "snappy")
# Of what it decompresses it shows the offsets within the set, and each set when it is done with it
PLACELESS: Final = replace(BEFORE_HEADERS, writes=OLD_CODECS, reads=OLD_CODECS, shows_places=False)
# Headers are an object for them; that of 1.12 has one value a name. zstd asks for Produce v7 and Fetch v10
BY_NAME: Final = Traits(null_headers=False, headers_by_name=True)
TRANSACTIONAL: Final = replace(MODERN, traits=BY_NAME, transactions=True)
BEFORE_LISTS: Final = replace(
    TRANSACTIONAL, writes=CODECS[:4], reads=CODECS[:4], traits=BY_NAME._replace(headers_unique=True)
)

ROWS: Final[tuple[Client, ...]] = (
    KafkaNode("2.6.1", PLACELESS),
    NoKafka("3.4.4", replace(BEFORE_TIMES, writes=OLD_CODECS, reads=OLD_CODECS)),
    Kafkajs("1.12.0", BEFORE_LISTS, package="kafkajs-1.12"),
    Kafkajs("2.2.4", TRANSACTIONAL),
)
