"""Requests under ACLs for `User:*`, with and without `allow.everyone.if.no.acl.found`; see `scenario`.

    python -m headgate.gateway.api.tests.under_acls.everyone properties PORT DIRECTORY true > server.properties
    python -m headgate.gateway.api.tests.under_acls.everyone record PORT > everyone_true_of_kafka41.txt

`false` in place of `true` is the other half. Each question is asked in its newest version.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from headgate.gateway.api.tests.under_acls.acl_sets import HOST, OTHER_HOST
from headgate.gateway.api.tests.under_acls.questions import Question
from headgate.gateway.api.tests.under_acls.scenario import (
    Answers,
    Broker,
    Remote,
    Scenario,
    parse,
    properties,
    questions,
    text,
)
from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.messages.describe_acls import DescribeAclsRequest

SETTING = "allow.everyone.if.no.acl.found"
ALICE, BOB = "alice", "bob"
EVERYONE = "User:*"
_O = AclOperation
_ALLOW, _DENY = AclPermission.ALLOW, AclPermission.DENY
_LITERAL, _PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
_TOPIC, _GROUP = AclResource.TOPIC, AclResource.GROUP


def acls() -> dict[str, list[AclBinding]]:
    """The ACLs: those for everyone are alice's here. The topic `stays`, the group `h` and the id `y` have none."""
    of_bob = f"User:{BOB}"
    return {
        ALICE: [
            AclBinding(_TOPIC, "t", _LITERAL, EVERYONE, "*", _O.READ, _ALLOW),
            AclBinding(_TOPIC, "t", _LITERAL, f"User:{ALICE}", "*", _O.WRITE, _ALLOW),
            AclBinding(_TOPIC, "doomed", _LITERAL, EVERYONE, HOST, _O.DELETE, _ALLOW),
            AclBinding(_TOPIC, "ne", _PREFIXED, EVERYONE, "*", _O.ALL, _ALLOW),
            AclBinding(_GROUP, "g", _LITERAL, EVERYONE, "*", _O.ALL, _ALLOW),
            AclBinding(_GROUP, "k", _LITERAL, EVERYONE, OTHER_HOST, _O.READ, _ALLOW),
            AclBinding(AclResource.TRANSACTIONAL_ID, "x", _LITERAL, EVERYONE, "*", _O.WRITE, _DENY),
            AclBinding(AclResource.CLUSTER, "kafka-cluster", _LITERAL, EVERYONE, "*", _O.DESCRIBE, _ALLOW),
        ],
        BOB: [
            AclBinding(_TOPIC, "t", _LITERAL, of_bob, "*", _O.READ, _DENY),
            AclBinding(_TOPIC, "new", _LITERAL, of_bob, "*", _O.CREATE, _DENY),
            AclBinding(_GROUP, "g", _LITERAL, of_bob, "*", _O.DELETE, _DENY),
        ],
    }


def asked() -> Iterator[tuple[Question, int]]:
    for question in questions():
        yield question._replace(clients=(ALICE, BOB)), [*question.versions][-1]


def play(broker: Broker) -> Answers:
    scenario = Scenario(broker, acls())
    scenario.set_up()
    count = sum(map(len, acls().values())) + 1  # and that of nobody
    while _stored(scenario) < count:  # Kafka answers before its authorizer has them
        broker.wait()
    for question, version in asked():
        scenario.ask(question, version)
    return scenario.answers


def _stored(scenario: Scenario) -> int:
    """How many ACLs the authorizer has."""
    resources = scenario.admin(DescribeAclsRequest(1, None, 1, None, None, 1, 1), 2).resources
    return sum(len(resource.acls) for resource in resources)


def recorded(everyone: str) -> Answers:
    path = Path(__file__).parent / f"everyone_{everyone}_of_kafka41.txt"
    return parse(path.read_text().splitlines())


def main(what: str, port: str, *more: str) -> None:
    if what == "properties":
        sys.stdout.writelines(properties(int(port), more[0], "kraft", acls()))
        sys.stdout.write(f"{SETTING}={more[1]}\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in text(play(Remote(int(port)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
