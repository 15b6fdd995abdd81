"""Every setting that a broker describes, and the outcome of its alterations, for `test_settings`.

    play(broker, names)     # any broker: `ask(request, version)` gives its response
    python -m headgate.gateway.api.tests.like_kafka.settings_scenario PORT > settings_of_kafka41.txt

The second line records a new Apache Kafka on this machine with `SETTINGS`: 4.1.2 in that file, 3.9.1 in
`settings_of_kafka39.txt`. A line is a label and an answer:

    broker NAME     type, dynamic or fixed, secret or not, the default (`-` for none), and by which names: synonyms
    topic NAME, group NAME, metrics NAME    the same
    alter NAME      error codes of IncrementalAlterConfigs for VALUES in turn: of the broker, then of all brokers
    replace NAME    the same of AlterConfigs, for the first two values
    set NAME        value and source after the first value is set: of the broker, then of all brokers
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from headgate.gateway.api.tests.like_kafka.admin_scenario import Remote
from headgate.gateway.config.definition import Type
from headgate.gateway.tests.scenario import Broker
from headgate.protocol.messages.alter_configs import AlterableConfig as WholeConfig
from headgate.protocol.messages.alter_configs import AlterConfigsRequest
from headgate.protocol.messages.alter_configs import AlterConfigsResource as WholeResource
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from headgate.protocol.messages.incremental_alter_configs import (
    DELETE,
    SET,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

SETTINGS = {"node.id": "1"}
RESOURCES = {"broker": (4, "1"), "topic": (2, "t"), "group": (32, "g"), "metrics": (16, "m")}
BROKERS = ("1", "")
DEFAULT_SOURCE = 5

# Names that no DescribeConfigs shows unless they are set, each with a value
MORE = {
    "leader.replication.throttled.rate": "100",
    "follower.replication.throttled.rate": "100",
    "replica.alter.log.dirs.io.max.bytes.per.second": "100",
    "super.users": "User:admin",
    "allow.everyone.if.no.acl.found": "true",
    "listener.name.plaintext.ssl.keystore.location": "/x",
    "listener.name.plaintext.ssl.keystore.password": "x",
    "listener.name.plaintext.ssl.client.auth": "none",
    "listener.name.nosuch.ssl.keystore.type": "JKS",
    "listener.name.PLAINTEXT.ssl.protocol": "TLSv1.3",
    "listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": "x",
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": "x",
    "listener.name.plaintext.max.connections": "5",
    "listener.name.plaintext.max.connection.creation.rate": "5",
    "listener.name.plaintext.num.network.threads": "3",
    "listener.name.plaintext.connections.max.reauth.ms": "5",
    "listener.name.plaintext.num.partitions": "1",
    "producer.id.expiration.check.interval.ms": "5",
    "unclean.leader.election.interval.ms": "5",
}
_SAMPLES = {Type.LONG: "360000", Type.INT: "5", Type.PASSWORD: "secret"}


def play(broker: Broker, names: dict[str, str] | None = None) -> dict[str, str]:
    """The lines of a broker. `names` are the settings to alter, with a value each; None: those that it describes."""
    broker.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 60_000), 5)
    lines, described = {}, {}
    for resource, (kind, name) in RESOURCES.items():
        for row in describe(broker, kind, name):
            lines[f"{resource} {row.name}"] = description(row)
            if resource == "broker":
                described[row.name] = row
    for name, value in (values(described.values()) if names is None else names).items():
        for what, answer in _alterations(broker, name, value).items():
            lines[f"{what} {name}"] = answer
    return lines


def values(rows: Iterable[DescribeConfigsResourceResult]) -> dict[str, str]:
    """A value for each setting that may be altered: that of now, or else one that fits the type."""
    found = {row.name: row.value or _SAMPLES.get(Type(row.config_type), "") for row in rows}
    return {**dict(sorted(found.items())), **MORE}


def describe(
    broker: Broker, kind: int, name: str, keys: list[str] | None = None
) -> list[DescribeConfigsResourceResult]:
    """The rows of a resource by name."""
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)], True)
    rows: list[DescribeConfigsResourceResult] = broker.ask(request, 4).results[0].configs
    return sorted(rows, key=lambda row: row.name)


def description(row: DescribeConfigsResourceResult) -> str:
    """The line of a setting."""
    defaults = [synonym for synonym in row.synonyms if synonym.source == DEFAULT_SOURCE]
    default = defaults[0].value if defaults else row.value if row.config_source == DEFAULT_SOURCE else None
    words = [
        Type(row.config_type).name,
        "fixed" if row.read_only else "dynamic",
        *(["secret"] if row.is_sensitive else []),
        "-" if default is None else repr(default),
        *(synonym.name for synonym in defaults if synonym.name != row.name),
    ]
    return " ".join(words)


def _alterations(broker: Broker, name: str, value: str) -> dict[str, str]:
    tried = (value, "x", "-5", "")
    alter = [" ".join(str(_alter(broker, of, name, text)) for text in tried) for of in BROKERS]
    lines = {"alter": " | ".join(alter)}
    if alter[0].split(" ")[0] == "0" or alter[1].split(" ")[0] == "0":
        replace = [" ".join(str(_replace(broker, of, name, text)) for text in tried[:2]) for of in BROKERS]
        lines["replace"] = " | ".join(replace)
        lines["set"] = " | ".join(_set(broker, of, name, value) for of in BROKERS)
    return lines


def _alter(broker: Broker, of: str, name: str, text: str | None, operation: int = SET, *, dry: bool = True) -> int:
    resource = AlterConfigsResource(4, of, [AlterableConfig(name, operation, text)])
    code: int = broker.ask(IncrementalAlterConfigsRequest([resource], dry), 1).responses[0].error_code
    return code


def _replace(broker: Broker, of: str, name: str, text: str) -> int:
    request = AlterConfigsRequest([WholeResource(4, of, [WholeConfig(name, text)])], True)
    code: int = broker.ask(request, 2).responses[0].error_code
    return code


def _set(broker: Broker, of: str, name: str, value: str) -> str:
    """Set a value, describe it, and remove it again."""
    if _alter(broker, of, name, value, dry=False):
        return "refused"
    (row,) = describe(broker, 4, of, [name])
    _alter(broker, of, name, None, DELETE, dry=False)
    return f"{row.value!r} {row.config_source}"


def record(ports: Iterable[str]) -> dict[str, str]:
    """The lines of the broker behind the first port."""
    return play(Remote(int(next(iter(ports)))))


if __name__ == "__main__":
    for label, line in record(sys.argv[1:]).items():
        sys.stdout.write(f"{label}\t{line}\n")
