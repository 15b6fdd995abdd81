"""Output and exit codes of `headgate acls`."""

from __future__ import annotations

import pytest

from headgate.tools import output
from headgate.tools.acls.tests.acl_broker import AclBroker, acl
from headgate.tools.client.client import ClientError
from headgate.tools.tests.command_output import Run


def test_a_table_has_a_line_for_each_rule(run: Run, broker: AclBroker) -> None:
    broker.acls = dict.fromkeys([acl()])
    assert [line.split() for line in run("list", "--table").out.splitlines()] == [
        ["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "TYPE", "RESOURCE", "NAME", "PATTERN", "TYPE", "HOST"],
        ["User:alice", "ALLOW", "READ", "TOPIC", "orders", "LITERAL", "*"],
    ]


def test_no_rules_are_no_output_and_success(run: Run) -> None:
    shown = run("list", "--table")
    assert (shown.code, shown.out, shown.errors) == (0, "", [])


def test_a_broker_that_does_not_answer_is_a_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ClientError("no broker answers at x:1")

    monkeypatch.setattr(output, "Cluster", refuse)
    shown = run("list")
    assert (shown.code, shown.errors) == (1, ["no broker answers at x:1"])
