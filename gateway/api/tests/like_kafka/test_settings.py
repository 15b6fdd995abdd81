"""Every setting of Kafka is described and altered as in Kafka; `settings_scenario` asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.api.tests.like_kafka.settings_scenario import (
    MORE,
    RESOURCES,
    SETTINGS,
    describe,
    description,
    play,
)
from headgate.gateway.tests.builders import HandlerBroker

pytestmark = pytest.mark.slow
DESCRIBED = ("broker", "topic", "group", "metrics")

# What differs on purpose from Kafka 4.1: the label, and the reason
DIFFERENT = {
    **dict.fromkeys(
        ("broker listeners", "alter listeners", "replace listeners", "set listeners"),
        "the default is the loopback interface, and a change needs a restart",
    ),
    "broker listener.security.protocol.map": "a change needs a restart",
    "broker log.dir": "many systems empty /tmp",
    "broker log.dirs": "a list",
    "broker queued.max.request.bytes": "the memory for requests is limited by default",
    "broker socket.listen.backlog.size": "all clients of a cluster may connect at once",
    "broker socket.receive.buffer.bytes": "the system finds a better size",
    "topic flush.ms": "the fallback is told, a broker's setting in another unit",
    "topic retention.ms": "as flush.ms",
    "topic segment.jitter.ms": "as flush.ms",
    "topic segment.ms": "as flush.ms",
    "group consumer.heartbeat.interval.ms": "the broker's setting is told, which is the group's default",
    "group consumer.session.timeout.ms": "as above",
    "metrics interval.ms": "no client metrics are collected, so a subscription cannot be set",
    "metrics match": "as above",
    "metrics metrics": "as above",
    "alter log.cleaner.io.buffer.load.factor": "a negative number is refused",
    "alter log.cleaner.io.max.bytes.per.second": "a negative number is refused",
    "alter log.flush.interval.ms": "a negative number is refused",
    "alter log.retention.bytes": "no number below -1 has a meaning",
    "alter log.retention.ms": "no number below -1 has a meaning",
    **dict.fromkeys(("alter metric.reporters", "replace metric.reporters"), "no class is loaded"),
    "alter ssl.engine.factory.class": "the empty text means no class",
    "alter principal.builder.class": "the empty text means the default",
    **dict.fromkeys(
        ("alter min.insync.replicas", "replace min.insync.replicas", "set min.insync.replicas"),
        "Kafka forbids it to a broker while it elects eligible leaders (ELR), which are not served",
    ),
    **{f"{what} sasl.jaas.config": "a secret without effect is not stored" for what in ("alter", "replace", "set")},
    **{
        f"{what} {name}": "Kafka takes any value and hides it, without effect until a restart"
        for what in ("alter", "replace", "set")
        for name in ("super.users", "allow.everyone.if.no.acl.found")
    },
}
DIFFERENT_FROM_39 = {
    "broker log.message.timestamp.difference.max.ms": "without a value the two newer settings count, as in 4.1",
    "topic message.timestamp.difference.max.ms": "as above: told where it is set",
    "topic message.format.version": "every record is stored in version 2, and there is no default",
}
# Kafka 4.1 cannot replace all settings of all brokers while it elects eligible leaders (ELR): 40 for a valid value
ELR = " | 40 "


def recorded(version: str) -> dict[str, str]:
    text = (Path(__file__).parent / f"settings_of_kafka{version}.txt").read_text()
    return dict(line.split("\t") for line in text.splitlines())


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    node = HandlerBroker(tmp_path_factory.mktemp("data"), **settings)
    yield play(node)
    node.close()


@pytest.fixture(scope="module")
def of_39(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Ours, asked by name for the settings that Kafka 4.1 does not have any more."""
    node = HandlerBroker(tmp_path_factory.mktemp("data"), node_id="1")
    node.services.metadata.create_topic("t", 1)
    older = recorded("39").keys() - recorded("41").keys()
    names = {kind: [label.split()[1] for label in older if label.startswith(kind)] for kind in ("broker", "topic")}
    yield {
        f"{kind} {row.name}": description(row)
        for kind, (number, name) in RESOURCES.items()
        if kind in names
        for row in describe(node, number, name, names[kind])
    }
    node.close()


def test_settings_of_39_alone_are_described_if_asked_for(of_39: dict[str, str]) -> None:
    older = {label: line for label, line in recorded("39").items() if label not in recorded("41")}
    labels = [label for label in older if label.split()[0] in DESCRIBED and label not in DIFFERENT_FROM_39]
    assert {label: of_39.get(label) for label in labels if of_39.get(label) != older[label]} == {}


def test_settings_are_described_as_by_kafka(ours: dict[str, str]) -> None:
    assert {
        label: (ours.get(label), line)
        for label, line in recorded("41").items()
        if label.split()[0] in DESCRIBED and label not in DIFFERENT and ours.get(label) != line
    } == {}


def test_alterations_have_kafkas_outcome(ours: dict[str, str]) -> None:
    assert {
        label: (ours.get(label), line)
        for label, line in recorded("41").items()
        if label.split()[0] not in DESCRIBED
        and label not in DIFFERENT
        and ours.get(label) not in (line, line.replace(ELR, " | 0 "))
    } == {}


def test_what_is_listed_as_different_differs(ours: dict[str, str]) -> None:
    kafkas = recorded("41")
    assert [label for label in DIFFERENT if label in kafkas and ours.get(label) == kafkas[label]] == []
    assert [label for label in DIFFERENT if label not in kafkas and label.split()[1] not in MORE] == []
