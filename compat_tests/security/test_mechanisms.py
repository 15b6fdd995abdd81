"""Stock clients with every mechanism that they know, and with certificates, under ACLs: one broker for all."""

from __future__ import annotations

import copy
import importlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from compat_tests.families.aiokafka_client import Aiokafka
from compat_tests.families.confluent import Confluent
from compat_tests.families.family import Family, FromStart
from compat_tests.families.java_client import JavaClient
from compat_tests.families.json_lines import FranzGo, Sarama
from compat_tests.families.kafka_python import KafkaPython
from compat_tests.families.kcat import Kcat
from compat_tests.harness.broker import TARGET
from compat_tests.harness.records import Received, Sent, assert_same, generate
from compat_tests.matrix.carried import assert_carried, records_of
from compat_tests.matrix.client import Client
from compat_tests.matrix.rows import ROWS
from compat_tests.matrix.rows.jvm import Call, Jvm
from compat_tests.security.client_security import GSSAPI
from compat_tests.security.kdc import LIBRARY
from compat_tests.security.mechanisms_broker import MTLS, PASSWORD_MECHANISMS, MechanismsBroker

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for SASL by its command line")
COUNT: Final = 10
BEARER: Final = "OAUTHBEARER"
EVERY: Final = (*PASSWORD_MECHANISMS, BEARER, MTLS)
WITH_KERBEROS: Final = (*EVERY, GSSAPI)
# In the order of their tests. The wheels of librdkafka have no GSSAPI; kcat of Debian has
FAMILIES: Final[dict[type[Family], Sequence[str]]] = {
    Confluent: EVERY,
    KafkaPython: WITH_KERBEROS,
    Aiokafka: WITH_KERBEROS,
    # A JVM reads what is said of tokens and of Kerberos once, at its start
    JavaClient: (BEARER, *PASSWORD_MECHANISMS, MTLS, GSSAPI),
    FranzGo: WITH_KERBEROS,
    Sarama: WITH_KERBEROS,
    Kcat: (*PASSWORD_MECHANISMS, MTLS, GSSAPI),
}
OLD: Final[dict[str, Sequence[str]]] = {
    "librdkafka 0.11.6": (*PASSWORD_MECHANISMS, MTLS),
    "librdkafka 1.9.2": EVERY,
    "java 0.9.0.1": (MTLS, GSSAPI),
    "java 0.10.2.2": (*PASSWORD_MECHANISMS, MTLS, GSSAPI),
    "java 2.8.2": WITH_KERBEROS,
    "java 3.9.1": WITH_KERBEROS,
    "kafka-go v0.4.51": (*PASSWORD_MECHANISMS, MTLS),
    "kafkajs 2.2.4": EVERY,
}
OLD_ROWS: Final = [row for row in ROWS if row.name in OLD]


@pytest.fixture
def tickets(mechanisms: MechanismsBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients in this process find the realm and alice's ticket, and those of Python the library."""
    if mechanisms.kdc is None:
        return
    for name, value in mechanisms.login(GSSAPI).environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(LIBRARY))
    # It looks for the library when it is imported
    monkeypatch.setattr("aiokafka.conn.gssapi", importlib.import_module("gssapi"))


def known(broker: MechanismsBroker, mechanisms: Sequence[str]) -> list[str]:
    """Those that the broker has; without a KDC there is no GSSAPI."""
    return [one for one in mechanisms if one != GSSAPI or broker.kdc is not None]


@pytest.mark.usefixtures("tickets")
@pytest.mark.parametrize("kind", FAMILIES, ids=[kind.name for kind in FAMILIES])
def test_a_family_knows_its_mechanisms(mechanisms: MechanismsBroker, kind: type[Family]) -> None:
    """With each one it writes, and reads all that is there."""
    family = kind()
    family.check()
    topic, began_ms, sent = mechanisms.new_topic(), now_ms(), list[Sent]()
    try:
        for mechanism in known(mechanisms, FAMILIES[kind]):
            address, family.security = mechanisms.security(mechanism)
            records = generate(COUNT, 1, family.traits, seed=len(sent))
            family.produce(address, topic, records, "none")
            sent += records
            assert_same(sent, family.consume(address, topic, FromStart(), {0: len(sent)}), began_ms)
    finally:
        family.close()


@pytest.mark.parametrize("row", OLD_ROWS, ids=[row.name.replace(" ", "-") for row in OLD_ROWS])
def test_an_old_client_knows_its_mechanisms(mechanisms: MechanismsBroker, row: Client, tmp_path: Path) -> None:
    client, names = copy.copy(row), known(mechanisms, OLD[row.name])
    client.command()
    topic, began_ms = mechanisms.new_topic(partitions=2), now_ms()
    portions = [records_of(client.abilities, COUNT, seed) for seed, _ in enumerate(names)]
    calls: list[Call] = []
    for index, (name, records) in enumerate(zip(names, portions, strict=True), 1):
        calls.append(Call(*mechanisms.security(name), topic, records))
        calls.append(Call(*mechanisms.security(name), topic, record_count=index * COUNT))
    answers = client.each(calls, tmp_path) if isinstance(client, Jvm) else [call_of(client, call) for call in calls]
    for index, found in enumerate(answers[1::2], 1):
        sent = [record for records in portions[:index] for record in records]
        assert_carried(sent, found, client.abilities, client.abilities, began_ms)


def call_of(client: Client, call: Call) -> list[Received]:
    client.security = call.security
    if call.records:
        client.produce_each(call.bootstrap, call.topic, {"none": call.records})
        return []
    return client.read(call.bootstrap, call.topic, call.record_count)


def now_ms() -> int:
    return int(time.time() * 1000)
