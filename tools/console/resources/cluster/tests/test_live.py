"""The events of the live stream."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from headgate.tools.client.client import PLAINTEXT
from headgate.tools.console.broker_http import NO_ADDRESS, NOT_ALLOWED, BrokerHttp, ConsoleCluster
from headgate.tools.console.live import end_offsets
from headgate.tools.console.live.histories import LiveHistories
from headgate.tools.console.live.readings import FIGURES
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.cluster import live as module
from headgate.tools.tests.model_cluster import ModelCluster

ADDRESS = "127.0.0.1:9644"
READY = {"status": "waiting", "conditions": [{"name": "logs", "is_met": False}, {"name": "disks", "is_met": True}]}
ANSWERS = {"/v1/broker.json": json.dumps({"node_id": 7}), "/readyz": json.dumps(READY)}


@pytest.fixture
def http(monkeypatch: pytest.MonkeyPatch) -> BrokerHttp:
    def text(self: BrokerHttp, address: str, path: str) -> str:
        return ANSWERS.get(path, "headgate_connections 5\n")

    monkeypatch.setattr(BrokerHttp, "text", text)
    http = BrokerHttp([ADDRESS])
    http.histories = LiveHistories([ADDRESS], lambda _: "headgate_connections 5\n", start=lambda _: None)
    http.histories.sample()
    return http


def events(http: BrokerHttp) -> Iterator[dict[str, object]]:
    return module.live(ConsoleCluster("127.0.0.1:9092", 10.0, PLAINTEXT, http), Parameters())


def test_brokers_have_points_apis_and_unmet_conditions(http: BrokerHttp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "may_describe_cluster", lambda cluster: True)
    stream = events(http)
    assert next(stream) == {"source": "metrics", "columns": FIGURES, "brokers": [ADDRESS], "missing": {}}
    first, second = next(stream), next(stream)
    for event in (first, second):
        json.dumps(event)
    [news] = first["brokers"].values()  # type: ignore[attr-defined]
    assert (news["name"], news["error"]) == ("broker 7", None)
    assert [point[0] for point in news["points"]] == [1]
    assert second["brokers"][ADDRESS]["points"] == []  # type: ignore[index]
    assert news["conditions"] == [{"name": "logs", "is_met": False}]
    stream.close()  # type: ignore[attr-defined]


def test_others_get_the_growth_of_end_offsets(
    http: BrokerHttp, model: ModelCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "may_describe_cluster", lambda cluster: False)
    monkeypatch.setattr(end_offsets, "pause_s", lambda partitions: 0.0)
    for given, reason in ((http, NOT_ALLOWED), (BrokerHttp(), NO_ADDRESS)):
        stream = events(given)
        assert next(stream) == {"source": "end offsets", "missing": {"figures of brokers": reason}}
        event = next(stream)
        assert event["in_records_per_s"] == 0
        assert event["failed_partitions"] == 0
