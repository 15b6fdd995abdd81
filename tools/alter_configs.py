"""Change configs of topics and brokers: IncrementalAlterConfigs, or AlterConfigs of brokers before Kafka 2.3.

AlterConfigs replaces all configs of a topic or a broker, so the others are sent with their present values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages import alter_configs as whole
from headgate.protocol.messages import incremental_alter_configs as incremental
from headgate.protocol.messages.alter_configs import AlterConfigsRequest
from headgate.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Cluster, sole_answer
from headgate.tools.configs import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigDescription, ConfigSynonym

ALL_BROKERS: Final = ""
"""The name of the resource with the configs of all brokers (KIP-226)."""
_TOO_OLD: Final = Failure(
    ErrorCode.NONE, "the broker has neither IncrementalAlterConfigs nor AlterConfigs: Kafka has both since 2.3 and 0.11"
)

ConfigChanges: TypeAlias = Mapping[str, str | None]
"""New values by name; None removes the value, so that the default holds again."""


class ConfigResource(NamedTuple):
    """A topic, a broker or all brokers. `node`: the broker that is asked; None: any."""

    type: int
    name: str
    source: str
    node: int | None = None

    @classmethod
    def of_topic(cls, name: str) -> ConfigResource:
        """A topic."""
        return cls(TOPIC_RESOURCE, name, "DYNAMIC_TOPIC_CONFIG")

    @classmethod
    def of_broker(cls, node: int) -> ConfigResource:
        """A broker, which changes its configs itself."""
        return cls(BROKER_RESOURCE, str(node), "DYNAMIC_BROKER_CONFIG", node)

    @classmethod
    def of_all_brokers(cls) -> ConfigResource:
        """The values that hold for each broker without a value of its own."""
        return cls(BROKER_RESOURCE, ALL_BROKERS, "DYNAMIC_DEFAULT_BROKER_CONFIG")

    @property
    def is_of_all_brokers(self) -> bool:
        """True for the values of all brokers."""
        return self.type == BROKER_RESOURCE and self.name == ALL_BROKERS

    def own_synonym(self, config: ConfigDescription) -> ConfigSynonym | None:
        """The value that is set for this very resource. `config`: of the topic, or of any broker."""
        for synonym in config.synonyms:
            if synonym.source == self.source and synonym.name == config.name:
                return synonym
        if config.source == self.source or (
            config.source is None and self.type == TOPIC_RESOURCE and not config.is_default
        ):
            return ConfigSynonym(config.name, config.value, config.source)
        return None

    def inherited_synonym(self, config: ConfigDescription) -> ConfigSynonym | None:
        """The value that holds without a value of this resource; None: there is none, or the broker names none."""
        own = self.own_synonym(config)
        is_shadowed = {"DYNAMIC_BROKER_CONFIG"} if self.is_of_all_brokers else set[str]()
        others = [one for one in config.synonyms if one != own and one.source not in is_shadowed]
        return others[0] if others else None


def replaces_all(cluster: Cluster, resource: ConfigResource) -> bool:
    """True if the broker knows AlterConfigs alone. Raises ClientError."""
    return sole_answer(_ask(cluster, resource, lambda client: not client.serves(IncrementalAlterConfigsRequest)))


def alter_configs(
    cluster: Cluster,
    resource: ConfigResource,
    changes: ConfigChanges,
    described: Iterable[ConfigDescription],
    *,
    validate_only: bool = False,
) -> Failure | None:
    """Change configs, all or none; None: the broker did, or would. `described`: all configs as they are now.

    Raises ClientError.
    """
    present = {config.name: own.value for config in described if (own := resource.own_synonym(config)) is not None}

    def ask(client: Client) -> bool | Failure:
        if client.serves(IncrementalAlterConfigsRequest):
            request: Any = _incremental_request(resource, changes, validate_only)
        elif client.serves(AlterConfigsRequest):
            request = _whole_request(resource, {**present, **changes}, validate_only)
        else:
            return _TOO_OLD
        for row in client.ask(request).responses:
            if row.error_code:
                return Failure.of(row.error_code, row.error_message)
        return True

    return _ask(cluster, resource, ask)[1].get(resource)


def _ask(
    cluster: Cluster, resource: ConfigResource, ask: Callable[[Client], bool | Failure]
) -> tuple[dict[ConfigResource, bool], dict[ConfigResource, Failure]]:
    if resource.node is None:
        return cluster.ask_any(resource, ask)
    return cluster.ask_broker(resource.node, resource, ask)


def _incremental_request(resource: ConfigResource, changes: ConfigChanges, validate_only: bool) -> Any:
    rows = [
        incremental.AlterableConfig(name, incremental.DELETE if value is None else incremental.SET, value)
        for name, value in changes.items()
    ]
    resources = [incremental.AlterConfigsResource(resource.type, resource.name, rows)]
    return IncrementalAlterConfigsRequest(resources, validate_only)


def _whole_request(resource: ConfigResource, values: ConfigChanges, validate_only: bool) -> Any:
    rows = [whole.AlterableConfig(name, value) for name, value in values.items() if value is not None]
    return AlterConfigsRequest([whole.AlterConfigsResource(resource.type, resource.name, rows)], validate_only)
