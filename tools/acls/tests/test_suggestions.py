"""The suggested rules allow everything that was seen, and nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.acls import AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.security.acls.decision import AclPolicy
from headgate.protocol.security.acls.index import AclIndex
from headgate.protocol.tests.examples import share
from headgate.tools.acls.suggestions import DEFAULT_PREFIXES, ObservedAccess, read_lines, still_refused, suggest
from headgate.tools.acls.tests.acl_broker import acl

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC, GROUP = AclResource.TOPIC, AclResource.GROUP
POLICY = AclPolicy()


def seen(
    operation: AclOperation = READ, name: str | None = "orders", resource: AclResource = TOPIC, **fields: str
) -> ObservedAccess:
    return ObservedAccess(
        fields.get("principal", "User:alice"), fields.get("host", "10.0.0.1"), operation, resource, name
    )


def rules(*accesses: ObservedAccess, by_host: bool = False) -> list[str]:
    return [str(rule) for rule in suggest(accesses, DEFAULT_PREFIXES, by_host=by_host).rules]


def test_each_operation_gets_a_rule_for_its_name() -> None:
    assert rules(seen(), seen(WRITE), seen(READ, "g", GROUP)) == [
        "ALLOW READ on TOPIC:LITERAL:orders to User:alice from *",
        "ALLOW WRITE on TOPIC:LITERAL:orders to User:alice from *",
        "ALLOW READ on GROUP:LITERAL:g to User:alice from *",
    ]


def test_what_another_rule_implies_has_none() -> None:
    assert rules(seen(DESCRIBE), seen(READ)) == ["ALLOW READ on TOPIC:LITERAL:orders to User:alice from *"]
    assert len(rules(seen(DESCRIBE), seen(READ, principal="User:bob"))) == 2


def test_addresses_are_kept_on_request() -> None:
    assert rules(seen(), seen(host="10.0.0.2")) == ["ALLOW READ on TOPIC:LITERAL:orders to User:alice from *"]
    assert [rule.rpartition(" ")[2] for rule in rules(seen(), seen(host="::1"), by_host=True)] == ["10.0.0.1", "::1"]


def test_an_idempotent_producer_needs_the_topics_it_writes_to() -> None:
    idempotent = seen(WRITE, None)
    assert rules(idempotent, seen(WRITE)) == ["ALLOW WRITE on TOPIC:LITERAL:orders to User:alice from *"]
    assert rules(idempotent) == ["ALLOW IDEMPOTENT_WRITE on CLUSTER:LITERAL:kafka-cluster to User:alice from *"]


def test_groups_of_spark_are_one_rule() -> None:
    groups = [seen(READ, f"spark-kafka-source-{number}-driver-0", GROUP) for number in range(5)]
    assert rules(*groups) == ["ALLOW READ on GROUP:PREFIXED:spark-kafka-source to User:alice from *"]


def test_a_name_that_would_be_a_wildcard_gets_no_rule() -> None:
    accesses = [seen(READ, "*", GROUP), seen(principal="User:*")]
    assert suggest(accesses, {}, by_host=False) == ([], accesses)


ACCESSES = st.builds(
    ObservedAccess,
    st.sampled_from(["User:a", "User:b"]),
    st.sampled_from(["10.0.0.1", "10.0.0.2"]),
    st.sampled_from([READ, WRITE, DESCRIBE]),
    st.sampled_from([TOPIC, GROUP]),
    st.sampled_from(["x", "xy", "y"]),
)


@settings(max_examples=share(100))
@given(st.sets(ACCESSES, max_size=8), ACCESSES)
def test_the_rules_allow_exactly_what_was_seen(accesses: set[ObservedAccess], other: ObservedAccess) -> None:
    index = AclIndex.empty().changed((), suggest(accesses, {}, by_host=True).rules)
    assert [*still_refused(accesses, index, POLICY)] == []
    implied = any(other in (access, access._replace(operation=DESCRIBE)) for access in accesses)
    assert implied or [*still_refused([other], index, POLICY)] == [other]


def test_what_the_acls_allow_by_now_is_left_out() -> None:
    index = AclIndex.empty().changed((), [acl(), acl(name="w", operation=WRITE, pattern=PatternType.PREFIXED)])
    accesses = [seen(), seen(WRITE, "w1"), seen(WRITE), seen(WRITE, None), seen(principal="User:admin")]
    policy = AclPolicy(frozenset({"User:admin"}))
    assert [*still_refused(accesses, index, policy)] == [seen(WRITE)]
    denied = AclIndex.empty().changed((), [acl(permission=AclPermission.DENY), acl()])
    assert [*still_refused([seen()], denied, POLICY)] == [seen()]


def line(**fields: Any) -> str:
    event = {
        "time": "2026-11-28T03:41:00.123Z",
        "event": "would_be_refused",
        "principal": "User:alice",
        "address": "10.0.0.1",
        "client_id": None,
        "listener": "CLIENTS",
        "operation": "READ",
        "resource_type": "TOPIC",
        "resource_name": "orders",
    }
    return json.dumps({**event, **fields})


def test_lines_of_an_audit_log_are_read() -> None:
    lines = [line(), line(), line(event="refused"), line(resource_name=None), "", '{"torn": "li']
    lines += [line(operation="NEW"), line(principal=5), "[1]", "[" * 100_000]
    accesses, unreadable = read_lines(lines)
    assert accesses == [seen(), seen(READ, None)]
    assert unreadable == 5
