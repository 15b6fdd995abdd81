"""Clients written in Go: programs of compat_tests/go."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from compat_tests.harness import toolchain
from compat_tests.harness.stored import CODECS
from compat_tests.matrix.client import BEFORE_HEADERS, BEFORE_TIMES, MODERN, Abilities, Client


class GoClient(Client):
    """One whose program is named after it, or `program`."""

    def __init__(self, version: str, abilities: Abilities = MODERN, protocol: str = "", program: str = "") -> None:
        super().__init__(version, abilities, protocol)
        self.program = program or self.family

    def command(self) -> list[str]:
        return [toolchain.go_program(self.program)]


class Sarama(GoClient):
    family: ClassVar[str] = "sarama"


class KafkaGo(GoClient):
    family: ClassVar[str] = "kafka-go"


class FranzGo(GoClient):
    family: ClassVar[str] = "franz-go"


OLDEST_GO: Final = replace(BEFORE_TIMES, writes=("none", "gzip", "snappy"), reads=("none", "gzip", "snappy"))
BEFORE_ZSTD: Final = Abilities(writes=CODECS[:4], reads=CODECS[:4])
TRANSACTIONAL: Final = replace(MODERN, transactions=True)
TRANSACTIONAL_BEFORE_ZSTD: Final = replace(BEFORE_ZSTD, transactions=True)
# It writes format 1 and reads format 0. It has codecs, but sends nothing of what it has compressed, and shows what it
# reads as it is
NO_CODECS: Final = replace(BEFORE_TIMES, writes=("none",), reads=("none",), times="given", nulls=False)

ROWS: Final[tuple[Client, ...]] = (
    Sarama("v1.10.1", OLDEST_GO, "0.8.2", program="sarama-1.10"),
    Sarama("v1.19.0", OLDEST_GO, "0.8.2", program="sarama-1.19"),
    Sarama("v1.19.0", BEFORE_HEADERS, "0.10.2", program="sarama-1.19"),
    Sarama("v1.19.0", BEFORE_ZSTD, "0.11", program="sarama-1.19"),
    Sarama("v1.19.0", BEFORE_ZSTD, "1.0", program="sarama-1.19"),
    Sarama("v1.61.1", TRANSACTIONAL),
    KafkaGo("v0.2.0", NO_CODECS, program="kafka-go-0.2"),
    KafkaGo("v0.4.51", replace(MODERN, nulls=False)),
    FranzGo("v1.22.2", OLDEST_GO, "0.9.0"),
    FranzGo("v1.22.2", TRANSACTIONAL_BEFORE_ZSTD, "1.0"),
    FranzGo("v1.22.2", TRANSACTIONAL_BEFORE_ZSTD, "2.0"),
    # Told to, it speaks versions that no other row does
    *(FranzGo("v1.22.2", TRANSACTIONAL, protocol) for protocol in ("2.2", "2.4", "3.1", "3.5", "3.8")),
    FranzGo("v1.22.2", TRANSACTIONAL),
)
