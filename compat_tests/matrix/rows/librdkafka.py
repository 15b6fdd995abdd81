"""librdkafka, as confluent-kafka's wheels carry it; a version is that of the wheel."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Final

from compat_tests.harness import toolchain
from compat_tests.harness.stored import CODECS
from compat_tests.matrix.client import BEFORE_TIMES, MODERN, Abilities, Client
from compat_tests.matrix.rows.python import PythonProgram


class Librdkafka(PythonProgram):
    """That of the confluent-kafka which is in the environment."""

    family = "librdkafka"
    module = "librdkafka"

    def wheel(self) -> Path:
        """Where the wheel was unpacked."""
        return Path(str(distribution("confluent-kafka").locate_file("")))

    def library(self) -> Path:
        found = sorted(self.wheel().glob("confluent_kafka*/**/librdkafka*.so*"))
        return found[0] if found else toolchain.missing(f"no wheel of confluent-kafka with librdkafka: {self.wheel()}")

    def environment(self) -> dict[str, str]:
        """With the directory in which it finds the libraries that came with it."""
        return {**super().environment(), "LD_LIBRARY_PATH": str(self.library().parent)}

    def command(self) -> list[str]:
        self.library()
        return super().command()

    def arguments(self, subcommand: str, bootstrap: str, topic: str, **options: str) -> list[str]:
        return super().arguments(subcommand, bootstrap, topic, **options, library=str(self.library()))


class OldLibrdkafka(Librdkafka):
    """One that `make install` has unpacked."""

    def wheel(self) -> Path:
        return toolchain.old_client(f"confluent-kafka-{self.version}")


TRANSACTIONAL: Final = replace(MODERN, transactions=True)
ROWS: Final[tuple[Client, ...]] = (
    OldLibrdkafka("0.11.6", BEFORE_TIMES, "0.8.2"),
    OldLibrdkafka("0.11.6", BEFORE_TIMES, "0.9.0"),
    OldLibrdkafka("0.11.6", Abilities(writes=CODECS[:4], reads=CODECS[:4])),
    OldLibrdkafka("1.0.0"),
    OldLibrdkafka("1.4.2", TRANSACTIONAL),
    OldLibrdkafka("1.9.2", TRANSACTIONAL),
    Librdkafka(version("confluent-kafka"), TRANSACTIONAL),
)
