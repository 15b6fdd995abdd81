"""What is asked of a broker about ACLs; `test_acls` compares with Kafka's answers.

    play(broker)        # any broker: `ask(request, version)` gives its response
    python -m headgate.gateway.api.tests.like_kafka.acls_scenario PORT > acls_of_kafka41.txt

The second line records the answers of an Apache Kafka on this machine, as they stand in that file. The broker is new,
and has `SETTINGS`; the class of 3.9 is the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

from headgate.gateway.api.tests.like_kafka.admin_scenario import Remote
from headgate.gateway.tests.scenario import Broker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from headgate.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headgate.protocol.messages.describe_acls import DescribeAclsRequest
from headgate.protocol.schema import Message, Struct, fields_in

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
VERSIONS = range(4)
ANY, MATCH, LITERAL, PREFIXED, NEWER = 1, 2, 3, 4, 99
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(2, 8)
READ, DESCRIBE, ALL, DENY, ALLOW = 3, 8, 2, 2, 3
EVERY = (ANY, None, ANY, None, None, ANY, ANY)

CREATED = [
    AclCreation(TOPIC, "ab", LITERAL, "User:a", "*", READ, ALLOW),
    AclCreation(TOPIC, "ab", LITERAL, "User:b", "10.0.0.1", ALL, DENY),
    AclCreation(TOPIC, "a", PREFIXED, "User:*", "*", DESCRIBE, ALLOW),
    AclCreation(TOPIC, "*", LITERAL, "User:CN=a,O=b", "::1", READ, ALLOW),
    AclCreation(TOPIC, "*", PREFIXED, "Group:a:b", "", READ, ALLOW),
    AclCreation(TOPIC, "a/b c", LITERAL, ":", "no.such.host", READ, DENY),
    AclCreation(GROUP, "ab", PREFIXED, "User:a", "*", READ, ALLOW),
    AclCreation(CLUSTER, "kafka-cluster", LITERAL, "User:a", "*", 12, ALLOW),
    AclCreation(CLUSTER, "kafka-cluster", PREFIXED, "User:a", "*", 5, ALLOW),
    AclCreation(TRANSACTIONAL_ID, "t", LITERAL, "User:a", "*", 4, ALLOW),
    AclCreation(DELEGATION_TOKEN, "t", LITERAL, "User:a", "*", DESCRIBE, ALLOW),
    AclCreation(USER, "User:b", LITERAL, "User:a", "*", 13, ALLOW),
    AclCreation(TOPIC, "ab", LITERAL, "User:a", "*", READ, ALLOW),
]
REFUSED = [
    AclCreation(CLUSTER, "other", LITERAL, "User:a", "*", 5, ALLOW),
    AclCreation(CLUSTER, "", LITERAL, "User:a", "*", 5, ALLOW),
    AclCreation(TOPIC, "", LITERAL, "User:a", "*", READ, ALLOW),
    AclCreation(ANY, "t", LITERAL, "User:a", "*", READ, ALLOW),
    AclCreation(NEWER, "t", LITERAL, "User:a", "*", READ, ALLOW),
    AclCreation(TOPIC, "t", ANY, "User:a", "*", READ, ALLOW),
    AclCreation(TOPIC, "t", MATCH, "User:a", "*", READ, ALLOW),
    AclCreation(TOPIC, "t", NEWER, "User:a", "*", READ, ALLOW),
    AclCreation(TOPIC, "t", LITERAL, "User:a", "*", ANY, ALLOW),
    AclCreation(TOPIC, "t", LITERAL, "User:a", "*", NEWER, ALLOW),
    AclCreation(TOPIC, "t", LITERAL, "User:a", "*", READ, ANY),
    AclCreation(TOPIC, "t", LITERAL, "User:a", "*", READ, NEWER),
    AclCreation(TOPIC, "t", LITERAL, "User:a", "*", READ, -1),
    AclCreation(NEWER, "", NEWER, "a", "*", NEWER, NEWER),
]
FILTERS: list[tuple[Any, ...]] = [
    EVERY,
    *(
        (resource_type, name, pattern_type, None, None, ANY, ANY)
        for resource_type, name, pattern_type in product(
            (ANY, TOPIC, GROUP, NEWER), (None, "ab", "*", "abc"), (ANY, MATCH, LITERAL, PREFIXED, NEWER)
        )
    ),
    *((ANY, None, ANY, principal, None, ANY, ANY) for principal in ("User:a", "User:*", "a", "")),
    *((ANY, None, ANY, None, host, ANY, ANY) for host in ("*", "10.0.0.1", "::1", "")),
    *((ANY, None, ANY, None, None, operation, ANY) for operation in (ALL, READ, DESCRIBE, NEWER)),
    *((ANY, None, ANY, None, None, ANY, permission) for permission in (ALLOW, DENY, NEWER)),
    (TOPIC, "ab", LITERAL, "User:a", "*", READ, ALLOW),
]
DELETED: list[list[tuple[Any, ...]]] = [
    [],
    [(NEWER, None, LITERAL, None, None, ANY, ANY), (TOPIC, None, ANY, None, None, NEWER, ANY)],
    [(TOPIC, None, NEWER, None, None, ANY, ANY), (TOPIC, None, ANY, None, None, ANY, NEWER)],
    [(TOPIC, "none", LITERAL, None, None, ANY, ANY)],
    [(TOPIC, "ab", LITERAL, "User:b", None, ANY, ANY), (TOPIC, "ab", LITERAL, None, None, ALL, DENY)],
    [(TOPIC, "abc", MATCH, None, None, ANY, ANY)],
    [EVERY],
    [EVERY],
]


def line(value: Any, version: int) -> str:
    """A response without the throttle time; rows have no order where Kafka's come out of a hash table."""
    if isinstance(value, Struct):
        fields = [field.name for field in fields_in(type(value), version) if field.name != "throttle_time_ms"]
        return f"({' '.join(f'{name}={_field(name, getattr(value, name), version)}' for name in fields)})"
    if isinstance(value, list):
        rows = [line(each, version) for each in value]
        return f"[{' '.join(rows if rows and 'matching_acls' in rows[0] else sorted(rows))}]"
    return repr(value)


