"""Connections that write or read one topic."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headgate.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from headgate.tools.console.broker_http import NO_ADDRESS, BrokerHttp, ConsoleCluster
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.tests.answering_cluster import answering_cluster
from headgate.tools.console.resources.topics.topic_connections import topic_connections
from headgate.tools.output import Row

ROW: dict[str, Any] = {
    "principal": "User:ANONYMOUS",
    "software_name": None,
    "software_version": None,
    "address": "10.0.0.1",
    "listener": "PLAINTEXT",
    "opened_ms": 1000,
    "is_broker": False,
    "is_throttled": False,
    "in_bytes": 1,
    "out_bytes": 2,
    "requests": 3,
    "apis": [],
}


def connection(client_id: str, written: list[str], read: list[str]) -> dict[str, Any]:
    return {**ROW, "client_id": client_id, "port": len(client_id), "topics_written": written, "topics_read": read}


def ask(*addresses: str) -> Row:
    allowed = DescribeClusterResponse(cluster_authorized_operations=1 << 8)
    with answering_cluster({DescribeClusterRequest: allowed}) as answering:
        cluster = cast("ConsoleCluster", answering)
        cluster.http = BrokerHttp(addresses)
        return topic_connections(cluster, Parameters([("topic", "orders")]))


def test_only_connections_with_the_topic_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        connection("writer", ["orders", "b"], []),
        connection("reader!", [], ["orders"]),
        connection("both", ["orders"], ["orders"]),
        connection("other", ["orders2"], ["b"]),
    ]
    document = {"node_id": 3, "measured_ms": 5, "omitted": 0, "connections": rows}
    monkeypatch.setattr(BrokerHttp, "json", lambda *_: document)
    answer = ask("b:1")
    assert [(row["client_id"], row["writes"], row["reads"], row["broker"]) for row in answer["connections"]] == [
        ("writer", True, False, 3),
        ("reader!", False, True, 3),
        ("both", True, True, 3),
    ]
    assert "apis" not in answer["connections"][0]


def test_without_listeners_there_is_a_reason() -> None:
    assert ask() == {"connections": None, "omitted": None, "missing": {"connections": NO_ADDRESS}}
