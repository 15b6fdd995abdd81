"""The rules and filters that options mean; wrong options are refused in a sentence."""

from __future__ import annotations

import pytest

from headgate.tools.acls.tests.acl_broker import AclBroker
from headgate.tools.tests.command_output import Run

ALICE = ("--principal", "User:alice")


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--topic", "t"], "name whom the rule is for"),
        ([*ALICE], "name a resource"),
        ([*ALICE, "--topic", "t", "--operation", "ClusterAction"], "no request needs CLUSTER_ACTION on a resource"),
        ([*ALICE, "--producer"], "--producer needs --topic"),
        ([*ALICE, "--consumer", "--topic", "t"], "--consumer needs --group"),
        ([*ALICE, "--producer", "--topic", "t", "--deny"], "leave --operation and --deny out"),
        ([*ALICE, "--spark", "--topic", "t", "--operation", "read"], "leave --operation and --deny out"),
        ([*ALICE, "--spark", "--topic", "t", "--cluster"], "add other rules on their own"),
        ([*ALICE, "--topic", "t", "--idempotent"], "--idempotent goes with --producer"),
    ],
)
def test_rules_that_mean_nothing_are_refused(run: Run, broker: AclBroker, arguments: list[str], sentence: str) -> None:
    shown = run("add", *arguments)
    assert shown.code == 1
    assert sentence in shown.errors[0]
    assert not broker.acls


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["add", "--principal", "alice", "--topic", "t"], "'alice' is no principal"),
        (["add", *ALICE, "--topic", "t", "--operation", "raed"], "'raed' is none of ALL, READ"),
        (["add", *ALICE, "--topic", "t", "--operation", "any"], "'any' is none of"),
        (["add", *ALICE, "--topic", "t", "--host", "10.0.0.0/99"], "10.0.0.0/99"),
        (["add", *ALICE, "--topic", "t", "--host", ""], "a host is an address"),
        (["why", *ALICE, "--topic", "t"], "--operation"),
    ],
)
def test_words_that_mean_nothing_are_refused(
    run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    with pytest.raises(SystemExit) as end:
        run(*arguments)
    assert end.value.code == 2
    assert sentence in capsys.readouterr().err


def test_each_principal_host_and_resource_gets_each_rule(run: Run) -> None:
    hosts = ("--host", "10.0.0.1", "--host", "10.1.0.0/16")
    resources = ("--topic", "a", "--group", "g", "--resource-pattern-type", "prefixed")
    rows = run("add", *ALICE, "--principal", "User:bob", *hosts, *resources, "--operation", "describe").rows
    assert len(rows) == 8
    assert {row["pattern_type"] for row in rows} == {"PREFIXED"}


def test_a_star_is_literal_as_is_the_cluster(run: Run) -> None:
    arguments = ("--topic", "*", "--cluster", "--resource-pattern-type", "prefixed")
    rows = run("add", *ALICE, *arguments).rows
    assert [(row["resource_name"], row["pattern_type"]) for row in rows] == [
        ("*", "LITERAL"),
        ("kafka-cluster", "LITERAL"),
    ]


def test_a_denial_is_added(run: Run) -> None:
    [row] = run("add", *ALICE, "--deny", "--operation", "delete", "--topic", "t").rows
    assert (row["permission"], row["operation"]) == ("DENY", "DELETE")
