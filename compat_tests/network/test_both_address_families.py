"""One listener at `[::]`, and clients over IPv4 and IPv6: Kafka 4.1 and 3.9 serve both there, and at an empty host."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from compat_tests.families.family import Family, FromStart
from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.records import assert_same, generate
from compat_tests.harness.topics import new_topic

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="Apache Kafka has to be told what it advertises")

HOSTS = ("127.0.0.1", "[::1]")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Each client gets the address that it has connected to, so that it stays in its family of addresses."""
    with running(tmp_path_factory.mktemp("both"), {"listeners": "PLAINTEXT://[::]:0"}) as broker:
        yield broker


def test_clients_of_every_family_over_ipv4_and_ipv6(both: Broker, family: Family) -> None:
    port = both.bootstrap.rpartition(":")[2]
    topic = new_topic(both.bootstrap, 1)
    sent = generate(100, 1, family.traits)
    hosts = HOSTS[:1] if family.name == "kafkajs" else HOSTS  # it takes "[" for the host of [::1]:9092
    for number, host in enumerate(hosts):
        began_ms = int(time.time() * 1000)
        family.produce(f"{host}:{port}", topic, sent, "none")
        for other in hosts:
            received = family.consume(f"{other}:{port}", topic, FromStart(), {0: (number + 1) * len(sent)})
            assert len(received) == (number + 1) * len(sent)
        if number == 0:
            assert_same(sent, received, began_ms)
