"""What is asked of a broker to see its rules for changes and filters of quotas; `test_quotas` compares with Kafka.

    play(broker)        # any broker: `ask(request, version)` gives its response
    python -m headgate.gateway.api.tests.like_kafka.quotas_scenario PORT > quotas_of_kafka.txt

The second line records the answers of an Apache Kafka 4.1.2 on this machine that is new, as they stand in that file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from headgate.gateway.api.tests.like_kafka.admin_scenario import Remote
from headgate.gateway.tests.scenario import Broker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from headgate.protocol.messages.describe_client_quotas import (
    ANY,
    DEFAULT,
    EXACT,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
)

RATE, OUT, PERCENT, MUTATIONS, CONNECTIONS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
Names = dict[str, str | None]
Changes = dict[str, float | None]

ENTITIES: tuple[Names, ...] = (
    {"user": "ann"},
    {"user": None},
    {"client-id": "an app/1"},
    {"client-id": None},
    {"user": "ann", "client-id": "app"},
    {"user": "ann", "client-id": None},
    {"user": None, "client-id": "app"},
    {"user": None, "client-id": None},
    {"ip": "192.0.2.1"},
    {"ip": None},
)

REFUSED: tuple[tuple[Names, Changes], ...] = (
    ({}, {RATE: 1.0}),
    ({"user": ""}, {RATE: 1.0}),
    ({"client-id": ""}, {RATE: 1.0}),
    ({"group": "g"}, {RATE: 1.0}),
    ({"ip": "192.0.2.1", "user": "ann"}, {RATE: 1.0}),
    ({"ip": "not an address"}, {CONNECTIONS: 1.0}),
    ({"ip": "192.0.2.1"}, {RATE: 1.0}),
    ({"user": "ann"}, {CONNECTIONS: 1.0}),
    ({"user": "ann"}, {"no_such_rate": 1.0}),
    ({"user": "ann"}, {"SCRAM-SHA-256": 1.0}),
    ({"user": "ann"}, {RATE: 0.0}),
    ({"user": "ann"}, {RATE: -1.0}),
    ({"user": "ann"}, {RATE: 1.5}),
    ({"user": "ann"}, {RATE: 1.0000001}),
    ({"user": "ann"}, {RATE: 2.0**63}),
    ({"user": "ann"}, {RATE: 2.0**64}),
    ({"user": "ann"}, {RATE: float("inf")}),
    ({"user": "ann"}, {PERCENT: 0.0}),
    ({"user": "ann"}, {PERCENT: 0.001}),
    ({"user": "ann"}, {MUTATIONS: 0.5}),
    ({"user": "ann"}, {PERCENT: 1e300}),
    ({"ip": "192.0.2.2"}, {CONNECTIONS: 2.5}),
    ({"ip": "192.0.2.2"}, {CONNECTIONS: 2.0**31}),
    ({"ip": "192.0.2.2"}, {CONNECTIONS: 2.0**31 - 1}),
    ({"ip": "2001:db8::1"}, {CONNECTIONS: 3.0}),
    ({"user": "new"}, {RATE: None}),
    ({"user": "ann"}, {"no_such_rate": None}),
)

FILTERS: tuple[tuple[tuple[str, int, str | None], ...], ...] = (
    (),
    (("user", EXACT, "ann"),),
    (("user", EXACT, "nobody"),),
    (("user", DEFAULT, None),),
    (("user", ANY, None),),
    (("client-id", EXACT, "app"),),
    (("client-id", DEFAULT, None),),
    (("client-id", ANY, None),),
    (("user", EXACT, "ann"), ("client-id", EXACT, "app")),
    (("user", EXACT, "ann"), ("client-id", ANY, None)),
    (("user", ANY, None), ("client-id", DEFAULT, None)),
    (("user", ANY, None), ("client-id", ANY, None)),
    (("user", DEFAULT, None), ("client-id", DEFAULT, None)),
    (("ip", ANY, None),),
    (("ip", DEFAULT, None),),
    (("ip", EXACT, "192.0.2.1"),),
    (("ip", ANY, None), ("user", ANY, None)),
    (("", EXACT, "x"),),
    (("group", EXACT, "x"),),
    (("user", ANY, None), ("user", ANY, None)),
    (("user", EXACT, None),),
    (("user", DEFAULT, "ann"),),
    (("user", ANY, "ann"),),
    (("user", 3, None),),
    (("group", 3, "x"),),
)


class Play:
    """One run: the answers by the names of their questions."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.answers: dict[str, str] = {}

    def alter(self, label: str, *entries: EntryData, version: int = 1, is_checked: bool = False) -> None:
        response = self.broker.ask(AlterClientQuotasRequest([*entries], is_checked), version)
        rows = [f"{_error(row)} {_names(row.entity)}" for row in response.entries]
        self._note(f"alter v{version}{' (checked)' * is_checked}: {label}", rows)

    def describe(self, label: str, *components: ComponentData, version: int = 1, is_strict: bool = False) -> None:
        response = self.broker.ask(DescribeClientQuotasRequest([*components], is_strict), version)
        rows = [_error(response)] if response.entries is None else []
        for row in response.entries or ():
            values = sorted((value.key, value.value) for value in row.values)
            rows.append(f"{_names(row.entity)} {values}")
        self._note(f"describe v{version}{' (strict)' * is_strict}: {label}", rows)

    def _note(self, name: str, rows: Iterable[str]) -> None:
        assert name not in self.answers, name
        self.answers[name] = " | ".join(sorted(rows))


