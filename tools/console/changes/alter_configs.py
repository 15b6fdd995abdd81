"""Set configs of a topic, a broker or all brokers, or remove values so that the defaults hold again.

The broker validates the change before it is shown. The value of a secret is in no line, no problem and no summary; a
config that the broker does not list may be one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.tools.alter_configs import ConfigChanges, ConfigResource, replaces_all
from headgate.tools.alter_configs import alter_configs as request_change
from headgate.tools.client.cluster import Cluster, sole_answer
from headgate.tools.configs import (
    BROKER_RESOURCE,
    ConfigDescription,
    ConfigSynonym,
    describe_broker_configs,
    describe_topic_configs,
)
from headgate.tools.console.changes.plan import ChangeLine, ChangePlan, ChangeResult
from headgate.tools.console.parameters import BadParameter, Parameters

HIDDEN: Final = "hidden"
"""In place of a secret."""
_EMPTY: Final = "empty"
_MS_OF_UNITS: Final = {".minutes": 60_000, ".hours": 3_600_000}
_UNTOLD: Final = {
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
}
"""The configs of topics whose defaults Kafka does not name with them, and the broker's settings for them."""
_SHAPE: Final = "a config has no name; write name=value, as in retention.ms=60000"
"""Without the text, which may be a secret."""
_READ_ONLY: Final = "{} is read-only: set it in the broker's properties; it takes effect with a restart"
_WHOLE: Final = (
    "The broker is older than Kafka 2.3 and replaces all configs of {} at once: another change of the same moment"
    " is lost"
)
_LOST: Final = (
    "the broker is older than Kafka 2.3 and replaces all configs of {} at once: the present value of {} cannot be read"
    " and would be lost"
)


class _Target(NamedTuple):
    """The topic or broker of a change, with its configs. `node`: the broker that described them."""

    resource: ConfigResource
    text: str
    configs: Mapping[str, ConfigDescription]
    node: int | None = None

    def is_secret(self, name: str) -> bool:
        if name not in self.configs:
            return self.resource.type == BROKER_RESOURCE
        return self.configs[name].is_sensitive

    def own_value(self, name: str) -> str | None:
        """The value to show that is set for this very resource; None: there is none."""
        own = self.resource.own_synonym(self.configs[name]) if name in self.configs else None
        return None if own is None else self.shown(name, own.value)

    def shown(self, name: str, value: str | None) -> str:
        if self.is_secret(name):
            return HIDDEN
        return value or _EMPTY


