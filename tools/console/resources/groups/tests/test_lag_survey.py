"""Surveys of lag by the brokers' HTTP, merged; and the reasons why there is none."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headgate.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from headgate.tools.client.client import ClientError
from headgate.tools.console.broker_http import NO_ADDRESS, NOT_ALLOWED, BrokerHttp, ConsoleCluster
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.groups.lag_survey import lag_survey, merge_surveys
from headgate.tools.console.resources.tests.answering_cluster import answering_cluster

ALLOWED = DescribeClusterResponse(cluster_authorized_operations=1 << 8)


def group(name: str, error: str | None = None, **more: Any) -> dict[str, Any]:
    return {"group": name, "verdict": "OK", "error": error, "partitions": [{"topic": "t", "partition": 0}], **more}


SURVEYS = {
    "b:1": {"node_id": 0, "measured_ms": 2000, "groups": [group("z"), group("spark:x", "cannot read it")]},
    "b:2": {"node_id": 1, "measured_ms": 1000, "groups": [group("a"), group("spark:x", lag_records=5)]},
}


@pytest.fixture
def surveys(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """The answers by address; an address without one does not listen."""
    answers = dict(SURVEYS)

    def read(self: BrokerHttp, address: str, path: str) -> dict[str, Any]:
        assert path == "/v1/lag.json"
        if address not in answers:
            raise ClientError(f"no metrics at {address}")
        return answers[address]

    monkeypatch.setattr(BrokerHttp, "json", read)
    return answers


def ask(*addresses: str, allowed: DescribeClusterResponse = ALLOWED, group: str | None = None) -> dict[str, Any]:
    parameters = Parameters([] if group is None else [("group", group)])
    with answering_cluster({DescribeClusterRequest: allowed}) as answering:
        cluster = cast("ConsoleCluster", answering)
        cluster.http = BrokerHttp(addresses)
        return lag_survey(cluster, parameters)


def test_groups_of_all_brokers_are_merged(surveys: dict[str, Any]) -> None:
    answer = ask("b:1", "b:2")
    assert [one["group"] for one in answer["groups"]] == ["a", "spark:x", "z"]
    assert answer["groups"][1]["lag_records"] == 5, "of the broker that can read it"
    assert all("partitions" not in one for one in answer["groups"])
    assert (answer["measured_ms"], answer["missing"]) == (1000, {})


def test_one_group_has_its_partitions(surveys: dict[str, Any]) -> None:
    assert ask("b:1", "b:2", group="a")["groups"] == [group("a")]
    assert ask("b:1", "b:2", group="gone")["groups"] == []


def test_a_broker_that_is_down_leaves_the_others(surveys: dict[str, Any]) -> None:
    del surveys["b:1"]
    answer = ask("b:1", "b:2")
    assert [one["group"] for one in answer["groups"]] == ["a", "spark:x"]
    assert answer["missing"] == {"verdicts": "no metrics at b:1"}
    surveys.clear()
    assert ask("b:1")["groups"] is None


def test_without_listeners_or_permission_there_is_a_reason(surveys: dict[str, Any]) -> None:
    assert ask() == {"groups": None, "measured_ms": None, "missing": {"verdicts": NO_ADDRESS}}
    refused = ask("b:1", allowed=DescribeClusterResponse(cluster_authorized_operations=0))
    assert refused["missing"] == {"verdicts": NOT_ALLOWED}


def test_an_error_never_replaces_what_is_known() -> None:
    merged = merge_surveys([{"groups": [group("a", None)]}, {"groups": [group("a", "cannot read it")]}])
    assert merged["a"]["error"] is None
