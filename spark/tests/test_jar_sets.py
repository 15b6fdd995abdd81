"""The table of jars: what every set has."""

from __future__ import annotations

import re

import pytest

from headgate.spark.jar_sets import CONNECTOR, EXTRAS, SETS, Jar

JARS = [jar for sets in SETS.values() for jars in sets.values() for jar in jars]


def test_a_jar_has_its_names() -> None:
    jar = Jar("org.apache.kafka:kafka-clients:3.9.1", "")
    assert (jar.group, jar.artifact, jar.version) == ("org.apache.kafka", "kafka-clients", "3.9.1")
    assert jar.file == "kafka-clients-3.9.1.jar"
    assert jar.repository_path == "org/apache/kafka/kafka-clients/3.9.1/kafka-clients-3.9.1.jar"


@pytest.mark.parametrize("spark", SETS)
def test_each_version_has_the_connector_whole(spark: str) -> None:
    """Connector and token provider of the same version, Kafka's client and the pool."""
    connector, tokens, clients, pool = SETS[spark][CONNECTOR]
    assert (connector.version, tokens.version) == (spark, spark)
    assert (clients.artifact, pool.artifact) == ("kafka-clients", "commons-pool2")
    assert set(SETS[spark]) <= {CONNECTOR, *EXTRAS}


def test_the_pinned_version_has_every_set() -> None:
    assert set(SETS["4.1.1"]) == {CONNECTOR, *EXTRAS}


def test_checksums_are_sha256() -> None:
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in JARS)
    by_file = {(jar.file, jar.sha256) for jar in JARS}
    assert len(by_file) == len({file for file, _ in by_file})
