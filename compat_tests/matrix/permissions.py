"""What each API asks an authorizer, from the recorded answers of Kafka to clients with different ACLs.

The clients are those of `gateway/api/tests/under_acls/acl_sets.py`: `topic-READ` may do this alone, `but-topic-READ`
everything else. An API asks for an operation if it answers the second one, or the first, otherwise than their like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from compat_tests.harness.apache_kafka import ROOT

FOLDER: Final = ROOT / "gateway" / "api" / "tests" / "under_acls"
FILES: Final = ("answers_of_kafka39_zookeeper.txt", "answers_of_kafka39.txt", "answers_of_kafka41.txt")
NONE, ALL, DENIED = "none", "all", "but-"
RESOURCES: Final = ("topic", "group", "cluster", "transactional-id", "delegation-token", "user")
IMPLIED: Final = {
    **dict.fromkeys(("READ", "WRITE", "DELETE", "ALTER"), "DESCRIBE"),
    "ALTER_CONFIGS": "DESCRIBE_CONFIGS",
}
OPERATIONS_OF_CLIENT: Final = re.compile(r" \w*authorized_operations=\d+")
"""A field with all operations that the client may do: it says nothing about what the request needs."""

Answers = Mapping[str, str]
"""The answers to a question by client; NONE and ALL stand for clients without one."""


class Permissions(NamedTuple):
    """What an API asks: operations that it needs, and others that are enough in their place. Resources are first."""

    needed: Mapping[str, frozenset[str]]
    enough: Mapping[str, frozenset[str]]
    versions: frozenset[int]

    def __str__(self) -> str:
        enough = [(resource, [name]) for resource, names in self.enough.items() for name in sorted(names)]
        alternatives = " or ".join(map(_text, enough))
        return "; ".join(filter(None, [*map(_text, self.needed.items()), alternatives]))


_NONE: Final[Mapping[str, frozenset[str]]] = {}
OF_TOKENS: Final = {
    "CreateDelegationToken": Permissions({"user": frozenset({"CREATE_TOKENS"})}, _NONE, frozenset(range(4))),
    "RenewDelegationToken": Permissions(_NONE, _NONE, frozenset(range(3))),
    "ExpireDelegationToken": Permissions(_NONE, _NONE, frozenset(range(3))),
    "DescribeDelegationToken": Permissions(
        _NONE,
        {"delegation-token": frozenset({"DESCRIBE"}), "user": frozenset({"DESCRIBE_TOKENS"})},
        frozenset(range(4)),
    ),
}
"""These are asked by clients that have logged in, and need ACLs for tokens of others: `tokens_scenario` compares."""


def load() -> dict[str, Permissions]:
    """What each API of the recorded Kafkas asks, by name."""
    return permissions_of((FOLDER / name).read_text() for name in FILES) | OF_TOKENS


def permissions_of(files: Iterable[str]) -> dict[str, Permissions]:
    """What each API asks by the texts of files, the newest Kafka's last: it decides, all of them were compared."""
    newest: dict[str, list[Answers]] = {}
    versions: dict[str, set[int]] = {}
    for recorded in files:
        questions: dict[str, list[Answers]] = {}
        for api, compared, answers in _questions(recorded):
            questions.setdefault(api, []).append(answers)
            versions.setdefault(api, set()).update(compared)
        newest.update(questions)
    return {api: _permissions(asked, versions[api]) for api, asked in newest.items()}


def _questions(text: str) -> Iterator[tuple[str, range, Answers]]:
    found: dict[tuple[str, str], dict[str, str]] = {}
    for line in text.splitlines():
        name, versions, clients, answer = line.split("\t")
        shown = re.sub(OPERATIONS_OF_CLIENT, "", answer)
        found.setdefault((name, versions), {}).update(dict.fromkeys(clients.split(), shown))
    for (name, versions), answers in found.items():
        first, _, last = versions.partition("-")
        yield name.partition(":")[0], range(int(first), int(last or first) + 1), answers


def _permissions(questions: list[Answers], versions: set[int]) -> Permissions:
    needed: dict[str, set[str]] = {}
    enough: dict[str, set[str]] = {}
    for answers in questions:
        for client in answers:
            resource, _, operation = client.removeprefix(DENIED).rpartition("-")
            if resource not in RESOURCES or operation == "ALL":
                continue
            if client.startswith(DENIED):
                if answers[client] != answers.get(ALL):  # orders were asked by denied clients alone
                    needed.setdefault(resource, set()).add(operation)
            elif answers[client] not in (answers[NONE], answers.get(f"{resource}-{IMPLIED.get(operation)}")):
                enough.setdefault(resource, set()).add(operation)
    for resource, operations in needed.items():
        enough.get(resource, set()).difference_update(operations)
    return Permissions(_frozen(needed), _frozen(enough), frozenset(versions))


def _frozen(operations: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    return {resource: frozenset(operations[resource]) for resource in RESOURCES if operations.get(resource)}


def _text(operations: tuple[str, Iterable[str]]) -> str:
    """As `kafka-acls` writes them: `Topic: Read, Write`."""
    resource, names = operations
    return f"{_camel(resource)}: {', '.join(sorted(map(_camel, names)))}"


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in re.split("[-_]", name))
