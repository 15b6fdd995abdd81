"""`headgate acls suggest`: command lines and rows from audit logs, less what the ACLs allow by now."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pytest

from headgate.tools.acls.rows import read_file
from headgate.tools.acls.tests.acl_broker import AclBroker, acl
from headgate.tools.acls.tests.test_suggestions import line
from headgate.tools.tests.command_output import Run


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "audit.log"
    bob = {"principal": "User:bob", "resource_name": "bills"}
    path.write_text("\n".join([line(), line(**bob), line(**bob, operation="WRITE"), '{"torn']))
    return str(path)


def test_command_lines_go_principal_by_principal(run: Run, log: str) -> None:
    shown = run("suggest", log)
    assert shown.code == 0
    assert shown.out.splitlines() == [
        "# User:alice",
        "headgate acls add --principal User:alice --operation Read --topic orders",
        "",
        "# User:bob",
        "headgate acls add --principal User:bob --operation Read --operation Write --topic bills",
    ]
    assert shown.errors == [f"{log}: 1 lines are no events of an audit log"]


def test_lines_of_kafkas_tool(run: Run, log: str) -> None:
    lines = run("suggest", log, "--kafka-acls", "--bootstrap-server", "h:9092").out.splitlines()
    assert lines[1] == (
        "kafka-acls --add --bootstrap-server h:9092 --allow-principal User:alice --operation Read --topic orders"
    )


def test_rows_are_added_from_a_file_and_nothing_is_missing_then(
    run: Run, broker: AclBroker, log: str, tmp_path: Path
) -> None:
    path = tmp_path / "acls.jsonl"
    path.write_text(run("suggest", log, "--json").out)
    assert len(read_file(str(path))) == 3
    assert run("add", "--file", str(path)).code == 0
    shown = run("suggest", log)
    assert shown.out == ""
    assert "3 of 3 observed operations are allowed by now" in shown.errors
    assert shown.errors[-1] == "no rule is missing"
    assert len(run("suggest", log, "--json", "--all").rows) == 3


def test_without_a_broker_all_is_shown(run: Run, broker: AclBroker, log: str) -> None:
    broker.acls = dict.fromkeys([acl()])
    assert "# User:alice" in run("suggest", log, "--all").out
    assert broker.asked == []
    assert "# User:alice" not in run("suggest", log).out


def test_prefixes_and_addresses(run: Run, log: str) -> None:
    rows = run("suggest", log, "--json", "--topic-prefix", "bill", "--by-host").rows
    assert {(row["resource_name"], row["pattern_type"], row["host"]) for row in rows} == {
        ("orders", "LITERAL", "10.0.0.1"),
        ("bill", "PREFIXED", "10.0.0.1"),
    }
    assert "would mean every name" in run("suggest", log, "--group-prefix", "").errors[0]


def test_a_log_without_observations_names_the_mode(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text(line(event="login"))
    shown = run("suggest", str(path))
    assert "headgate.authorizer.mode=observe" in shown.errors[0]
    assert run("suggest", str(tmp_path / "none")).errors == [
        f"{tmp_path}/none cannot be read: No such file or directory; name the file of headgate.audit.log"
    ]


def test_a_long_log_is_read_line_by_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with path.open("w") as log:
        log.writelines([line(), "\n"] * 1000)
        log.writelines(f"{'x' * 1000}\n" for _ in range(4000))
    tracemalloc.start()
    try:
        assert run("suggest", str(path), "--all").code == 0
        assert tracemalloc.get_traced_memory()[1] < path.stat().st_size / 4
    finally:
        tracemalloc.stop()


def test_a_torn_character_on_standard_input_is_no_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"\xc3\n" + line().encode()), "ascii")
    monkeypatch.setattr("sys.stdin", stdin)
    shown = run("suggest", "-", "--all")
    assert shown.out.splitlines()[0] == "# User:alice"
    assert shown.errors == ["-: 1 lines are no events of an audit log"]
