"""list, add and remove: what is asked of the broker, what is shown, and what is said of failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_acls import CreateAclsRequest
from headgate.protocol.messages.delete_acls import DeleteAclsRequest
from headgate.protocol.messages.describe_acls import DescribeAclsRequest
from headgate.tools.acls import actions
from headgate.tools.acls.rows import row_of
from headgate.tools.acls.tests.acl_broker import AclBroker, acl
from headgate.tools.tests.command_output import Run

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
PREFIXED = PatternType.PREFIXED


def test_list_shows_all_rules_in_order(run: Run, broker: AclBroker) -> None:
    broker.acls = dict.fromkeys([acl(name="b"), acl("User:bob", WRITE, "a"), acl(name="a")])
    shown = run("list")
    assert [(row["resource_name"], row["principal"]) for row in shown.rows] == [
        ("a", "User:alice"),
        ("a", "User:bob"),
        ("b", "User:alice"),
    ]
    assert shown.rows[0] == {
        "principal": "User:alice",
        "permission": "ALLOW",
        "operation": "READ",
        "resource_type": "TOPIC",
        "resource_name": "a",
        "pattern_type": "LITERAL",
        "host": "*",
    }


def test_list_of_a_topic_has_prefixes_and_wildcards(run: Run, broker: AclBroker) -> None:
    wanted = [acl(name="*"), acl(name="ord", pattern=PREFIXED), acl(name="orders")]
    broker.acls = dict.fromkeys([*wanted, acl(name="other"), acl(name="orders", resource=AclResource.GROUP)])
    assert run("list", "--topic", "orders").rows == [row_of(each) for each in wanted]
    literal = run("list", "--topic", "orders", "--resource-pattern-type", "literal").rows
    assert [row["resource_name"] for row in literal] == ["orders"]


def test_list_filters_by_principal_and_permission(run: Run, broker: AclBroker) -> None:
    denied = acl("User:bob", permission=AclPermission.DENY)
    broker.acls = dict.fromkeys([acl(), acl("User:bob"), denied])
    assert run("list", "--principal", "User:bob", "--permission", "deny").rows == [row_of(denied)]


def test_list_of_the_cluster(run: Run, broker: AclBroker) -> None:
    broker.acls = dict.fromkeys([acl(), acl(name="kafka-cluster", resource=AclResource.CLUSTER)])
    assert [row["resource_type"] for row in run("list", "--cluster").rows] == ["CLUSTER"]


def test_add_says_which_rules_are_new(run: Run, broker: AclBroker) -> None:
    broker.acls = dict.fromkeys([acl()])
    arguments = ("--principal", "User:alice", "--operation", "read", "--operation", "Write", "--topic", "orders")
    shown = run("add", *arguments)
    assert [(row["operation"], row["added"]) for row in shown.rows] == [("READ", False), ("WRITE", True)]
    assert [*broker.acls] == [acl(), acl(operation=WRITE)]


def test_a_dry_run_of_add_changes_nothing(run: Run, broker: AclBroker) -> None:
    shown = run("add", "--principal", "User:alice", "--topic", "orders", "--dry-run")
    assert [(row["operation"], row["would_be_added"]) for row in shown.rows] == [("ALL", True)]
    assert not broker.acls


def test_a_refused_rule_is_named(run: Run, broker: AclBroker) -> None:
    broker.refused[acl(operation=WRITE)] = ErrorCode.INVALID_REQUEST
    shown = run("add", "--producer", "--principal", "User:alice", "--topic", "orders")
    assert shown.code == 1
    [error] = shown.errors
    assert error.startswith("ALLOW WRITE on TOPIC:LITERAL:orders to User:alice from * was not added: ")
    assert len(broker.acls) == 2


def test_many_rules_go_in_several_requests(run: Run, broker: AclBroker, tmp_path: Path, monkeypatch: object) -> None:
    names = [f"t{number}" for number in range(actions.RULES_AT_ONCE + 1)]
    arguments = [argument for name in names for argument in ("--topic", name)]
    assert run("add", "--principal", "User:alice", *arguments).code == 0
    sizes = [len(request.creations) for request in broker.asked if isinstance(request, CreateAclsRequest)]
    assert sizes == [actions.RULES_AT_ONCE, 1]


def test_rules_of_a_list_are_added_and_removed_again(run: Run, broker: AclBroker, tmp_path: Path) -> None:
    acls = [acl(), acl("User:bob", DESCRIBE, "g", resource=AclResource.GROUP, pattern=PREFIXED, host="10.0.0.0/8")]
    broker.acls = dict.fromkeys([*acls, acl(name="kept")])
    path = tmp_path / "acls.jsonl"
    listed = [*run("list", "--topic", "orders").out.splitlines(), *run("list", "--group", "g").out.splitlines()]
    path.write_text("\n".join(listed))
    assert len(run("remove", "--file", str(path), "--dry-run").rows) == 2
    assert len(broker.acls) == 3
    assert len(run("remove", "--file", str(path)).rows) == 2
    assert [*broker.acls] == [acl(name="kept")]
    assert run("add", "--file", str(path)).code == 0
    assert set(broker.acls) == {*acls, acl(name="kept")}


def rules_file(path: Path, acls: list[AclBinding]) -> str:
    path.write_text("\n".join(json.dumps(row_of(each)) for each in acls))
    return str(path)


def test_a_dry_run_of_a_file_asks_the_broker_once(run: Run, broker: AclBroker, tmp_path: Path) -> None:
    acls = [acl(name=f"t{number}") for number in range(3)]
    broker.acls = dict.fromkeys([*acls[1:], acl(name="kept")])
    shown = run("remove", "--file", rules_file(tmp_path / "acls.jsonl", [*acls, acls[1]]), "--dry-run")
    assert [(row["resource_name"], row["would_be_removed"]) for row in shown.rows] == [("t1", True), ("t2", True)]
    assert [type(request) for request in broker.asked] == [DescribeAclsRequest]


def test_many_rules_of_a_file_go_in_several_requests(run: Run, broker: AclBroker, tmp_path: Path) -> None:
    acls = [acl(name=f"t{number}") for number in range(actions.RULES_AT_ONCE + 1)]
    broker.acls = dict.fromkeys([*acls[-2:], acl(name="kept")])
    shown = run("remove", "--file", rules_file(tmp_path / "acls.jsonl", acls))
    assert (shown.code, len(shown.rows), [*broker.acls]) == (0, 2, [acl(name="kept")])
    sizes = [len(request.filters) for request in broker.asked if isinstance(request, DeleteAclsRequest)]
    assert sizes == [actions.RULES_AT_ONCE, 1]


def test_removed_rules_are_shown_if_a_later_request_fails(
    run: Run, broker: AclBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "RULES_AT_ONCE", 1)
    acls = [acl(name="a"), acl(name="b")]
    broker.acls = dict.fromkeys(acls)
    answers = iter([broker.ask_any])

    def lose_the_second(key: str, ask: Any) -> Any:
        answer = next(answers, None)
        return ({}, {key: Failure(ErrorCode.NONE, "the connection is lost")}) if answer is None else answer(key, ask)

    monkeypatch.setattr(broker, "ask_any", lose_the_second)
    shown = run("remove", "--file", rules_file(tmp_path / "acls.jsonl", acls))
    assert (shown.code, [row["resource_name"] for row in shown.rows]) == (1, ["a"])
    assert shown.errors == ["the other rules were not removed: the connection is lost"]


def test_added_rules_are_shown_if_a_later_request_fails(
    run: Run, broker: AclBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "RULES_AT_ONCE", 1)
    acls = [acl(name="a"), acl(name="b"), acl(name="c")]
    answers = iter([broker.ask_any, broker.ask_any])  # the question for all rules, and the first rule

    def lose_the_third(key: str, ask: Any) -> Any:
        answer = next(answers, None)
        return ({}, {key: Failure(ErrorCode.NONE, "the connection is lost")}) if answer is None else answer(key, ask)

    monkeypatch.setattr(broker, "ask_any", lose_the_third)
    shown = run("add", "--file", rules_file(tmp_path / "acls.jsonl", acls))
    assert (shown.code, [row["resource_name"] for row in shown.rows], [*broker.acls]) == (1, ["a"], acls[:1])
    assert shown.errors == [f"{rule} was not added: the connection is lost" for rule in acls[1:]]


def test_remove_takes_exactly_the_named_pattern(run: Run, broker: AclBroker) -> None:
    kept = [acl(name="*"), acl(name="ord", pattern=PREFIXED)]
    broker.acls = dict.fromkeys([*kept, acl()])
    shown = run("remove", "--topic", "orders")
    assert [row["removed"] for row in shown.rows] == [True]
    assert [*broker.acls] == kept


def test_remove_without_a_filter_is_refused(run: Run, broker: AclBroker) -> None:
    broker.acls = dict.fromkeys([acl()])
    shown = run("remove")
    assert shown.code == 1
    assert shown.errors == ["name the rules: by --topic, --principal, ...; --all removes every rule of the cluster"]
    assert not any(isinstance(request, DeleteAclsRequest) for request in broker.asked)
    assert run("remove", "--all").code == 0
    assert not broker.acls


def test_a_rule_that_cannot_be_removed_is_named(run: Run, broker: AclBroker) -> None:
    broker.acls = dict.fromkeys([acl()])
    broker.refused[acl()] = ErrorCode.UNKNOWN_SERVER_ERROR
    shown = run("remove", "--topic", "orders")
    assert (shown.code, shown.rows) == (1, [])
    assert "User:alice from * was not removed" in shown.errors[0]


def test_a_broker_without_an_authorizer_names_the_setting(run: Run, broker: AclBroker) -> None:
    broker.error = ErrorCode.SECURITY_DISABLED
    for arguments in (["list"], ["add", "--principal", "User:a", "--topic", "t"], ["remove", "--topic", "t"]):
        shown = run(*arguments)
        assert shown.code == 1
        assert "set authorizer.class.name" in shown.errors[0]


def test_a_refused_principal_learns_what_is_needed(run: Run, broker: AclBroker) -> None:
    broker.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert "super.users" in run("list").errors[0]