def alter_configs(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Set `set`, `name=value` each, and remove `remove` of the topic `topic` or the broker `broker`.

    With `all_brokers=true` they become the values of all brokers; `broker` then describes the present ones. Raises
    BadParameter, ClientError.
    """
    changes = _changes(parameters)
    target = _target(cluster, parameters, changes)
    is_whole = replaces_all(cluster, target.resource)
    problems = [*_problems(target, changes), *(_lost(target, changes) if is_whole else [])]
    if not problems:
        described = list(target.configs.values())
        failure = request_change(cluster, target.resource, changes, described, validate_only=True)
        problems = [] if failure is None else [_without_secrets(failure.text, target, changes)]
    return ChangePlan(
        _summary(target, changes),
        [_line(target, name, value) for name, value in changes.items()],
        lambda cluster: _alter(cluster, target, changes),
        problems,
        [*([_WHOLE.format(target.text)] if is_whole else []), *_shadowed(target, changes)],
    )


def _changes(parameters: Parameters) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for text in parameters.texts("set"):
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise BadParameter(_SHAPE)
        if name.strip() in found:
            raise BadParameter(f"the config {name.strip()} is there twice")
        found[name.strip()] = value
    for name in parameters.texts("remove"):
        if name in found:
            raise BadParameter(f"the config {name} cannot be set and removed at once")
        found[name] = None
    if not found:
        raise BadParameter("name a config to set or to remove")
    return found


def _target(cluster: Cluster, parameters: Parameters, changes: ConfigChanges) -> _Target:
    if parameters.has("topic"):
        name = parameters.text("topic")
        resource, configs = ConfigResource.of_topic(name), _one(describe_topic_configs(cluster, [name]))
        return _Target(resource, f"the topic {name}", _by_name(_with_defaults(cluster, resource, configs, changes)))
    node = parameters.number("broker", most=(1 << 31) - 1)
    configs = _one(describe_broker_configs(cluster, node))
    if parameters.flag("all_brokers"):
        return _Target(ConfigResource.of_all_brokers(), "all brokers", _by_name(configs), node)
    return _Target(ConfigResource.of_broker(node), f"broker {node}", _by_name(configs), node)


def _with_defaults(
    cluster: Cluster, resource: ConfigResource, configs: Sequence[ConfigDescription], changes: ConfigChanges
) -> list[ConfigDescription]:
    """The configs; those that change have the default that Kafka does not name as a synonym."""
    untold = [
        config.name
        for config in configs
        if config.name in changes and config.name in _UNTOLD and resource.inherited_synonym(config) is None
    ]
    if not untold:
        return list(configs)
    nodes = sorted(broker.node_id for broker in cluster.refresh([]).brokers)
    found, _ = describe_broker_configs(cluster, nodes[0])  # a refusal leaves the default unknown
    of_broker = _by_name(found.get(str(nodes[0]), []))
    return [_with_default(config, of_broker) if config.name in untold else config for config in configs]


def _with_default(config: ConfigDescription, of_broker: Mapping[str, ConfigDescription]) -> ConfigDescription:
    for name in _UNTOLD[config.name]:
        if name in of_broker and of_broker[name].value:
            default = ConfigSynonym(name, of_broker[name].value, of_broker[name].source)
            return config._replace(synonyms=[*config.synonyms, default])
    return config


def _one(
    answers: tuple[dict[str, list[ConfigDescription]], dict[str, Failure]],
) -> list[ConfigDescription]:
    return sole_answer(answers)


def _by_name(configs: Sequence[ConfigDescription]) -> dict[str, ConfigDescription]:
    return {config.name: config for config in configs}


def _summary(target: _Target, changes: ConfigChanges) -> str:
    if len(changes) > 1:
        return f"Change {len(changes)} configs of {target.text}"
    [(name, value)] = changes.items()
    if value is None:
        return f"Remove {name} of {target.text}"
    return f"Set {name} of {target.text} to {'a new secret' if target.is_secret(name) else target.shown(name, value)}"


def _line(target: _Target, name: str, value: str | None) -> ChangeLine:
    """The value of this very resource, and the one below it that holds without."""
    config, own = target.configs.get(name), target.own_value(name)
    inherited = None if config is None else target.resource.inherited_synonym(config)
    below = None if inherited is None else target.shown(name, value_of_synonym(name, inherited))
    origin = "" if inherited is None else f"{inherited.name}, {inherited.source}"
    if value is None:
        note = f"from {origin}" if origin else "the broker does not tell its value"
        return ChangeLine(name, own, below or "the default", note)
    after = "hidden, a new value" if target.is_secret(name) else target.shown(name, value)
    if own is None and below is not None:
        return ChangeLine(name, below, after, f"until now from {origin}")
    if own is None and config is not None and config.value and not target.resource.is_of_all_brokers:
        own = target.shown(name, config.value)
    return ChangeLine(name, own, after, origin and f"without it {below}, from {origin}")


def value_of_synonym(name: str, synonym: ConfigSynonym) -> str | None:
    """The value of a synonym as a value of the config: `log.retention.hours` 168 is `retention.ms` 604800000."""
    value, unit = synonym.value, synonym.name[synonym.name.rfind(".") :]
    if value is None or not value.isdecimal() or not name.endswith(".ms") or unit not in _MS_OF_UNITS:
        return value
    return str(int(value) * _MS_OF_UNITS[unit])


def _problems(target: _Target, changes: ConfigChanges) -> list[str]:
    found = [
        _READ_ONLY.format(name) for name in changes if name in target.configs and target.configs[name].is_read_only
    ]
    for name, value in changes.items():
        own = target.own_value(name)
        if value is None and name in target.configs and own is None:
            found.append(f"{name} has no value of {target.text} that could be removed")
        if value is not None and own is not None and not target.is_secret(name) and own == target.shown(name, value):
            found.append(f"{name} of {target.text} is {own} already")
    return found


def _lost(target: _Target, changes: ConfigChanges) -> list[str]:
    """Sentences about secrets that a broker before Kafka 2.3 would forget."""
    names = [name for name in target.configs if name not in changes and target.own_value(name) == HIDDEN]
    return [_LOST.format(target.text, name) for name in names]


def _shadowed(target: _Target, changes: ConfigChanges) -> list[str]:
    """Warnings: a broker's own value goes before the value of all brokers."""
    if not target.resource.is_of_all_brokers:
        return []
    return [
        f"A broker's own value of {name} stays before the value of all brokers: broker {target.node} has its own"
        for name in changes
        if name in target.configs and target.configs[name].source == "DYNAMIC_BROKER_CONFIG"
    ]


def _without_secrets(text: str, target: _Target, changes: ConfigChanges) -> str:
    """A broker's sentence may repeat the value that it refuses."""
    for name, value in changes.items():
        if value is not None and value.strip() and target.is_secret(name):
            text = text.replace(value, HIDDEN).replace(value.strip(), HIDDEN)  # brokers strip what they read
    return text


def _alter(cluster: Cluster, target: _Target, changes: ConfigChanges) -> ChangeResult:
    failure = request_change(cluster, target.resource, changes, list(target.configs.values()))
    if failure is not None:
        return ChangeResult([], [f"nothing is changed: {_without_secrets(failure.text, target, changes)}"])
    return ChangeResult(
        [f"{name} of {target.text} is {'removed' if v is None else 'set'}" for name, v in changes.items()]
    )
