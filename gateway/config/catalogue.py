"""Look-up of a setting by its name, and of the nearest name for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from headgate.gateway.config import broker_table, topic_table, unsupported_table
from headgate.gateway.config.definition import Definition, Effect, Type
from headgate.gateway.config.providers import variables


def _pending_reason(name: str) -> str:
    """Why a setting of the broker's table has no effect yet; empty if it has an effect."""
    beginning = name
    while beginning:
        reason = broker_table.PENDING.get(beginning)
        if reason is not None:
            return reason
        beginning = beginning[: beginning.rstrip(".").rfind(".") + 1]
    return ""


def _broker(row: broker_table.SettingRow) -> Definition:
    reason = _pending_reason(row[0])
    effect = Effect.PENDING if reason else Effect.FULL
    return Definition(*row, effect=effect, reason=reason, form=broker_table.FORMS.get(row[0]))


def _foreign() -> Iterable[tuple[Definition, bool]]:
    """The settings of the table of unsupported ones, and whether DescribeConfigs shows each that is not given."""
    for reason, beginning, rows in unsupported_table.GROUPS:
        for row in rows.split():
            definition, is_shown = parse_row(row, reason)
            yield definition._replace(name=beginning + definition.name), is_shown
    for row, (harmless, reason) in unsupported_table.REFUSED.items():
        definition, is_shown = parse_row(row, reason)
        yield definition._replace(effect=Effect.REFUSED, harmless=harmless), is_shown


def parse_row(row: str, reason: str) -> tuple[Definition, bool]:
    """A setting without effect of the form `name:type:range=default`, and whether it is shown (without `-`)."""
    head, equals, default = row.removeprefix("-").partition("=")
    marked, type_name, allowed = [*head.split(":"), "", ""][:3]
    type_ = Type.PASSWORD if marked.endswith("*") else Type[type_name.upper() or "STRING"]
    name = marked.removesuffix("*")
    return Definition(name, type_, default if equals else None, allowed, "", Effect.NONE, reason), row[0] != "-"


def _topic(name: str, allowed: str, synonyms: tuple[str, ...], documentation: str) -> Definition:
    broker = BROKER[synonyms[0]]
    default = next(text for text in map(_default_in_unit, synonyms) if text is not None)
    return Definition(name, broker.type, default, allowed, documentation, broker.effect, broker.reason)


def _default_in_unit(synonym: str) -> str | None:
    default = BROKER[synonym].default
    factor = unit_factor(synonym)
    return default if default is None or factor == 1 else str(int(default) * factor)


def unit_factor(name: str) -> int:
    """The factor from this broker setting's unit to its topic setting's; times become milliseconds."""
    return {"hours": 3_600_000, "minutes": 60_000}.get(name.rpartition(".")[2], 1)


BROKER: Mapping[str, Definition] = {row[0]: _broker(row) for row in broker_table.ROWS}
TOPIC: Mapping[str, Definition] = {row[0]: _topic(*row) for row in topic_table.ROWS}
BROKER_SYNONYMS: Mapping[str, tuple[str, ...]] = {row[0]: row[2] for row in topic_table.ROWS}
_UNSUPPORTED_TOPIC_ROWS = [parse_row(row, reason) for row, (reason, _) in topic_table.WITHOUT_EFFECT.items()]
UNSUPPORTED_TOPIC: Mapping[str, Definition] = {definition.name: definition for definition, _ in _UNSUPPORTED_TOPIC_ROWS}
"""Settings of topics that are accepted, or accepted with a harmless value, and have no effect here."""
_UNSUPPORTED_SYNONYMS = {
    definition.name: (synonym,)
    for (definition, _), (_, synonym) in zip(_UNSUPPORTED_TOPIC_ROWS, topic_table.WITHOUT_EFFECT.values(), strict=True)
    if synonym
}
SHOWN_UNSUPPORTED_TOPIC = [definition.name for definition, is_shown in _UNSUPPORTED_TOPIC_ROWS if is_shown]
MAX_TYPO_LENGTH = 100
"""In characters. A comparison takes quadratic time, and no setting's name is near to a longer name."""

_known: dict[str, Definition] = {}
_shown: list[Definition] = []


def known() -> Mapping[str, Definition]:
    """Every setting that a broker's file may have, by name, including those without effect."""
    if not _known:
        for definition, is_shown in _foreign():
            _known[definition.name] = definition
            if is_shown:
                _shown.append(definition)
        _known.update(BROKER)
    return _known


def shown_unsupported() -> Sequence[Definition]:
    """The settings without effect here that Kafka's DescribeConfigs shows, given or not."""
    known()
    return _shown


def find(name: str) -> Definition | None:
    """The broker setting with this name; None for a name that Kafka does not have.

    Settings of plug-ins count as secrets, because nothing is known of them.
    """
    definition = BROKER.get(name) or known().get(name)
    if definition is not None:
        return definition
    if name.startswith(LISTENER_PREFIX):
        return _of_listener(name)
    if name == variables.PROVIDERS or name.startswith(variables.PREFIX):
        return _of_provider(name)
    for beginning, reason in unsupported_table.PREFIXES.items():
        if name.startswith(beginning):
            return Definition(name, Type.PASSWORD, None, "", "", Effect.NONE, reason)
    return None


