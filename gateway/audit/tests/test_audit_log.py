"""What is reported becomes a line, within the bounds on a peer."""

from __future__ import annotations

from headgate.gateway.audit.audit_log import api_name
from headgate.gateway.audit.repeat_limits import INTERVAL_MS
from headgate.gateway.audit.tests.audited import PEER, Audited
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.security.acls.authorizer import Asked
from headgate.protocol.acls import AclOperation, AclResource
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest
from headgate.protocol.messages.fetch import FetchRequest

READ, TOPIC = AclOperation.READ, AclResource.TOPIC


def test_logins_and_their_failures() -> None:
    audited = Audited()
    audited.log.report_login(PEER, "SCRAM-SHA-512")
    audited.log.report_login(PEER, "SCRAM-SHA-512", is_renewal=True)
    audited.log.report_failed_login(PEER, "Invalid client credentials", "bob")
    assert [(line["event"], line.get("renewal"), line.get("user")) for line in audited.lines] == [
        ("login", False, None),
        ("login", True, None),
        ("login_failed", None, "bob"),
    ]


def test_repeated_refusals_are_counted() -> None:
    audited = Audited()
    for _ in range(5):
        audited.log.report_refusal(PEER, FetchRequest, READ, TOPIC, "t")
    audited.log.report_refusal(PEER, FetchRequest, READ, TOPIC, None)
    audited.time.advance(INTERVAL_MS)
    first, other, suppressed = audited.lines
    assert (first["api"], first["operation"], first["resource_type"], first["resource_name"]) == (
        "Fetch",
        "READ",
        "TOPIC",
        "t",
    )
    assert other["resource_name"] is None
    assert suppressed == {
        "time": suppressed["time"],
        "event": "suppressed",
        "principal": "User:alice",
        "address": "10.0.0.1",
        "of": "refused",
        "count": 4,
    }
    audited.log.report_refusal(PEER, FetchRequest, READ, TOPIC, "t")
    assert len(audited.lines) == 4


def test_a_stop_reports_what_was_suppressed() -> None:
    audited = Audited()
    for _ in range(2):
        audited.log.report_failed_login(PEER, "reason")
    audited.log.close()
    assert audited.lines[-1]["count"] == 1


def test_observed_refusals_have_no_bound_here() -> None:
    audited = Audited()
    for number in range(200):
        audited.log.report_observed(PEER, Asked("User:alice", "10.0.0.1", READ, TOPIC, f"t{number}"))
    assert len(audited.lines) == 200
    assert audited.lines[0]["event"] == "would_be_refused"
    assert "api" not in audited.lines[0]


def test_changes_are_computed_by_the_thread() -> None:
    audited = Audited()
    held = audited.time.scheduler.hold()
    asked: list[int] = []

    def changes() -> list[dict[str, object]]:
        asked.append(1)
        return [{"before": 1, "after": None}]

    audited.log.report_changes(PEER, DeleteTopicsRequest, changes)
    assert asked == []
    held.run_all()
    assert audited.lines[0] | {"time": ""} == {
        "time": "",
        "event": "changed",
        "principal": "User:alice",
        "address": "10.0.0.1",
        "client_id": "app",
        "listener": "CLIENTS",
        "api": "DeleteTopics",
        "before": 1,
        "after": None,
    }


def test_lines_are_counted_by_metrics() -> None:
    audited, metrics = Audited(), Metrics()
    audited.log.measure(metrics)
    audited.log.report_login(PEER, "PLAIN")
    assert audited.file.written == 1
    assert api_name(FetchRequest) == "Fetch"