def _field(name: str, value: Any, version: int) -> str:
    if name == "results":
        return f"[{' '.join(line(each, version) for each in value)}]"
    return ErrorCode(value).name if name == "error_code" else line(value, version)


def questions(version: int) -> Iterator[tuple[str, Message]]:
    """All requests of a version, in order; the first deletes what the version knows."""
    yield "delete, first", DeleteAclsRequest([DeleteAclsFilter(*EVERY)])
    for number, creation in enumerate(REFUSED):
        yield f"create, refused {number}", CreateAclsRequest([creation])
    yield "create, refused and created", CreateAclsRequest([REFUSED[0], CREATED[0], REFUSED[2]])
    yield "create", CreateAclsRequest(CREATED)
    yield "create nothing", CreateAclsRequest([])
    for wanted in dict.fromkeys(FILTERS):
        yield f"describe {wanted}", DescribeAclsRequest(*wanted)
    for number, filters in enumerate(DELETED):
        yield f"delete {number}", DeleteAclsRequest([DeleteAclsFilter(*wanted) for wanted in filters])
        yield f"describe after {number}", DescribeAclsRequest(*EVERY)


def play(broker: Broker) -> dict[str, str]:
    """The answers, by version and question."""
    answers = {}
    for version in VERSIONS:
        for label, request in questions(version):
            answers[f"v{version} {label}"] = line(broker.ask(request, version), version)
        broker.ask(DeleteAclsRequest([DeleteAclsFilter(*EVERY)]), 3)
    return answers


if __name__ == "__main__":
    for name, answer in play(Remote(int(sys.argv[1]))).items():
        sys.stdout.write(f"{name}\t{answer}\n")