def _of_provider(name: str) -> Definition:
    """A setting of providers; an unknown parameter counts as a secret."""
    if name == variables.PROVIDERS:
        return Definition(name, Type.LIST, "", "", "The providers of values that stand in files or in the environment.")
    of = name.removeprefix(variables.PREFIX)
    if of.endswith(".class"):
        return Definition(name, Type.CLASS, None, "", "The class of a provider.")
    known = {each for parameters in variables.PARAMETERS.values() for each in parameters}
    if of.partition(".param.")[2] in known:
        return Definition(name, Type.STRING, None, "", "What a provider may read.")
    return Definition(name, Type.PASSWORD, None, "", "", Effect.NONE, "providers have no such parameter")


LISTENER_PREFIX = "listener.name."


def _of_listener(name: str) -> Definition | None:
    base = _base_of_listener(name)
    if base is None:
        return None
    definition = known()[base]._replace(name=name, default=None)
    if _middle(name, base).upper() in broker_table.OF_MECHANISMS.get(base, ()) and name == name.lower():
        return (
            definition if definition.effect is not Effect.NONE else definition._replace(effect=Effect.FULL, reason="")
        )
    if base in broker_table.OF_LISTENERS and name == _own_name(name, base):
        return definition
    return definition._replace(effect=Effect.NONE, reason=unsupported_table.OF_LISTENERS_REASON, harmless=())


def _base_of_listener(name: str) -> str | None:
    """The setting of `listener.name.<listener>[.<mechanism>].<setting>`; None if it does not exist."""
    parts = name.removeprefix(LISTENER_PREFIX).split(".")[1:]
    bases = (".".join(parts[start:]) for start in range(min(2, len(parts))))
    return next((base for base in bases if base in known()), None)


def _middle(name: str, base: str) -> str:
    """The mechanism in the name of a listener's value of `base`; empty without one."""
    return name.removeprefix(LISTENER_PREFIX).removesuffix(base).partition(".")[2].removesuffix(".")


def _own_name(name: str, base: str) -> str:
    """The name of the same listener's value of `base`, without a mechanism."""
    listener = name.removeprefix(LISTENER_PREFIX).partition(".")[0]
    return f"{LISTENER_PREFIX}{listener}.{base}"


class Scope(Enum):
    """The scope of a change at run time. `ALL`: a broker, or all brokers."""

    NOTHING = 0
    LISTENER = 1
    BROKER = 2
    ALL = 3


def scope(name: str) -> Scope:
    """The scope of changes of this broker setting at run time; some have no effect here."""
    if name in broker_table.CLUSTER_WIDE or name in unsupported_table.CLUSTER_WIDE:
        return Scope.ALL
    if name in unsupported_table.PER_BROKER or name in broker_table.PER_BROKER:
        return Scope.BROKER
    if name in broker_table.PER_LISTENER:
        return Scope.LISTENER
    if name.startswith(LISTENER_PREFIX):
        base = _base_of_listener(name)
        if base is not None and not base.startswith("headgate."):
            return Scope.ALL if base in unsupported_table.OF_LISTENERS_CLUSTER_WIDE else Scope.BROKER
    return Scope.NOTHING


def unsupported_synonyms(name: str) -> tuple[str, ...]:
    """The broker's setting that a topic's setting without effect falls back to, as in Kafka; none for many."""
    return _UNSUPPORTED_SYNONYMS.get(name, ())


def is_dynamic(name: str) -> bool:
    """Whether this broker setting can change at run time here, for whatever; some have no effect here."""
    return scope(name) is not Scope.NOTHING


def nearest_broker_setting(name: str) -> str:
    """What to do about an unknown name, as the end of a sentence."""
    if name in BROKER_SYNONYMS:
        return f"it is a setting of topics; for all topics of a broker, set {BROKER_SYNONYMS[name][0]}"
    if name == topic_table.TIMESTAMP_DIFFERENCE:
        return f"it is a setting of topics; for all topics of a broker, set log.{name}"
    if name in UNSUPPORTED_TOPIC:
        return "it is a setting of topics"
    otherwise = "no Apache Kafka (0.8 to 4.4) and no plug-in known here has it, and plug-ins are not loaded; remove it"
    return _nearest(name, known(), otherwise)


def nearest_topic_setting(name: str) -> str:
    """What to do about an unknown name, as the end of a sentence."""
    for topic_name, synonyms in BROKER_SYNONYMS.items():
        if name in synonyms:
            return f"it is a setting of brokers; for one topic, set {topic_name}"
    return _nearest(name, {**TOPIC, **UNSUPPORTED_TOPIC}, "topics have no such setting")


def _nearest(name: str, names: Iterable[str], otherwise: str) -> str:
    if len(name) > MAX_TYPO_LENGTH:
        return otherwise
    from difflib import get_close_matches

    near = get_close_matches(name.lower().replace("_", "."), names, n=1, cutoff=0.7)
    return f"the nearest name is {near[0]}" if near else otherwise
