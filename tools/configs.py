"""Configs of topics and brokers with their sources and documentation: DescribeConfigs, of any broker since 0.11.

Types and documentation come since Kafka 2.6 (version 3), sources and synonyms since 1.1 (version 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import AnswersAndFailures, Cluster

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""The source of a config by its number, with Kafka's names."""
_DEFAULT_CONFIG: Final = 5
_TYPES: Final = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}


class ConfigSynonym(NamedTuple):
    """A setting that provides the value, or would without the synonyms before it."""

    name: str
    value: str | None
    source: str | None


class ConfigDescription(NamedTuple):
    """A config. `value`: None for a secret, or if there is none. None elsewhere: the broker is too old to name it."""

    name: str
    value: str | None
    source: str | None
    is_default: bool
    type: str | None
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None
    synonyms: list[ConfigSynonym]


def describe_topic_configs(cluster: Cluster, names: Iterable[str]) -> AnswersAndFailures[str, list[ConfigDescription]]:
    """The configs of topics by topic, each list sorted by name; and failures by topic. Raises ClientError."""
    wanted = list(dict.fromkeys(names))
    return _by_name(wanted, cluster.ask_any("configs", _question(TOPIC_RESOURCE, wanted)))


def describe_broker_configs(cluster: Cluster, node: int) -> AnswersAndFailures[str, list[ConfigDescription]]:
    """The configs of a broker, which it answers itself, by its id as a text. Raises ClientError."""
    return _by_name([str(node)], cluster.ask_broker(node, "configs", _question(BROKER_RESOURCE, [str(node)])))


def _question(resource_type: int, names: Iterable[str]) -> Callable[[Client], list[Any]]:
    resources = [DescribeConfigsResource(resource_type, name) for name in names]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)

    def ask(client: Client) -> list[Any]:
        rows: list[Any] = client.ask(request).results
        return rows

    return ask


def _by_name(
    names: Iterable[str], answer: AnswersAndFailures[str, list[Any]]
) -> AnswersAndFailures[str, list[ConfigDescription]]:
    found, failed = answer
    if failed:
        return {}, dict.fromkeys(names, failed["configs"])
    refused = {
        row.resource_name: Failure.of(row.error_code, row.error_message) for row in found["configs"] if row.error_code
    }
    return {
        row.resource_name: sorted(map(_description, row.configs)) for row in found["configs"] if not row.error_code
    }, refused


def _description(row: Any) -> ConfigDescription:
    """A row of any version: version 0 has a flag for defaults in place of the source."""
    return ConfigDescription(
        row.name,
        row.value,
        SOURCES.get(row.config_source),
        row.is_default or row.config_source == _DEFAULT_CONFIG,
        _TYPES.get(row.config_type),
        row.read_only,
        row.is_sensitive,
        row.documentation,
        [ConfigSynonym(synonym.name, synonym.value, SOURCES.get(synonym.source)) for synonym in row.synonyms],
    )
