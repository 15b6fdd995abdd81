"""The collector of a broker's lag, made at the first need."""

from __future__ import annotations

import json
from pathlib import Path

from headgate.gateway.lag.broker_lag import FIRST_MS
from headgate.gateway.tests.builders import HandlerBroker
from headgate.gateway.tests.requests import commit_request


def committed(node: HandlerBroker) -> HandlerBroker:
    for _ in range(2):  # the first one has __consumer_offsets created
        node.services.metadata.create_topic("t", 1) if "t" not in node.services.metadata.image.topics else None
        node.time.advance()
        node.ask(commit_request("g", {0: 0}), 8)
    node.time.advance()
    return node


def test_the_first_survey_comes_after_the_start(tmp_path: Path) -> None:
    """And one an interval from then on."""
    node = committed(HandlerBroker(tmp_path, headgate_lag_interval_ms="500"))
    node.parts.lag.start()
    assert not node.parts.lag.is_measured
    node.time.advance(FIRST_MS)
    node.time.advance()
    collector = node.parts.lag.collector()
    first = collector.last
    assert first is not None
    assert [group.name for group in first.groups] == ["g"]
    node.time.advance(500)
    node.time.advance()
    assert collector.last is not first


def test_a_reading_before_makes_the_collector(tmp_path: Path) -> None:
    node = committed(HandlerBroker(tmp_path))
    value = json.loads(b"".join(node.parts.lag.json()))
    assert [group["group"] for group in value["groups"]] == ["g"]


def test_a_stopped_broker_makes_no_survey(tmp_path: Path) -> None:
    node = committed(HandlerBroker(tmp_path))
    node.parts.lag.start()
    node.parts.lag.stop()
    node.time.advance(10 * FIRST_MS)
    assert not node.parts.lag.is_measured
    node.parts.lag.stop()


def test_settings_name_the_queries_of_spark(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path / "data", headgate_spark_checkpoints=f"q:{tmp_path}/none")
    node.parts.lag.collector()
    node.time.advance()
    node.time.advance()
    (group,) = json.loads(b"".join(node.parts.lag.json()))["groups"]
    assert (group["group"], group["type"], group["lag_records"], group["members"]) == ("spark:q", "spark", None, None)
    assert "no checkpoint of a query" in group["error"]
