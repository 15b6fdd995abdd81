"""Configs are shown with the value that holds without them; secrets are shown nowhere."""

from __future__ import annotations

import json

import pytest

from headgate.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headgate.tools.client.client import ClientError
from headgate.tools.configs import ConfigSynonym
from headgate.tools.console.changes.alter_configs import alter_configs, value_of_synonym
from headgate.tools.console.changes.plan import ChangeLine
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.tests.model_cluster import Log, ModelCluster, opened
from headgate.tools.tests.model_topics import READ_ONLY, SECRET, ModelChanges

TOPIC, BROKER = 2, 4


def orders(**parameters: str) -> Parameters:
    return Parameters([("topic", "orders"), *parameters.items()])


def broker(*pairs: tuple[str, str], node: str = "1") -> Parameters:
    return Parameters([("broker", node), *pairs])


@pytest.fixture
def changes(model: ModelCluster) -> ModelChanges:
    model.topics["orders"] = [Log()]
    return ModelChanges(model)


def test_a_config_of_a_topic_is_set(model: ModelCluster, changes: ModelChanges) -> None:
    with opened() as cluster:
        plan = alter_configs(cluster, orders(set="retention.ms=60000"))
        assert plan.summary == "Set retention.ms of the topic orders to 60000"
        note = "until now from log.retention.ms, STATIC_BROKER_CONFIG"
        assert plan.lines == [ChangeLine("retention.ms", "604800000", "60000", note)]
        assert (plan.problems, plan.warnings) == ([], [])
        assert not changes.set[TOPIC, "orders"], "the broker has only validated it"
        result = plan.apply(cluster)
        assert (result.done, result.failures) == (["retention.ms of the topic orders is set"], ())
        assert changes.set[TOPIC, "orders"] == {"retention.ms": "60000"}
        again = alter_configs(cluster, orders(set="retention.ms=60000"))
        other = alter_configs(cluster, orders(set="retention.ms=1"))
    assert again.problems == ["retention.ms of the topic orders is 60000 already"]
    assert other.lines[0].note == "without it 604800000, from log.retention.ms, STATIC_BROKER_CONFIG"


def test_the_default_that_returns_is_shown(model: ModelCluster, changes: ModelChanges) -> None:
    changes.set[TOPIC, "orders"] = {"retention.ms": "60000"}
    with opened() as cluster:
        plan = alter_configs(cluster, orders(remove="retention.ms"))
        assert plan.summary == "Remove retention.ms of the topic orders"
        assert plan.lines == [
            ChangeLine("retention.ms", "60000", "604800000", "from log.retention.ms, STATIC_BROKER_CONFIG")
        ]
        assert plan.apply(cluster).done == ["retention.ms of the topic orders is removed"]
        again = alter_configs(cluster, orders(remove="retention.ms"))
    assert again.problems == ["retention.ms has no value of the topic orders that could be removed"]
    assert not changes.set[TOPIC, "orders"]


def test_a_default_that_kafka_does_not_tell_is_the_brokers(model: ModelCluster, changes: ModelChanges) -> None:
    changes.is_silent = True
    changes.set[TOPIC, "orders"] = {"retention.ms": "60000", "cleanup.policy": "compact"}
    with opened() as cluster:
        retention = alter_configs(cluster, orders(remove="retention.ms"))
        policy = alter_configs(cluster, orders(remove="cleanup.policy"))
    assert retention.lines == [ChangeLine("retention.ms", "60000", "7", "from log.retention.ms, STATIC_BROKER_CONFIG")]
    assert policy.lines == [
        ChangeLine("cleanup.policy", "compact", "the default", "the broker does not tell its value")
    ]
    changes.set.clear()
    with opened() as cluster:
        policy = alter_configs(cluster, orders(set="cleanup.policy=compact"))
    assert policy.lines == [ChangeLine("cleanup.policy", "delete", "compact")]


def test_an_unknown_config_of_a_topic_is_no_secret(model: ModelCluster, changes: ModelChanges) -> None:
    with opened() as cluster:
        plan = alter_configs(cluster, orders(set="retention.msec=5"))
    assert plan.summary == "Set retention.msec of the topic orders to 5"


def test_the_broker_refuses_a_value(model: ModelCluster, changes: ModelChanges) -> None:
    with opened() as cluster:
        plan = alter_configs(cluster, orders(set="retention.ms=bad"))
        result = plan.apply(cluster)
    assert plan.problems == ["Invalid value bad for configuration retention.ms (INVALID_CONFIG)"]
    assert result.failures == ["nothing is changed: Invalid value bad for configuration retention.ms (INVALID_CONFIG)"]


def test_a_read_only_config_needs_a_restart(model: ModelCluster, changes: ModelChanges) -> None:
    with opened() as cluster:
        plan = alter_configs(cluster, broker(("set", f"{READ_ONLY}=/other")))
    [problem] = plan.problems
    assert problem.startswith("log.dirs is read-only")
    assert "restart" in problem
    assert not model.of(IncrementalAlterConfigsRequest)


