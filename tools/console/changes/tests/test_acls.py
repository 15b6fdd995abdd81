"""ACLs are added and deleted as shown, with who gains and loses, and with the visitor's own rights in mind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from headgate.protocol.acls import CLUSTER_NAME, AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_acls import CreateAclsRequest
from headgate.protocol.messages.delete_acls import DeleteAclsRequest
from headgate.protocol.messages.describe_acls import DescribeAclsRequest
from headgate.protocol.messages.describe_configs import DescribeConfigsRequest
from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.acls import consequences
from headgate.tools.acls.rows import row_of
from headgate.tools.acls.tests.acl_broker import AclBroker, acl
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.changes.acls import add_acls, delete_acls
from headgate.tools.console.changes.plan import ChangeLine
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resources.tests.answering_cluster import answering_cluster
from headgate.tools.output import UsageError

READ = {
    "principal": "User:alice",
    "permission": "ALLOW",
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "operation": "READ",
}
ALTER = acl("User:ANONYMOUS", AclOperation.ALTER, CLUSTER_NAME, resource=AclResource.CLUSTER)


@pytest.fixture
def broker() -> AclBroker:
    return AclBroker()


@pytest.fixture
def cluster(broker: AclBroker) -> Iterator[Cluster]:
    kinds = (DescribeAclsRequest, CreateAclsRequest, DeleteAclsRequest, DescribeConfigsRequest)
    with answering_cluster(dict.fromkeys(kinds, broker.ask)) as cluster:
        yield cluster


def of(**given: str | Sequence[str]) -> Parameters:
    return Parameters(
        [(name, each) for name, value in given.items() for each in ([value] if isinstance(value, str) else value)]
    )


def rows(*rules: AclBinding) -> Parameters:
    return Parameters([("acl", json.dumps(row_of(rule))) for rule in rules])


def test_a_rule_is_shown_and_added(broker: AclBroker, cluster: Cluster) -> None:
    plan = add_acls(cluster, of(**READ))
    assert plan.summary == "Add the ACL ALLOW READ on TOPIC:LITERAL:orders to User:alice from *"
    assert plan.lines == [ChangeLine("User:alice: TOPIC orders", None, "ALLOW READ", "")]
    assert plan.command == "headgate acls add --principal User:alice --operation Read --topic orders"
    assert (plan.problems, plan.warnings, plan.confirmation, broker.acls) == ([], [], "", {})
    result = plan.apply(cluster)
    assert [*broker.acls] == [acl()]
    assert (result.done, result.failures) == (
        ["ALLOW READ on TOPIC:LITERAL:orders to User:alice from * is added"],
        [],
    )


def test_more_rules_than_a_plan_shows_are_refused(broker: AclBroker, cluster: Cluster) -> None:
    many = [f"a{number}" for number in range(1000)]
    wide = {
        "principal": [f"User:{name}" for name in many],
        "host": [f"10.0.{number // 250}.{number % 250}" for number in range(1000)],
    }
    for given in (
        {**READ, **wide},
        {**READ, **wide, "resource_name": many, "operation": ["READ", "WRITE"]},
        {"role": "consumer", "topic": many, "group": many, **wide},
    ):
        with pytest.raises(BadParameter, match="these are more than 10000 ACLs"):
            add_acls(cluster, of(**given))
    assert not broker.asked


def test_a_rule_that_is_there_stays(broker: AclBroker, cluster: Cluster) -> None:
    broker.acls = dict.fromkeys([acl()])
    assert add_acls(cluster, of(**READ)).problems == ["the cluster has all of these ACLs already"]
    plan = add_acls(cluster, of(**{**READ, "operation": ["READ", "WRITE"]}))
    assert [(line.before, line.note) for line in plan.lines] == [
        ("ALLOW READ", "is there already"),
        (None, ""),
    ]
    plan.apply(cluster)
    assert [*broker.acls] == [acl(), acl(operation=AclOperation.WRITE)]


@pytest.mark.parametrize(
    "given, count, command",
    [
        (
            {"role": "consumer", "topic": "orders", "group": "billing"},
            3,
            "headgate acls add --principal User:alice --operation Read --operation Describe --topic orders",
        ),
        (
            {"role": "producer", "topic": ["a", "b"], "transactional_id": "pay", "idempotent": "true"},
            9,
            "IdempotentWrite",
        ),
        ({"role": "spark", "topic": "ord", "pattern_type": "PREFIXED"}, 4, "--group spark-kafka-relation"),
    ],
    ids=["consumer", "producer", "spark"],
)
def test_roles_have_the_rules_of_the_command(cluster: Cluster, given: dict[str, Any], count: int, command: str) -> None:
    plan = add_acls(cluster, of(principal=" User:alice ", **given))
    assert len(plan.lines) == count
    assert command in plan.command
    assert plan.summary == f"Add {count} ACLs of User:alice"


def test_hosts_and_patterns_are_taken(broker: AclBroker, cluster: Cluster) -> None:
    given = {
        **READ,
        "resource_name": ["ord", "*"],
        "pattern_type": "PREFIXED",
        "host": "10.0.0.0/8",
        "permission": "DENY",
    }
    plan = add_acls(cluster, of(**given))
    assert [line[:3] for line in plan.lines] == [
        ("User:alice: TOPIC prefixed ord", None, "DENY READ from 10.0.0.0/8"),
        ("User:alice: TOPIC *", None, "DENY READ from 10.0.0.0/8"),
    ]
    plan.apply(cluster)
    denial = acl(name="ord", host="10.0.0.0/8", permission=AclPermission.DENY, pattern=PatternType.PREFIXED)
    assert {*broker.acls} == {denial, denial._replace(resource_name="*", pattern_type=PatternType.LITERAL)}
    plan = add_acls(cluster, of(principal="User:b", resource_type="CLUSTER", operation="Alter"))
    assert plan.lines[0].subject == "User:b: CLUSTER"
    plan.apply(cluster)
    assert ALTER._replace(principal="User:b") in broker.acls


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"principal": ""}, "principal: name whom the rule is for"),
        ({"principal": "alice"}, "'alice' is no principal"),
        ({"host": "10.0.0.0/99"}, "10.0.0.0/99"),
        ({"resource_name": " "}, "resource_name: name the resource"),
        ({"resource_type": "SHELF"}, "resource_type: 'SHELF' is none of"),
        ({"operation": []}, "operation: choose at least one"),
        ({"operation": "CREATE_TOKENS"}, "no request needs CREATE_TOKENS on a resource of type TOPIC"),
        ({"role": "king"}, "role=king is not one of"),
        ({"role": "consumer"}, "topic: name the topic of the consumer"),
        ({"role": "consumer", "topic": "a"}, "group: name the group of the consumer"),
        ({"role": "producer", "topic": "a", "permission": "DENY"}, "the rules of a producer allow"),
    ],
    ids=str,
)
def test_wrong_rules_have_a_sentence(cluster: Cluster, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises((BadParameter, UsageError), match=sentence):
        add_acls(cluster, of(**{**READ, **given}))


def test_everybody_denials_and_super_users_are_warned_of(broker: AclBroker, cluster: Cluster) -> None:
    broker.acls = dict.fromkeys([acl(permission=AclPermission.DENY)])
    [no_effect] = add_acls(cluster, of(**READ)).warnings
    assert no_effect.endswith("has no effect: DENY READ on TOPIC:LITERAL:orders to User:alice from * wins")
    everybody = {**READ, "principal": "User:*", "operation": ["READ", "WRITE"]}
    assert add_acls(cluster, of(**everybody)).warnings == ["User:* allows everybody READ, WRITE on TOPIC orders"]
    [super_user] = add_acls(cluster, of(**{**everybody, "principal": "User:admin"})).warnings
    assert super_user.startswith("User:admin is in super.users")


def test_a_denial_and_a_first_rule_take_access(broker: AclBroker, cluster: Cluster) -> None:
    broker.acls = dict.fromkeys([acl("User:bob")])
    denial = add_acls(cluster, of(**{**READ, "principal": "User:*", "permission": "DENY"}))
    assert denial.warnings == [
        "User:* denies everybody but super users READ on TOPIC orders",
        "User:bob loses READ on TOPIC orders",
    ]
    broker.acls, broker.settings["allow.everyone.if.no.acl.found"] = {}, "true"
    warnings = add_acls(cluster, of(**READ)).warnings
    assert any(each.startswith("each principal without rules of its own loses READ") for each in warnings)


def test_what_is_allowed_already_is_a_note(broker: AclBroker, cluster: Cluster) -> None:
    broker.acls = dict.fromkeys([acl(operation=AclOperation.ALL, name="*")])
    [line] = add_acls(cluster, of(**READ)).lines
    assert line.note == "allowed already: ALLOW ALL on TOPIC:LITERAL:* to User:alice from *"


def test_refused_rules_are_failures(broker: AclBroker, cluster: Cluster) -> None:
    plan = add_acls(cluster, of(**READ))
    broker.refused[acl()] = ErrorCode.INVALID_REQUEST
    result = plan.apply(cluster)
    assert result.done == []
    assert "was not added" in result.failures[0]


def test_exactly_the_shown_rules_are_deleted(broker: AclBroker, cluster: Cluster) -> None:
    other = acl(operation=AclOperation.WRITE)
    broker.acls = dict.fromkeys([acl(), other])
    plan = delete_acls(cluster, rows(acl()))
    assert plan.lines == [ChangeLine("User:alice: TOPIC orders", "ALLOW READ", None, "")]
    assert plan.command == (
        "headgate acls remove --principal User:alice --permission allow --host '*' --operation Read --topic orders"
    )
    assert plan.warnings == ["User:alice loses READ on TOPIC orders"]
    assert plan.apply(cluster).done == ["ALLOW READ on TOPIC:LITERAL:orders to User:alice from * is deleted"]
    assert [*broker.acls] == [other]


def test_the_last_rule_that_allows_is_warned_of(broker: AclBroker, cluster: Cluster) -> None:
    broker.acls = dict.fromkeys([acl()])
    assert delete_acls(cluster, rows(acl())).warnings == [
        "no rule allows anybody anything on TOPIC orders then: super users alone get there",
        "User:alice loses READ, DESCRIBE on TOPIC orders",
    ]
    broker.settings["allow.everyone.if.no.acl.found"] = "true"
    [gains, *_] = delete_acls(cluster, rows(acl())).warnings
    assert gains.startswith(("User:alice gains WRITE", "each principal without rules of its own gains"))


def test_a_rule_that_another_one_covers_is_no_loss(broker: AclBroker, cluster: Cluster) -> None:
    broker.acls = dict.fromkeys([acl(), acl(operation=AclOperation.ALL)])
    plan = delete_acls(cluster, rows(acl()))
    assert plan.warnings == []
    assert plan.lines[0].note == "allowed still: ALLOW ALL on TOPIC:LITERAL:orders to User:alice from *"


def test_a_rule_that_is_gone_is_a_problem(cluster: Cluster) -> None:
    [problem] = delete_acls(cluster, rows(acl())).problems
    assert problem.endswith("is not there any more")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"principal": 3}', "[" * 5000], ids=lambda text: text[:9])
def test_what_is_no_rule_is_refused(cluster: Cluster, text: str) -> None:
    with pytest.raises(BadParameter, match="acl"):
        delete_acls(cluster, Parameters([("acl", text)]))
    with pytest.raises(BadParameter, match="acl is missing"):
        delete_acls(cluster, of())


def test_the_own_right_to_alter_is_confirmed(broker: AclBroker, cluster: Cluster) -> None:
    broker.acls = dict.fromkeys([ALTER])
    plan = delete_acls(cluster, rows(ALTER))
    assert plan.warnings[0] == "your own login, User:ANONYMOUS, loses ALTER on the cluster: you cannot undo this change"
    assert plan.confirmation == "User:ANONYMOUS"
    denial = {"principal": "User:*", "permission": "DENY", "resource_type": "CLUSTER", "operation": "ALL"}
    assert add_acls(cluster, of(**denial)).confirmation == "User:ANONYMOUS"


def test_the_own_principal_is_that_of_the_login(broker: AclBroker, cluster: Cluster) -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="x";'
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    rule = ALTER._replace(principal="User:ann")
    broker.acls = dict.fromkeys([ALTER, rule])
    cluster.security = ClientSecurity.of_properties(properties)
    assert delete_acls(cluster, rows(rule)).confirmation == "User:ann"
    assert delete_acls(cluster, rows(ALTER)).confirmation == ""


def test_many_effects_are_counted(broker: AclBroker, cluster: Cluster) -> None:
    rules = [acl(f"User:{number}") for number in range(30)]
    broker.acls = dict.fromkeys([*rules, acl()])
    plan = delete_acls(cluster, rows(*rules))
    assert len(plan.warnings) == 21
    assert plan.warnings[-1] == "and 10 more changes of access"


def test_a_preview_of_too_many_rules_says_so(
    broker: AclBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consequences, "MOST_DECISIONS", 1)
    broker.acls = dict.fromkeys([acl("User:bob"), acl("User:carl")])
    denial = add_acls(cluster, of(**{**READ, "principal": "User:*", "permission": "DENY"}))
    assert denial.warnings[-1].startswith("the ACLs are too many to compare all")


def test_without_an_authorizer_the_sentence_says_what_to_set(broker: AclBroker, cluster: Cluster) -> None:
    broker.error = ErrorCode.SECURITY_DISABLED
    with pytest.raises(ClientError, match=r"set authorizer\.class\.name"):
        add_acls(cluster, of(**READ))
