"""The request log: which requests have a line, and that a request costs nothing while the log is off."""

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from headgate.gateway.config import BrokerConfig
from headgate.gateway.request_log.request_log import MAX_SLOW_LINES, SLOW_INTERVAL_MS, RequestLog
from headgate.gateway.request_log.tests.tracing import FakeClient, Tracing, frame
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, ManualClock
from headgate.gateway.tests.builders import records
from headgate.gateway.tests.harness import MemoryBroker, run_broker
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.internal.metadata import BROKER_RESOURCE
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.incremental_alter_configs import (
    SET,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "headgate.request")
    return caplog


def lines(log: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The fields of each line so far, which are forgotten."""
    found = [record.__dict__["fields"] for record in log.records if record.name == "headgate.request"]
    log.clear()
    return found


def end_one(tracing: Tracing, took_ms: float) -> None:
    tracing.client.receive()
    request = tracing.trace.begin(18, 0, frame(7, 20))
    tracing.advance(took_ms)
    request.handled(100)
    tracing.trace.end_handling(request, [b"reply"])
    tracing.trace.sent()


def test_a_slow_request_has_a_line(log: pytest.LogCaptureFixture) -> None:
    tracing = Tracing(slow_ms="500")
    end_one(tracing, 499.9)
    assert lines(log) == []
    end_one(tracing, 500)
    [line] = lines(log)
    assert (line["reason"], line["total_ms"], line["api"], line["correlation_id"]) == ("slow", 500.0, "ApiVersions", 7)


def test_one_of_so_many_has_a_line(log: pytest.LogCaptureFixture) -> None:
    tracing = Tracing(one_of="3")
    for _ in range(7):
        end_one(tracing, 1)
    assert [line["reason"] for line in lines(log)] == ["one of many"] * 2


def test_slow_requests_have_a_bound(log: pytest.LogCaptureFixture) -> None:
    tracing = Tracing(slow_ms="0")
    for _ in range(MAX_SLOW_LINES + 3):
        end_one(tracing, 0)
    assert len(lines(log)) == MAX_SLOW_LINES
    end_one(tracing, SLOW_INTERVAL_MS)
    assert "slow requests: 3 more of such lines were left out" in log.text


def test_the_level_of_the_logger_counts(log: pytest.LogCaptureFixture) -> None:
    tracing = Tracing(slow_ms="0")
    log.set_level(logging.WARNING, "headgate.request")
    end_one(tracing, 10)
    assert lines(log) == []


def test_the_log_follows_its_settings() -> None:
    config = BrokerConfig.load("")
    clock = ManualClock(0)
    log = RequestLog(config, clock, FakeScheduler(clock))
    assert (log.is_on, log.trace(FakeClient(clock)), log.follow()) == (False, None, False)
    config.change({"headgate.request.log.slow.ms": "0"}, {})
    assert (log.follow(), log.is_on, log.follow()) == (True, True, False)
    assert log.trace(FakeClient(clock)) is not None
    config.change({}, {})
    assert (log.follow(), log.is_on) == (True, False)


def alter(name: str, value: str) -> IncrementalAlterConfigsRequest:
    resource = AlterConfigsResource(BROKER_RESOURCE, "", [AlterableConfig(name, SET, value)])
    return IncrementalAlterConfigsRequest([resource])


def test_a_running_broker_turns_it_on_and_off(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    """Open connections are traced from then on; what each request waited for is told; counts of requests stay right."""

    async def scenario(memory: MemoryBroker) -> None:
        client = memory.connect("app")
        await client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1_000), 7)
        await client.ask(ApiVersionsRequest(), 0)
        assert lines(log) == []
        assert memory.broker.parts.request_log.is_on is False
        assert (await client.ask(alter("headgate.request.log.one.of", "1"), 0)).responses[0].error_code == 0
        lines(log)
        for _ in range(70):
            await client.ask(ApiVersionsRequest(), 0)
        assert [line["correlation_id"] for line in lines(log)] == list(range(3, 73))
        await client.ask(produce_request(records(b"a")), 7)
        [line] = lines(log)
        assert (line["api"], line["topics"], line["parked_for"]) == ("Produce", ["t"], None)
        assert line["request_bytes"] > line["response_bytes"] > 40
        partition = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic="t", partitions=[partition])]
        await client.ask(FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=topics), 4)
        [line] = lines(log)
        assert (line["api"], line["park_ms"], line["parked_for"]) == ("Fetch", 500.0, "1 bytes, for at most 500 ms")
        counts = {version: count for (_, version), count in requests_of(memory, "ApiVersions")}
        assert counts == {"0": 71}
        await client.ask(alter("headgate.request.log.one.of", "0"), 0)
        lines(log)
        await client.ask(ApiVersionsRequest(), 0)
        assert lines(log) == []
        assert dict(requests_of(memory, "ApiVersions")) == {("ApiVersions", "0"): 72}

    run_broker(tmp_path, scenario)


def requests_of(memory: MemoryBroker, api: str) -> list[tuple[tuple[str, ...], object]]:
    _, values = memory.broker.parts.metrics.read("requests")
    return [(labels, count) for labels, count in values if labels[0] == api]


def test_a_request_without_a_reply_ends_with_its_handler(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        client = memory.connect()
        await client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1_000), 7)
        lines(log)
        await client.send(produce_request(records(b"a"), acks=0), 7)
        await client.ask(ApiVersionsRequest(), 0)
        assert [(line["api"], line["response_bytes"] > 0) for line in lines(log)] == [
            ("Produce", False),
            ("ApiVersions", True),
        ]

    run_broker(tmp_path, scenario, headgate_request_log_one_of="1")


def test_a_client_that_leaves_ends_its_requests(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        client = memory.connect()
        await client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1_000), 7)
        lines(log)
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic="t", partitions=[partition])]
        await client.send(FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20, topics=topics), 4)
        await client.stream.aclose()
        await trio.sleep(60)
        assert [line["has_disconnected"] for line in lines(log) if line["api"] == "Fetch"] == [True]

    run_broker(tmp_path, scenario, headgate_request_log_one_of="1")


def test_a_broker_without_a_log_imports_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("headgate.gateway.request_log.request_")]:
        if not module.endswith("request_log"):
            monkeypatch.delitem(sys.modules, module)

    async def scenario(memory: MemoryBroker) -> None:
        await memory.connect().ask(ApiVersionsRequest(), 0)
        assert "headgate.gateway.request_log.request_trace" not in sys.modules

    run_broker(tmp_path, scenario)
