"""HTTP listeners of brokers: what is no JSON is refused, and who may see it is the broker's own rule."""

from __future__ import annotations

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from headgate.tools import metrics
from headgate.tools.client.client import ClientError
from headgate.tools.console.broker_http import (
    PAUSE_S,
    QUICK_S,
    TIMEOUT_S,
    BadHttpAddress,
    BrokerHttp,
    may_describe_cluster,
    parse_http_addresses,
)
from headgate.tools.console.resources.tests.answering_cluster import answering_cluster

DESCRIBE, ALTER = 1 << 8, 1 << 7


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(
        metrics, "read", lambda host, port, timeout_s, *, path, accepted: text.replace("PATH", f"{host}{path}")
    )


def test_json_of_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, '{"asked": "PATH"}')
    assert BrokerHttp(["127.0.0.1:1"]).json("127.0.0.1:1", "/v1/x.json") == {"asked": "127.0.0.1/v1/x.json"}


@pytest.mark.parametrize("text", ["<html>", "[1]", "[" * 100_000, ""])
def test_what_is_no_object_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    answer(monkeypatch, text)
    with pytest.raises(ClientError, match="is it an HTTP listener of Headgate"):
        BrokerHttp().json("127.0.0.1:1", "/v1/x.json")


def test_a_listener_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise metrics.ReadError("nobody listens")

    monkeypatch.setattr(metrics, "read", refuse)
    with pytest.raises(ClientError, match="nobody listens"):
        BrokerHttp().json("127.0.0.1:1", "/v1/x.json")


def test_a_broker_that_hangs_is_asked_seldom_and_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    clock, hangs = [0.0], True

    def read(host: str, port: int, timeout_s: float, *, path: str, accepted: object) -> str:
        asked.append(timeout_s)
        if not hangs:
            return '{"node_id": 3}'
        raise metrics.ReadError("no metrics (timed out)") from TimeoutError()

    monkeypatch.setattr(metrics, "read", read)
    http = BrokerHttp(["127.0.0.1:1"], clock=lambda: clock[-1])
    for now_s in (0.0, 1.0, PAUSE_S - 0.1, PAUSE_S, PAUSE_S + 1.0):
        clock.append(now_s)
        with pytest.raises(ClientError, match="does not answer"):
            http.text("127.0.0.1:1", "/v1/x.json")
        assert http.broker_name("127.0.0.1:1") == "127.0.0.1:1"
    assert asked == [TIMEOUT_S, QUICK_S]
    hangs = False
    clock.append(2 * PAUSE_S)
    assert http.broker_name("127.0.0.1:1") == "broker 3"
    http.text("127.0.0.1:1", "/v1/x.json")
    assert asked[2:] == [QUICK_S, TIMEOUT_S]


@pytest.mark.parametrize(
    "operations, is_allowed", [(DESCRIBE, True), (DESCRIBE | ALTER, True), (ALTER, False), (0, False)]
)
def test_describe_on_the_cluster_is_what_counts(operations: int, is_allowed: bool) -> None:
    told = DescribeClusterResponse(cluster_authorized_operations=operations)
    with answering_cluster({DescribeClusterRequest: told}) as cluster:
        assert may_describe_cluster(cluster) is is_allowed


def test_a_broker_that_does_not_tell_allows_nothing() -> None:
    with answering_cluster({DescribeClusterRequest: DescribeClusterResponse()}) as cluster:
        assert may_describe_cluster(cluster) is False
    refused = DescribeClusterResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    with answering_cluster({DescribeClusterRequest: refused}) as cluster, pytest.raises(ClientError):
        may_describe_cluster(cluster)


def test_addresses_of_listeners() -> None:
    text = "http://127.0.0.1:9644, http://[::1]:9645/,http://127.0.0.1:9644"
    assert parse_http_addresses(text) == ("127.0.0.1:9644", "[::1]:9645")


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1:9644",
        "https://127.0.0.1:9644",
        "http://192.0.2.1:9644",
        "http://127.0.0.1",
        "http://a:b@[::1]:1",
        "http://[:1",
    ],
)
def test_other_addresses_are_refused(text: str) -> None:
    """From another machine anybody on the way could answer in the place of the broker."""
    with pytest.raises(BadHttpAddress, match="on the loopback interface"):
        parse_http_addresses(text)
