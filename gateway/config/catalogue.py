"""Look-up of a setting by its name, and of the nearest name for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.gateway.config import broker_table, topic_table, unsupported_table
from headgate.gateway.config.definition import Definition, Effect, Type


def _pending_reason(name: str) -> str:
    """Why a setting of the broker's table has no effect yet; empty if it has an effect."""
    beginning = name
    while beginning:
        reason = broker_table.PENDING.get(beginning)
        if reason is not None:
            return reason
        beginning = beginning[: beginning.rstrip(".").rfind(".") + 1]
    return ""


def _broker(row: broker_table.Row) -> Definition:
    reason = _pending_reason(row[0])
    effect = Effect.PENDING if reason else Effect.FULL
    return Definition(*row, effect=effect, reason=reason)


def _foreign() -> Iterable[Definition]:
    for reason, beginning, names in unsupported_table.GROUPS:
        for marked in names.split():
            type_ = Type.PASSWORD if marked.endswith("*") else Type.STRING
            yield Definition(beginning + marked.rstrip("*"), type_, None, "", "", Effect.NONE, reason)
    for name, (harmless, reason) in unsupported_table.REFUSED.items():
        yield Definition(name, Type.STRING, None, "", "", Effect.REFUSED, reason, harmless)


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
MAX_TYPO_LENGTH = 100
"""In characters. A comparison takes quadratic time, and no setting's name is near to a longer name."""

_known: dict[str, Definition] = {}


def known() -> Mapping[str, Definition]:
    """Every setting that a broker's file may have, by name, including those without effect."""
    if not _known:
        _known.update((definition.name, definition) for definition in _foreign())
        _known.update(BROKER)
    return _known


def find(name: str) -> Definition | None:
    """The broker setting with this name; None for a name that Kafka does not have.

    Plugins' settings count as secrets, because nothing is known of them.
    """
    definition = BROKER.get(name) or known().get(name)
    if definition is not None:
        return definition
    of_listener = name.split(".", 3)[-1]
    if of_listener in broker_table.OF_LISTENERS and name.startswith("listener.name."):
        return BROKER[of_listener]._replace(name=name, default=None)
    for beginning, reason in unsupported_table.PREFIXES.items():
        if name.startswith(beginning) and _listener_setting_exists(name):
            return Definition(name, Type.PASSWORD, None, "", "", Effect.NONE, reason)
    return None


def _listener_setting_exists(name: str) -> bool:
    """Whether `<setting>` of `listener.name.<listener>[.<mechanism>].<setting>` exists."""
    if not name.startswith("listener.name."):
        return True
    parts = name.split(".")[3:]
    return any(".".join(parts[start:]) in known() for start in range(min(2, len(parts))))


def is_dynamic(name: str) -> bool:
    """Whether this broker setting can change at run time here; some have no effect here."""
    return name in broker_table.CLUSTER_WIDE or name in unsupported_table.CLUSTER_WIDE


def nearest_broker_setting(name: str) -> str:
    """What to do about an unknown name, as the end of a sentence."""
    if name in BROKER_SYNONYMS:
        return f"it is a setting of topics; for all topics of a broker, set {BROKER_SYNONYMS[name][0]}"
    return _nearest(name, known(), "Apache Kafka's brokers have no such setting; remove it")


def nearest_topic_setting(name: str) -> str:
    """What to do about an unknown name, as the end of a sentence."""
    for topic_name, synonyms in BROKER_SYNONYMS.items():
        if name in synonyms:
            return f"it is a setting of brokers; for one topic, set {topic_name}"
    return _nearest(name, TOPIC, "topics have no such setting")


def _nearest(name: str, names: Iterable[str], otherwise: str) -> str:
    if len(name) > MAX_TYPO_LENGTH:
        return otherwise
    from difflib import get_close_matches

    near = get_close_matches(name.lower().replace("_", "."), names, n=1, cutoff=0.7)
    return f"the nearest name is {near[0]}" if near else otherwise
