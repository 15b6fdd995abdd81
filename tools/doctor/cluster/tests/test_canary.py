"""The canary's way is tried in compat_tests/doctor, beside real brokers; here are its answers."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headgate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headgate.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.cluster import Cluster
from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.cluster.advertised import NO_RETRIES
from headgate.tools.doctor.cluster.canary import CanaryResult, check_canary, run_canary
from headgate.tools.tests.fake_broker import fake_broker

PARTITION = TopicPartition("canary", 0)
USED = (ApiVersionsRequest, MetadataRequest, ProduceRequest, FetchRequest, CreateTopicsRequest)


class CanaryBroker:
    """One broker with one partition. `written`: the batch at offset 7. `append_ms`: its clock, -1 for CreateTime."""

    def __init__(self, produce: int = 0, fetch: int = 0, topic: int = 0, *, damages: bool = False) -> None:
        self.codes = {ProduceRequest: produce, FetchRequest: fetch}
        self.topic = topic
        self.damages = damages
        self.written = b""
        self.created: list[Any] = []
        self.address = ""

    def __call__(self, request: Any, _version: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            rows = [ApiVersion(cls.api_key, cls.versions.first, min(cls.versions.last, 12)) for cls in USED]
            return ApiVersionsResponse(api_keys=rows)
        if isinstance(request, MetadataRequest):
            return self._metadata()
        if isinstance(request, CreateTopicsRequest):
            self.created += request.topics
            return CreateTopicsResponse(topics=[CreatableTopicResult(name="canary", error_code=self.topic)])
        return self._produce(request) if isinstance(request, ProduceRequest) else self._fetch()

    def _metadata(self) -> MetadataResponse:
        host, _, port = self.address.rpartition(":")
        partition = MetadataResponsePartition(partition_index=0, leader_id=5, replica_nodes=[5], isr_nodes=[5])
        topic = MetadataResponseTopic(name="canary", error_code=self.topic, partitions=[partition])
        broker = MetadataResponseBroker(node_id=5, host=host, port=int(port))
        return MetadataResponse(brokers=[broker], controller_id=5, cluster_id="id", topics=[topic])

    def _produce(self, request: ProduceRequest) -> ProduceResponse:
        assert request.acks == -1
        records: Any = request.topic_data[0].partition_data[0].records
        self.written = bytes(records)
        row = PartitionProduceResponse(
            index=0, error_code=self.codes[ProduceRequest], base_offset=7, log_append_time_ms=1000
        )
        return ProduceResponse(responses=[TopicProduceResponse(name="canary", partition_responses=[row])])

    def _fetch(self) -> FetchResponse:
        records = struct.pack(">q", 8 if self.damages else 7) + self.written[8:]
        row = PartitionData(partition_index=0, error_code=self.codes[FetchRequest], high_watermark=8, records=records)
        return FetchResponse(responses=[FetchableTopicResponse(topic="canary", partitions=[row])])


def fly(broker: CanaryBroker, *, creates: bool = False) -> list[CanaryResult] | str:
    with fake_broker(broker) as broker.address, Cluster(broker.address, 10.0, NO_RETRIES) as cluster:
        return run_canary(cluster, "canary", b"sung", creates=creates, timeout_s=10.0)


def flown(broker: CanaryBroker, *, creates: bool = False) -> list[CanaryResult]:
    results = fly(broker, creates=creates)
    assert not isinstance(results, str)
    return results


@pytest.mark.sockets
def test_a_record_comes_back_with_the_clock_of_its_leader() -> None:
    [result] = flown(CanaryBroker())
    assert (result.partition, result.failure) == (PARTITION, None)
    assert result.clock is not None
    assert (result.clock.node, result.clock.broker_ms) == (5, 1000)


@pytest.mark.sockets
@pytest.mark.parametrize(
    "broker, words",
    [
        (CanaryBroker(produce=ErrorCode.NOT_ENOUGH_REPLICAS), "produce: "),
        (CanaryBroker(fetch=ErrorCode.TOPIC_AUTHORIZATION_FAILED), "fetch: "),
        (CanaryBroker(damages=True), "does not come back as it was sent"),
    ],
)
def test_failures(broker: CanaryBroker, words: str) -> None:
    [result] = flown(broker)
    assert words in (result.failure or "")
    [row] = check_canary([result])
    assert (row.state, bool(row.cure)) == (WRONG, True)


@pytest.mark.sockets
def test_a_topic_that_does_not_exist_is_not_created_without_leave() -> None:
    broker = CanaryBroker(topic=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert "no topic canary; create it" in str(fly(broker))
    assert broker.created == []


@pytest.mark.sockets
def test_a_topic_that_may_not_be_created() -> None:
    assert "cannot be created" in str(fly(CanaryBroker(topic=ErrorCode.TOPIC_AUTHORIZATION_FAILED), creates=True))


@pytest.mark.sockets
def test_a_new_topic_shows_the_clocks_of_all_brokers() -> None:
    broker = CanaryBroker()
    fly(broker, creates=True)
    [topic] = broker.created
    assert (topic.num_partitions, topic.replication_factor) == (1, 1)
    assert ("message.timestamp.type", "LogAppendTime") in [(one.name, one.value) for one in topic.configs]


@pytest.mark.sockets
def test_a_broker_may_get_a_new_topic_late() -> None:
    """As one that is not the controller."""

    class LateBroker(CanaryBroker):
        asked = 0

        def _metadata(self) -> MetadataResponse:
            self.asked += 1
            answer = super()._metadata()
            answer.topics[0].error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.asked < 5 else ErrorCode.NONE
            return answer

    [result] = flown(LateBroker(), creates=True)
    assert result.failure is None


def test_slow_records_are_a_note() -> None:
    assert [row.state for row in check_canary([CanaryResult(PARTITION, None, 20, 5)])] == [OK]
    assert [row.state for row in check_canary([CanaryResult(PARTITION, None, 2000, 5)])] == [NOTE]
