"""Connections in the console: of all brokers, and only for visitors who may see them."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from headgate.tools.client.client import ClientError
from headgate.tools.console.broker_http import NOT_ALLOWED, BrokerHttp
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources import clients
from headgate.tools.console.resources.tests.answering_cluster import answering_cluster

DESCRIBE = 1 << 8


def connection(client_id: str) -> dict[str, Any]:
    counters = {"in_bytes": 0, "out_bytes": 0, "requests": 0}
    return {"client_id": client_id, "address": "::1", "port": 1, "opened_ms": 0, **counters}


class Brokers(BrokerHttp):
    """`answers` by address; an error is raised."""

    def __init__(self, answers: dict[str, dict[str, Any] | ClientError]) -> None:
        super().__init__(list(answers))
        self.answers = answers

    def json(self, address: str, path: str) -> dict[str, Any]:
        assert path == "/v1/connections.json"
        answer = self.answers[address]
        if isinstance(answer, ClientError):
            raise answer
        return answer


def told(node_id: int, *client_ids: str, omitted: int = 0) -> dict[str, Any]:
    rows = [connection(client_id) for client_id in client_ids]
    return {"node_id": node_id, "measured_ms": 1, "omitted": omitted, "connections": rows}


def ask(http: BrokerHttp, operations: int = DESCRIBE) -> Any:
    answer = DescribeClusterResponse(cluster_authorized_operations=operations)
    with answering_cluster({DescribeClusterRequest: answer}) as cluster:
        cluster.http = http  # type: ignore[attr-defined]
        return clients.connections(cluster, Parameters())  # type: ignore[arg-type]


def test_connections_of_all_brokers() -> None:
    shown = ask(Brokers({"a:1": told(0, "shop", "billing"), "b:1": told(1, "audit", omitted=5)}))
    assert [(row["broker"], row["client_id"]) for row in shown["connections"]] == [
        (0, "shop"),
        (0, "billing"),
        (1, "audit"),
    ]
    assert (shown["omitted"], shown["missing"]) == (5, {})


def test_a_broker_that_does_not_answer_is_named() -> None:
    shown = ask(Brokers({"a:1": told(0, "shop"), "b:1": ClientError("b:1 is down")}))
    assert [row["client_id"] for row in shown["connections"]] == ["shop"]
    assert shown["missing"] == {"connections": "b:1 is down"}
    shown = ask(Brokers({"b:1": ClientError("b:1 is down")}))
    assert (shown["connections"], shown["missing"]) == (None, {"connections": "b:1 is down"})


def test_without_describe_on_the_cluster_nothing_is_shown() -> None:
    """Not asked for either: the answer may be of another visitor."""
    shown = ask(Brokers({"a:1": AssertionError("asked")}), operations=0)  # type: ignore[dict-item]
    assert (shown["connections"], shown["missing"]) == (None, {"connections": NOT_ALLOWED})


def test_without_an_address_the_reason_says_how() -> None:
    assert "--http" in ask(BrokerHttp())["missing"]["connections"]


def test_an_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_ROWS", 1)
    shown = ask(Brokers({"a:1": told(0, "x", "y", omitted=2)}))
    assert (len(shown["connections"]), shown["omitted"]) == (1, 3)