def _error(row: Any) -> str:
    message = row.error_message
    return ErrorCode(row.error_code).name + ("" if message is None else f" {message!r}")


def _names(entity: list[EntityData]) -> str:
    return str({part.entity_type: part.entity_name for part in sorted(entity, key=lambda part: part.entity_type)})


def entry(names: Names, changes: Changes) -> EntryData:
    operations = [OpData(key, 0.0 if value is None else value, value is None) for key, value in changes.items()]
    return EntryData([EntityData(kind, name) for kind, name in names.items()], operations)


def play(broker: Broker) -> dict[str, str]:
    """Ask everything, in this order."""
    made = Play(broker)
    made.describe("everything, while there is nothing")
    for number, names in enumerate(ENTITIES, 1):
        key = CONNECTIONS if "ip" in names else (RATE, OUT, PERCENT, MUTATIONS)[number % 4]
        made.alter(f"{names}", entry(names, {key: float(number)}), version=number % 2)
    made.alter("several", *(entry(names, {OUT: 5.0}) for names in ENTITIES[:3]))
    made.alter("several keys", entry({"user": "ann"}, {OUT: 7.0, PERCENT: 12.5}), entry({"user": None}, {OUT: None}))
    for names, changes in REFUSED:
        made.alter(f"{names} {changes}", entry(names, changes))
        made.alter(f"{names} {changes}", entry(names, changes), is_checked=True)
    made.alter("good and bad", entry({"user": "ann"}, {RATE: 3.0}), entry({"user": "bob"}, {RATE: -3.0}))
    made.alter("good and bad keys", entry({"user": "bob"}, {RATE: 3.0, "no_such_rate": 2.0}))
    made.alter("one entity twice", entry({"user": "bob"}, {RATE: 3.0}), entry({"user": "bob"}, {OUT: 4.0}))
    twice = EntryData([EntityData("user", "bob")], [OpData(RATE, 8.0), OpData(RATE, 9.0)])
    made.alter("one key twice", twice)
    made.alter("one type twice", EntryData([EntityData("user", "x"), EntityData("user", "y")], [OpData(RATE, 8.0)]))
    made.alter("nothing")
    made.alter("no change", entry({"user": "bob"}, {}))
    for version in (0, 1):
        for components in FILTERS:
            shown = " and ".join(map(str, components)) or "everything"
            rows = [ComponentData(*component) for component in components]
            made.describe(shown, *rows, version=version)
            made.describe(shown, *rows, version=version, is_strict=True)
    made.alter("all removed", *(entry(names, dict.fromkeys((RATE, OUT, PERCENT, MUTATIONS))) for names in ENTITIES[:8]))
    made.describe("what is left")
    return made.answers


if __name__ == "__main__":
    for name, answer in play(Remote(int(sys.argv[1]))).items():
        sys.stdout.write(f"{name}\t{answer}\n")
