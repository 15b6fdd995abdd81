"""Documents of the brokers' HTTP listeners: for whom, and what is said of those that do not answer."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from headgate.tools.client.client import ClientError
from headgate.tools.console.broker_http import NO_ADDRESS, NOT_ALLOWED, BrokerHttp, ConsoleCluster
from headgate.tools.console.resources.broker_documents import read_documents
from headgate.tools.console.resources.missing_parts import MissingParts
from headgate.tools.console.resources.tests.answering_cluster import answering_cluster

ALLOWED = DescribeClusterResponse(cluster_authorized_operations=1 << 8)


def read(*addresses: str, told: DescribeClusterResponse = ALLOWED) -> tuple[list[dict[str, Any]] | None, MissingParts]:
    missing = MissingParts()
    with answering_cluster({DescribeClusterRequest: told}) as answering:
        cluster = cast("ConsoleCluster", answering)
        cluster.http = BrokerHttp(addresses)
        return read_documents(cluster, "/v1/x.json", "x", missing), missing


def test_each_listener_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(self: BrokerHttp, address: str, path: str) -> dict[str, Any]:
        if address == "b:2":
            raise ClientError("b:2 is down")
        return {"of": address, "path": path}

    monkeypatch.setattr(BrokerHttp, "json", answer)
    documents, missing = read("b:1", "b:2", "b:3")
    assert documents == [{"of": "b:1", "path": "/v1/x.json"}, {"of": "b:3", "path": "/v1/x.json"}]
    assert missing == {"x": "b:2 is down"}


def test_nothing_is_asked_for_a_visitor_who_may_not() -> None:
    assert read("b:1", told=DescribeClusterResponse(cluster_authorized_operations=0)) == (None, {"x": NOT_ALLOWED})
    assert read() == (None, {"x": NO_ADDRESS})


def test_a_broker_that_refuses_the_question_allows_nothing() -> None:
    documents, missing = read("b:1", told=DescribeClusterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert documents is None
    assert "CLUSTER_AUTHORIZATION_FAILED" in missing["x"]