@pytest.mark.parametrize("name", [SECRET, "listener.name.inner.ssl.key.password"])
def test_a_secret_is_nowhere(model: ModelCluster, changes: ModelChanges, name: str) -> None:
    with opened() as cluster:
        refused = alter_configs(cluster, broker(("set", f"{name}=bad 5ecret")))
        stripped = alter_configs(cluster, broker(("set", f"{name}=bad 5ecret\t")))
        plan = alter_configs(cluster, broker(("set", f"{name}=5ecret")))
        assert plan.summary == f"Set {name} of broker 1 to a new secret"
        assert plan.lines[0].after == "hidden, a new value"
        result = plan.apply(cluster)
        again = alter_configs(cluster, broker(("set", f"{name}=5ecret")))
    assert changes.set[BROKER, "1"] == {name: "5ecret"}
    assert refused.problems == [f"Invalid value hidden for configuration {name} (INVALID_CONFIG)"]
    assert again.problems == [], "the answer does not tell whether a secret is the present one"
    texts = json.dumps([refused.answer(), stripped.answer(), plan.answer(), result.answer(), again.answer()])
    assert "5ecret" not in texts


def test_all_brokers_and_those_with_their_own_value(model: ModelCluster, changes: ModelChanges) -> None:
    changes.set[BROKER, "1"] = {"log.retention.ms": "9"}
    everywhere = ("all_brokers", "true")
    with opened() as cluster:
        plan = alter_configs(cluster, broker(("set", "log.retention.ms=8"), everywhere))
        assert plan.summary == "Set log.retention.ms of all brokers to 8"
        assert plan.lines[0][:3] == ("log.retention.ms", "7", "8")
        assert plan.warnings == [
            "A broker's own value of log.retention.ms stays before the value of all brokers: broker 1 has its own"
        ]
        plan.apply(cluster)
        removed = alter_configs(cluster, broker(("remove", "log.retention.ms")))
        assert removed.lines == [
            ChangeLine("log.retention.ms", "9", "8", "from log.retention.ms, DYNAMIC_DEFAULT_BROKER_CONFIG")
        ]
        removed.apply(cluster)
    assert changes.set[BROKER, ""] == {"log.retention.ms": "8"}
    assert changes.set[BROKER, "1"] == {}


def test_an_old_broker_replaces_all_configs(model: ModelCluster, changes: ModelChanges) -> None:
    changes.set[TOPIC, "orders"] = {"retention.ms": "60000"}
    changes.set[BROKER, "1"] = {SECRET: "5ecret"}
    model.unserved = {IncrementalAlterConfigsRequest}
    with opened() as cluster:
        plan = alter_configs(cluster, orders(set="cleanup.policy=compact"))
        lost = alter_configs(cluster, broker(("set", "log.retention.ms=5")))
        assert plan.warnings[0].startswith("The broker is older than Kafka 2.3 and replaces all configs of the topic")
        assert SECRET in lost.problems[0]
        plan.apply(cluster)
    assert changes.set[TOPIC, "orders"] == {"retention.ms": "60000", "cleanup.policy": "compact"}


def test_several_configs_at_once(model: ModelCluster, changes: ModelChanges) -> None:
    changes.set[TOPIC, "orders"] = {"retention.ms": "60000"}
    with opened() as cluster:
        plan = alter_configs(cluster, orders(set="cleanup.policy=compact", remove="retention.ms"))
        assert plan.summary == "Change 2 configs of the topic orders"
        assert len(plan.apply(cluster).done) == 2
    assert changes.set[TOPIC, "orders"] == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    "pairs, sentence",
    [
        ([], "name a config"),
        ([("set", "5ecret")], "write name=value"),
        ([("set", "x=1"), ("set", "x=2")], "the config x is there twice"),
        ([("set", "x=1"), ("remove", "x")], "cannot be set and removed at once"),
    ],
)
def test_wrong_parameters_have_sentences(
    model: ModelCluster, changes: ModelChanges, pairs: list[tuple[str, str]], sentence: str
) -> None:
    with opened() as cluster, pytest.raises(BadParameter, match=sentence):
        alter_configs(cluster, broker(*pairs))


def test_an_unknown_topic_is_named(model: ModelCluster, changes: ModelChanges) -> None:
    with opened() as cluster, pytest.raises(ClientError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        alter_configs(cluster, Parameters([("topic", "gone"), ("set", "x=1")]))


@pytest.mark.parametrize(
    "config, synonym, value, converted",
    [
        ("retention.ms", "log.retention.hours", "168", "604800000"),
        ("log.retention.ms", "log.retention.minutes", "2", "120000"),
        ("retention.ms", "log.retention.hours", "-1", "-1"),
        ("retention.ms", "log.retention.ms", "5", "5"),
        ("log.retention.hours", "log.retention.hours", "168", "168"),
        ("x.ms", "y.hours", None, None),
    ],
)
def test_a_synonym_may_have_another_unit(config: str, synonym: str, value: str | None, converted: str | None) -> None:
    assert value_of_synonym(config, ConfigSynonym(synonym, value, None)) == converted
