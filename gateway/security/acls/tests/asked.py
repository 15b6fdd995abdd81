"""Questions about ACLs that Kafka has answered, made from a number; `answers_of_kafka.txt` has the answers.

    python -m headgate.gateway.security.acls.tests.asked > questions.txt
    javac -d out -cp 'build/jars/broker/*' compat_tests/java/broker/src/AclAnswers.java
    java -cp 'out:build/jars/broker/*' AclAnswers < questions.txt      # StandardAuthorizer of 4.1

and the same with `build/jars/broker39` (AclAuthorizer of 3.9). The file has one line for each block of questions: the
answers of 4.1, then those of 3.9, each a number in base 16. For networks: `asked cidr`, and `build/jars/clients` (4.4).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple, TypeVar

from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType

BLOCKS = 1500
SEED = 35

PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice", "User:alice:x")
CLIENTS = ("User:alice", "User:bob", "User:carol", "Group:alice", "User:alice:x", "User:root")
HOSTS = ("*", "*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
ADDRESSES = ("10.0.0.1", "10.0.0.2", "::1")
NAMES = ("*", "a", "ab", "abc", "abd", "b", "hard", "hardcode", "kafka-cluster", "a*")
ASKED = ("a", "ab", "abc", "abcd", "abd", "b", "c", "hardcode", "kafka-cluster", "*", "a*")
TYPES = tuple(AclResource)[2:]
OPERATIONS = tuple(AclOperation)[2:]
"""With ALL, and without UNKNOWN and ANY. 3.9 does not know TWO_PHASE_COMMIT."""
COMMON = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL, AclOperation.ALTER_CONFIGS)

T = TypeVar("T")


class Question(NamedTuple):
    """What a client asks; without a name, whether it may on any resource of the type."""

    principal: str
    host: str
    operation: AclOperation
    resource: AclResource
    name: str | None


class Block(NamedTuple):
    """Questions to one authorizer."""

    allow_everyone: bool
    super_users: str
    bindings: Sequence[AclBinding]
    questions: Sequence[Question]


class _Choices:
    """Choices that are the same in every version of Python: only `Random.random` promises that."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def number(self, below: int) -> int:
        return int(self._random.random() * below)

    def one(self, values: Sequence[T]) -> T:
        return values[self.number(len(values))]


def blocks(count: int = BLOCKS) -> Iterator[Block]:
    choices = _Choices(SEED)
    for _ in range(count):
        types = [choices.one(TYPES), choices.one(TYPES)]
        bindings = dict.fromkeys(_binding(choices, types) for _ in range(choices.number(9)))
        yield Block(
            choices.number(3) == 0,
            choices.one(("", "User:root", "User:root;User:bob")),
            [*bindings],
            [_question(choices, types, is_any=number >= 20) for number in range(32)],
        )


def _operation(choices: _Choices) -> AclOperation:
    return choices.one(COMMON) if choices.number(3) else choices.one(OPERATIONS[:-1])


def _binding(choices: _Choices, types: Sequence[AclResource]) -> AclBinding:
    return AclBinding(
        choices.one(types),
        choices.one(NAMES),
        choices.one((PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED)),
        choices.one(PRINCIPALS),
        choices.one(HOSTS),
        _operation(choices),
        choices.one((AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY)),
    )


def _question(choices: _Choices, types: Sequence[AclResource], *, is_any: bool) -> Question:
    operation = _operation(choices)
    while operation is AclOperation.ALL:
        operation = _operation(choices)
    return Question(
        choices.one(CLIENTS),
        choices.one(ADDRESSES),
        operation,
        choices.one(types),
        None if is_any else choices.one(ASKED),
    )


NETWORKS = [
    *[
        "10.0.0.0/8",
        "10.1.2.3/8",
        "10.0.0.1/32",
        "10.0.0.0/31",
        "10.0.0.2/30",
        "0.0.0.0/0",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/x",
    ],
    *[
        "10.0.0/8",
        "10.0.0.256/8",
        "10.0.0.0/8/8",
        "10.0.0.0/255.0.0.0",
        "/8",
        "10.0.0.0/",
        "010.0.0.0/8",
        "2001:db8::/32",
    ],
    *["2001:db8::1/128", "2001:db8::/129", "::/0", "::ffff:10.0.0.0/104", "2001:db8::x/32", "fe80::/10", "::1/128"],
    *["2001:DB8:0:0:0:0:0:0/33", "10.0.0.0/08"],
    "",
]
ASKED_ADDRESSES = [
    "10.0.0.1",
    "10.0.0.2",
    "10.255.255.255",
    "11.0.0.0",
    "0.0.0.0",
    "::1",
    "2001:db8::1",
    "2001:db8:8000::",
    "fe80::1",
    "::",
]


def text() -> Iterator[str]:
    """The questions for the program AclAnswers."""
    for block in blocks():
        yield f"case {str(block.allow_everyone).lower()} {block.super_users}"
        for one in block.bindings:
            pattern = f"{one.resource_type.name} {one.pattern_type.name} {one.resource_name}"
            yield f"acl {pattern} {one.principal} {one.host} {one.operation.name} {one.permission.name}"
        for asked in block.questions:
            words = f"{asked.principal} {asked.host} {asked.operation.name} {asked.resource.name}"
            yield f"any {words}" if asked.name is None else f"one {words} {asked.name}"
        yield "end"


if __name__ == "__main__":
    lines = text()
    if sys.argv[1:] == ["cidr"]:
        lines = (f"cidr {network} {address}" for network in NETWORKS for address in ASKED_ADDRESSES)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
