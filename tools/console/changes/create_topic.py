"""Create a topic: the controller is asked first whether it would, and with which defaults."""

from __future__ import annotations

import shlex
from typing import Final

from headgate.protocol.client.failure import Failure
from headgate.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreatableTopicResult
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.changes.plan import ChangeLine, ChangePlan, ChangeResult
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.topic_changes import create_topic as request_topic

_MOST_PARTITIONS: Final = 100_000
_MOST_REPLICAS: Final = 1_000
_TOPIC_CONFIG: Final = 1  # the source of a config that the topic itself has
_ALWAYS_SHOWN: Final = frozenset({"cleanup.policy", "retention.ms", "retention.bytes", "min.insync.replicas"})
_DEFAULT_CONFIG: Final = 5
_BY_BROKER: Final = "the broker's default"
_ORIGINS: Final = {2: "set while the broker runs", 3: "set for all brokers while they run", 4: "in the broker's file"}
"""Of the broker's default, by the source of the config; Kafka's own otherwise."""


def create_topic(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Create the topic `topic` with `partitions`, `replication_factor` and `config`, `name=value` a line.

    Without the numbers the broker takes its defaults. Raises BadParameter, ClientError.
    """
    name = parameters.text("topic").strip()
    if not name:
        raise BadParameter("name the topic")
    partitions = _number(parameters, "partitions", _MOST_PARTITIONS)
    replicas = _number(parameters, "replication_factor", _MOST_REPLICAS)
    configs = _configs(parameters)
    rows = [CreatableTopicConfig(each, value) for each, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=rows)
    answer = request_topic(cluster, topic, validate_only=True)
    problems = [answer.text] if isinstance(answer, Failure) else []
    return ChangePlan(
        f"Create the topic {name}",
        [*_counts(topic, answer), *_config_lines(configs, answer)],
        lambda cluster: _create(cluster, topic),
        problems,
        command=_command(topic, configs),
    )


def _number(parameters: Parameters, name: str, most: int) -> int:
    """The number, or -1 for the broker's default."""
    if not parameters.text(name, "").strip():
        return -1
    return parameters.number(name, least=1, most=most)


def _configs(parameters: Parameters) -> dict[str, str]:
    lines = [line.strip() for text in parameters.texts("config") for line in text.splitlines()]
    found: dict[str, str] = {}
    for line in filter(None, lines):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not name:
            raise BadParameter(f"{line[:60]!r} is no config; write name=value, as in retention.ms=60000")
        if name in found:
            raise BadParameter(f"the config {name} is there twice")
        found[name] = value
    return found


def _counts(topic: CreatableTopic, answer: CreatableTopicResult | Failure) -> list[ChangeLine]:
    def line(subject: str, wanted: int, told: int) -> ChangeLine:
        if wanted >= 0:
            return ChangeLine(subject, None, str(wanted))
        return ChangeLine(subject, None, str(told), _BY_BROKER) if told >= 0 else ChangeLine(subject, None, _BY_BROKER)

    told = (-1, -1) if isinstance(answer, Failure) else (answer.num_partitions, answer.replication_factor)
    return [
        line("partitions", topic.num_partitions, told[0]),
        line("replication factor", topic.replication_factor, told[1]),
    ]


def _config_lines(configs: dict[str, str], answer: CreatableTopicResult | Failure) -> list[ChangeLine]:
    """The configs that are asked for, then those that the broker sets, and the most important defaults."""
    told = [] if isinstance(answer, Failure) else answer.configs or []
    others = [
        ChangeLine(row.name, None, row.value, f"{_BY_BROKER}: {_ORIGINS.get(row.config_source, 'as in Kafka')}")
        for row in sorted(told, key=lambda row: row.name)
        if row.name not in configs
        and not row.is_sensitive
        and row.config_source != _TOPIC_CONFIG
        and (row.config_source != _DEFAULT_CONFIG or row.name in _ALWAYS_SHOWN)
    ]
    return [*(ChangeLine(name, None, value) for name, value in configs.items()), *others]


def _command(topic: CreatableTopic, configs: dict[str, str]) -> str:
    words = ["headgate", "topics", "create", topic.name]
    if topic.num_partitions >= 0:
        words += ["--partitions", str(topic.num_partitions)]
    if topic.replication_factor >= 0:
        words += ["--replication-factor", str(topic.replication_factor)]
    return shlex.join(words + [word for name, value in configs.items() for word in ("--config", f"{name}={value}")])


def _create(cluster: Cluster, topic: CreatableTopic) -> ChangeResult:
    answer = request_topic(cluster, topic)
    if isinstance(answer, Failure):
        return ChangeResult([], [f"{topic.name} is not created: {answer.text}"])
    return ChangeResult([f"The topic {topic.name} is created"], details={"link": ["/topics", topic.name]})
