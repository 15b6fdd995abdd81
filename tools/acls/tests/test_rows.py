"""Rules as rows, as lines of files, and as the command lines that add them."""

from __future__ import annotations

import argparse
import io
import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.tests.examples import share
from headgate.tools.acls import options, rows
from headgate.tools.acls.tests.acl_broker import acl
from headgate.tools.output import UsageError

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
BINDINGS = st.builds(
    AclBinding,
    st.sampled_from([AclResource.TOPIC, AclResource.GROUP, AclResource.TRANSACTIONAL_ID]),
    NAMES.filter(lambda name: name != "*" and not name.startswith("-")),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    NAMES.map("User:{}".format),
    st.sampled_from(["*", "10.0.0.1", "10.0.0.0/8"]),
    st.sampled_from([AclOperation.DESCRIBE, AclOperation.ALL]),
    st.sampled_from([AclPermission.ALLOW, AclPermission.DENY]),
)


@given(BINDINGS)
def test_a_row_is_read_again(binding: AclBinding) -> None:
    assert rows.binding_of(json.loads(json.dumps(rows.row_of(binding)))) == binding


@settings(max_examples=share(50))
@given(st.lists(BINDINGS, max_size=4))
def test_the_command_lines_add_exactly_the_rules(bindings: list[AclBinding]) -> None:
    parser = argparse.ArgumentParser()
    options.add_rule_options(parser)
    added: list[AclBinding] = []
    for line in rows.command_lines(dict.fromkeys(bindings)):
        words = shlex.split(line)
        assert words[:3] == ["headgate", "acls", "add"]
        added += options.rules_of(parser.parse_args(words[3:]))
    assert set(added) == set(bindings)
    assert len(added) == len(set(bindings))


@settings(max_examples=share(50))
@given(BINDINGS, BINDINGS)
def test_a_removal_line_means_exactly_its_rule(binding: AclBinding, other: AclBinding) -> None:
    parser = argparse.ArgumentParser()
    options.add_filter_options(parser, default_pattern="literal")
    [line] = rows.removal_lines([binding])
    [wanted] = options.filters_of(parser.parse_args(shlex.split(line.removeprefix("headgate acls remove"))))
    assert wanted.matches(binding)
    assert wanted.matches(other) == (other == binding)


def test_command_lines_of_kafka_name_principals_and_hosts_by_permission() -> None:
    lines = rows.kafka_command_lines(
        [
            acl(),
            acl(operation=AclOperation.WRITE),
            acl("User:CN=a b", host="10.0.0.1", permission=AclPermission.DENY, pattern=PatternType.PREFIXED),
            acl(operation=AclOperation.IDEMPOTENT_WRITE, name="kafka-cluster", resource=AclResource.CLUSTER),
        ],
        "h:9092",
    )
    start = "kafka-acls --add --bootstrap-server h:9092"
    denial = "--deny-principal 'User:CN=a b' --deny-host 10.0.0.1 --operation Read --topic orders"
    assert lines == [
        f"{start} --allow-principal User:alice --operation Read --operation Write --topic orders",
        f"{start} {denial} --resource-pattern-type prefixed",
        f"{start} --allow-principal User:alice --operation IdempotentWrite --cluster",
    ]


@pytest.mark.parametrize("text", ["TransactionalId", "transactional_id", "TRANSACTIONAL-ID"])
def test_names_are_read_in_every_form(text: str) -> None:
    assert rows.constant(AclResource, text) is AclResource.TRANSACTIONAL_ID


@pytest.mark.parametrize(
    "line, sentence",
    [
        ("no json", "line 2: it is no JSON object"),
        ("[" * 100_000, "line 2: it is no JSON object"),
        ('["a"]', "line 2: it is no JSON object"),
        ('{"principal": "User:a"}', "line 2: the field 'operation' is missing"),
        ('{"principal": 5}', "line 2: the field 'principal' is missing, or no text"),
        ('{"principle": "User:a"}', "line 2: 'principle' is no field of an ACL"),
    ],
)
def test_a_wrong_line_of_a_file_is_named(tmp_path: Path, line: str, sentence: str) -> None:
    path = tmp_path / "acls"
    path.write_text(f"\n{line}\n")
    with pytest.raises(UsageError, match=sentence):
        rows.read_file(str(path))


def test_a_wrong_word_of_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "acls"
    path.write_text(json.dumps({**rows.row_of(acl()), "operation": "RAED"}))
    with pytest.raises(UsageError, match="line 1: 'RAED' is none of ALL, READ"):
        rows.read_file(str(path))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        rows.read_file(str(tmp_path / "none"))
    path = tmp_path / "bytes"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="no text in UTF-8"):
        rows.read_file(str(path))


def test_rules_are_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(rows.row_of(acl()))))
    assert rows.read_file("-") == [acl()]
