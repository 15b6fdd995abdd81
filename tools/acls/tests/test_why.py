"""The rule that decides, and its cure, in a sentence and as a row."""

from __future__ import annotations

import pytest

from headgate.protocol.acls import AclOperation, AclPermission, PatternType
from headgate.tools.acls.rows import row_of
from headgate.tools.acls.tests.acl_broker import AclBroker, acl
from headgate.tools.tests.command_output import Run

DENY, PREFIXED = AclPermission.DENY, PatternType.PREFIXED


def why(run: Run, *more: str, principal: str = "User:alice", operation: str = "read") -> tuple[str, list[str]]:
    shown = run("why", "--principal", principal, "--operation", operation, "--topic", "orders", "--table", *more)
    return shown.out.strip(), shown.errors


def test_an_allowing_rule_is_named(run: Run, broker: AclBroker) -> None:
    rule = acl(name="ord", pattern=PREFIXED)
    broker.acls = dict.fromkeys([rule])
    sentence = (
        "User:alice may READ TOPIC orders: an ACL allows it: ALLOW READ on TOPIC:PREFIXED:ord to User:alice from *"
    )
    assert why(run) == (sentence, [])
    [row] = run("why", "--principal", "User:alice", "--operation", "read", "--topic", "orders").rows
    assert (row["allowed"], row["implied_by"], row["acl"]) == (True, None, row_of(rule))


def test_an_implied_operation_is_explained(run: Run, broker: AclBroker) -> None:
    broker.acls = dict.fromkeys([acl()])
    assert why(run, operation="describe")[0].endswith("from *; READ implies DESCRIBE")


def test_a_denial_wins_and_its_rule_is_named(run: Run, broker: AclBroker) -> None:
    broker.acls = dict.fromkeys([acl(), acl("User:*", permission=DENY)])
    text, notes = why(run)
    assert text.startswith("User:alice may not READ TOPIC orders: an ACL denies it: DENY READ")
    assert "headgate acls add --principal 'User:*' --deny --operation Read --topic orders" in notes[0]


def test_super_users_are_read_from_the_broker(run: Run) -> None:
    for principal in ("User:admin", "User:CN=broker,O=x"):
        assert why(run, principal=principal)[0] == f"{principal} may READ TOPIC orders: the principal is in super.users"


def test_a_name_of_a_certificate_that_differs_in_spelling_is_noted(run: Run, broker: AclBroker) -> None:
    broker.acls = dict.fromkeys([acl("User:CN=app,O=x"), acl("User:*", name="other")])
    note = "an ACL names 'User:CN=app,O=x', which differs in spaces; every letter counts"
    assert why(run, principal="User:CN=app, O=x")[1][1:] == [note]
    note = "super.users names 'User:CN=broker,O=x', which differs in the order of its parts; every letter counts"
    assert why(run, principal="User:O=x,CN=broker")[1][1:] == [note]


def test_a_resource_without_rules_follows_the_setting(run: Run, broker: AclBroker) -> None:
    text, notes = why(run)
    assert text.startswith("User:alice may not READ TOPIC orders: the resource has no ACL")
    assert notes == ["`headgate acls add --principal User:alice --operation Read --topic orders` allows it"]
    broker.settings["allow.everyone.if.no.acl.found"] = "true"
    assert why(run)[0].startswith("User:alice may READ TOPIC orders: the resource has no ACL")


def test_rules_for_a_host_need_the_host(run: Run, broker: AclBroker) -> None:
    broker.acls = dict.fromkeys([acl(host="10.0.0.0/8")])
    text, notes = why(run)
    assert "may not" in text
    assert "rules for the hosts 10.0.0.0/8 exist; ask with --host" in notes
    assert why(run, "--host", "10.1.2.3")[0].startswith("User:alice from 10.1.2.3 may READ")


def test_a_broker_without_an_authorizer_allows_everything(run: Run, broker: AclBroker) -> None:
    broker.settings["authorizer.class.name"] = ""
    assert why(run) == ("", ["authorizer.class.name is not set: every client may do everything"])


def test_hidden_super_users_are_noted(run: Run, broker: AclBroker) -> None:
    broker.settings["super.users"] = None
    assert why(run)[1][0].startswith("the broker hides super.users")


def test_observing_is_noted(run: Run, broker: AclBroker) -> None:
    broker.settings["headgate.authorizer.mode"] = "observe"
    assert "nothing is refused yet" in why(run)[1][0]


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ([], "name the resource"),
        (["--group", "g"], "no request needs WRITE on a resource of type GROUP"),
    ],
)
def test_a_question_without_an_answer_is_refused(run: Run, arguments: list[str], sentence: str) -> None:
    shown = run("why", "--principal", "User:a", "--operation", AclOperation.WRITE.name, *arguments)
    assert shown.code == 1
    assert sentence in shown.errors[0]
