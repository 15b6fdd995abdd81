"""Stock clients over TLS: each family of today, and old clients, with an authority of their own and the host name."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable

import pytest

from compat_tests.families import FAMILIES, Family
from compat_tests.families.confluent import Confluent
from compat_tests.families.family import FromStart
from compat_tests.families.kafka_python import KafkaPython
from compat_tests.harness.broker import TARGET
from compat_tests.harness.records import assert_same, generate
from compat_tests.matrix.carried import assert_carried, records_of
from compat_tests.matrix.client import Client
from compat_tests.matrix.rows import ROWS
from compat_tests.security.client_security import Security
from compat_tests.security.secure_broker import MUTUAL, OPTIONAL, TLS, SecureBroker

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for TLS by its command line")
COUNT = 200
OLD = {
    "librdkafka 0.11.6",
    "librdkafka 1.9.2",
    "java 0.9.0.1",
    "java 0.10.2.2",
    "java 2.8.2",
    "java 3.9.1",
    "kafka-go v0.2.0",
    "kafka-go v0.4.51",
}
OLD_ROWS = [row for row in ROWS if row.name in OLD]


def test_the_old_clients_are_those_of_the_matrix() -> None:
    """A row that is renamed is not lost here."""
    assert {row.name for row in OLD_ROWS} == OLD


@pytest.mark.parametrize("kind", FAMILIES, ids=[kind.name for kind in FAMILIES])
def test_a_family_writes_and_reads(secure: SecureBroker, secure_topic: Callable[..., str], kind: type[Family]) -> None:
    """It writes where no certificate is asked for, and reads where one is required."""
    family = kind()
    family.check()
    family.security = Security(secure.certificates, certificate="client")
    name, began_ms = secure_topic(family.partitions), now_ms()
    sent = generate(COUNT, family.partitions, family.traits)
    try:
        family.produce(secure.address(TLS), name, sent, "gzip")
        counts = ends_of(secure, name)
        assert_same(sent, family.consume(secure.address(MUTUAL), name, FromStart(), counts), began_ms)
    finally:
        family.close()


@pytest.mark.parametrize("row", OLD_ROWS, ids=[row.name.replace(" ", "-") for row in OLD_ROWS])
def test_an_old_client_writes_and_reads(secure: SecureBroker, secure_topic: Callable[..., str], row: Client) -> None:
    """In a group, if it has groups: a process less."""
    client = copy.copy(row)
    client.command()
    client.security = Security(secure.certificates, certificate="client")
    name, began_ms, bootstrap = secure_topic(2), now_ms(), secure.address(MUTUAL)
    sent = records_of(client.abilities, COUNT, seed=1)
    client.produce_each(bootstrap, name, {"none": sent})
    if client.abilities.groups:
        found = client.read_in_group(bootstrap, name, f"{name}-group", len(sent))
    else:
        found = client.read(bootstrap, name, len(sent))
    assert_carried(sent, found, client.abilities, client.abilities, began_ms)


@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("kind", [Confluent, KafkaPython], ids=["confluent-kafka", "kafka-python"])
def test_one_port_serves_plain_and_tls_clients(
    secure: SecureBroker, secure_topic: Callable[..., str], kind: type[Family], is_secure: bool
) -> None:
    """With headgate.ssl.optional."""
    name, family = secure_topic(1), kind()
    family.security = Security(secure.certificates) if is_secure else None
    sent, began_ms = generate(COUNT, 1, family.traits), now_ms()
    family.produce(secure.address(OPTIONAL), name, sent, "lz4")
    found = family.consume(secure.address(OPTIONAL), name, FromStart(), {0: COUNT})
    assert_same(sent, found, began_ms)


def ends_of(broker: SecureBroker, topic: str) -> dict[int, int]:
    """The number of records in each partition, as a client without security is told."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    ends = {one: consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=30)[1] for one in partitions}
    consumer.close()
    return ends


def now_ms() -> int:
    return int(time.time() * 1000)
