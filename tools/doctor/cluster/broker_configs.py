"""The settings of brokers by DescribeConfigs, and which broker answers at an address.

A broker answers for itself alone, and refuses the id of another one with INVALID_REQUEST: so the answer also says who
answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headgate.tools.client.client import Client

BROKER_RESOURCE: Final = 4
HEADGATE_HTTP: Final = "headgate.http.listeners"
_HEADGATE: Final = "headgate."


class BrokerSettings(NamedTuple):
    """The values of a broker's settings by name; secrets have none."""

    node: int
    values: Mapping[str, str | None]

    @property
    def is_headgate(self) -> bool:
        """Whether the broker has settings that only Headgate has."""
        return any(name.startswith(_HEADGATE) for name in self.values)

    def endpoints(self, setting: str) -> dict[str, str]:
        """`host:port` by the name of the listener, of `listeners` or `advertised.listeners`."""
        return parse_endpoints(self.values.get(setting) or "")

    @property
    def advertised(self) -> dict[str, str]:
        """`advertised.listeners`; without the setting, `listeners`: their addresses are advertised then."""
        return self.endpoints("advertised.listeners") or self.endpoints("listeners")

    @property
    def inter_broker_listener(self) -> str | None:
        """The name of the listener between brokers; None if no listener has it."""
        named = self.values.get("inter.broker.listener.name")
        return named or self.values.get("security.inter.broker.protocol")


class BrokerRefusal(NamedTuple):
    """The broker gives no settings. `is_other_node`: the id is not its own; `is_forbidden`: the user may not ask."""

    code: int

    @property
    def is_other_node(self) -> bool:
        return self.code == ErrorCode.INVALID_REQUEST

    @property
    def is_forbidden(self) -> bool:
        return self.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def parse_endpoints(text: str) -> dict[str, str]:
    """`NAME://host:port,...` as addresses by name."""
    pairs = (part.strip().partition("://") for part in text.split(","))
    return {name.upper(): address for name, _, address in pairs if name and address}


def ask_settings(client: Client, node: int) -> BrokerSettings | BrokerRefusal:
    """The settings of a broker by its id, if it is the one at the other end. Raises ClientError."""
    if not client.serves(DescribeConfigsRequest):
        return BrokerRefusal(ErrorCode.UNSUPPORTED_VERSION)
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(BROKER_RESOURCE, str(node), None)])
    for row in client.ask(request).results:
        if row.error_code:
            return BrokerRefusal(row.error_code)
        return BrokerSettings(node, {config.name: config.value for config in row.configs})
    return BrokerRefusal(ErrorCode.UNKNOWN_SERVER_ERROR)


def identify(client: Client, nodes: Iterable[int]) -> BrokerSettings | BrokerRefusal | None:
    """The broker at the other end, if it is one of these; a refusal if the user may not ask; None for another broker.

    Raises ClientError.
    """
    for node in nodes:
        found = ask_settings(client, node)
        if isinstance(found, BrokerSettings) or not found.is_other_node:
            return found
    return None
