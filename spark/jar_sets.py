"""The sets of jars for each version of Spark, tried together, with their checksums.

The connector and its token provider are published together for these versions only. Nothing transitive is named: Spark
brings its codecs, logging and Scala. `spark-avro` is not published for every version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

CONNECTOR: Final = "kafka"
EXTRAS: Final = ("avro", "delta", "iceberg")


class Jar(NamedTuple):
    """A jar of a Maven repository. `coordinates`: group:artifact:version."""

    coordinates: str
    sha256: str

    @property
    def group(self) -> str:
        return self.coordinates.split(":")[0]

    @property
    def artifact(self) -> str:
        return self.coordinates.split(":")[1]

    @property
    def version(self) -> str:
        return self.coordinates.split(":")[2]

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def repository_path(self) -> str:
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.file}"


def _connector(spark: str, clients: Jar, pool: Jar, connector: str, tokens: str) -> tuple[Jar, ...]:
    return (
        Jar(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}", connector),
        Jar(f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{spark}", tokens),
        clients,
        pool,
    )


_DELTA_STORAGE: Final = Jar(
    "io.delta:delta-storage:4.1.0", "6d0520ffcc35b582369f92c23fa24e14a5bb935cf6e31ed7f47c5046ae17cb25"
)

# Version of Spark -> name of a set -> its jars
SETS: Final[Mapping[str, Mapping[str, tuple[Jar, ...]]]] = {
    "4.0.0": {
        CONNECTOR: _connector(
            "4.0.0",
            Jar(
                "org.apache.kafka:kafka-clients:3.9.0",
                "15c1e137f2c2c94398e27abc4060a03b6bde10bf9fac15e8f70c02320b202f18",
            ),
            Jar(
                "org.apache.commons:commons-pool2:2.12.0",
                "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
            ),
            "33a3b8b04df4a2e43c9d5bf8ca5972936a1ac662f2714e014d00ef6f27468bf3",
            "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
        ),
        "avro": (
            Jar(
                "org.apache.spark:spark-avro_2.13:4.0.0",
                "083fb13d7a1091025b135eff216e2009b42c9724bb8bc597d2f28b1207ef4709",
            ),
        ),
        "delta": (
            Jar(
                "io.delta:delta-spark_4.0_2.13:4.1.0",
                "ad80099aed25b3db4a2c811166beda79ae954cec9acdb23fb52ecbb6737fa104",
            ),
            _DELTA_STORAGE,
        ),
        "iceberg": (
            Jar(
                "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
                "63c3b812549dc232c1920865ff42436df8604a9bbacd693930985c06bd97e6dc",
            ),
        ),
    },
    "4.1.1": {
        CONNECTOR: _connector(
            "4.1.1",
            Jar(
                "org.apache.kafka:kafka-clients:3.9.1",
                "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
            ),
            Jar(
                "org.apache.commons:commons-pool2:2.12.1",
                "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef",
            ),
            "9c1ce986f548e6b1dcb0e2dfe2f253a0bc58f2232a32a0c9c6c674dd25a8570c",
            "e510adc37b03d01d0a190d0dab472b5538e05eaa77454f7e9477156d7a6820ae",
        ),
        "avro": (
            Jar(
                "org.apache.spark:spark-avro_2.13:4.1.1",
                "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d",
            ),
        ),
        "delta": (
            Jar(
                "io.delta:delta-spark_4.1_2.13:4.1.0",
                "9b05d7a82196ee1f1073733a45a2faae59161e52b86ae918fe6742fad6eaf036",
            ),
            _DELTA_STORAGE,
        ),
        "iceberg": (
            Jar(
                "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
                "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
            ),
        ),
    },
    "4.2.0": {
        CONNECTOR: _connector(
            "4.2.0",
            Jar(
                "org.apache.kafka:kafka-clients:3.9.2",
                "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
            ),
            Jar(
                "org.apache.commons:commons-pool2:2.13.1",
                "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
            ),
            "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
            "641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c",
        ),
    },
}
