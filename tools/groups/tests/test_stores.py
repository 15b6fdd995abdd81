"""The stores of groups over the wire: versions, topics and configs of the requests, and what the answers mean."""

from typing import Any

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from headgate.protocol.messages.offset_fetch import OffsetFetchResponsePartition as Row
from headgate.protocol.messages.offset_fetch import OffsetFetchResponseTopic as Topic
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.groups.offsets import OffsetAndMetadata
from headgate.tools.groups.stores import StoreSettings, change_settings, fetch_settings, fetch_zookeeper
from headgate.tools.tests.model_cluster import ModelCluster, opened

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_version_0_reads_zookeeper(model: ModelCluster) -> None:
    model.zookeeper["g"] = {("t", 0): 5, ("t", 1): None}
    with opened() as cluster:
        found, failed = fetch_zookeeper(cluster, ["g", "other"])
    assert not failed
    assert found["g"].offsets == {T0: OffsetAndMetadata(5)}
    assert found["g"].unreadable[T1].code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert found["other"].offsets == {}


def test_what_is_not_there_is_no_error(model: ModelCluster) -> None:
    rows = [Row(partition_index=0, committed_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    model.disturb = lambda node, request, version: (
        OffsetFetchResponse(topics=[Topic("t", rows)]) if isinstance(request, OffsetFetchRequest) else None
    )
    with opened() as cluster:
        assert fetch_zookeeper(cluster, ["g"])[0]["g"] == ({}, {})


def test_a_group_is_asked_for_again_while_zookeeper_is_gone(model: ModelCluster) -> None:
    model.zookeeper["g"] = {("t", 0): 5}
    gone = [Row(partition_index=0, committed_offset=-1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    refusals = [OffsetFetchResponse(topics=[Topic("t", gone)]), None, None]

    def disturb(node: int, request: Any, version: int) -> Any:
        return refusals.pop(0) if isinstance(request, OffsetFetchRequest) else None

    model.disturb = disturb
    with opened() as cluster:
        assert fetch_zookeeper(cluster, ["g"])[0]["g"].offsets == {T0: OffsetAndMetadata(5)}


def test_an_error_without_a_topic_is_that_of_the_group(model: ModelCluster) -> None:
    rows = [Row(partition_index=-1, committed_offset=-1, error_code=ErrorCode.UNKNOWN_SERVER_ERROR)]
    model.disturb = lambda node, request, version: (
        OffsetFetchResponse(topics=[Topic("", rows)]) if isinstance(request, OffsetFetchRequest) else None
    )
    with opened() as cluster:
        found, failed = fetch_zookeeper(cluster, ["g"])
    assert (found, failed["g"].code) == ({}, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_an_old_or_new_broker_without_version_0_is_named(model: ModelCluster) -> None:
    model.served[OffsetFetchRequest] = (1, 9)
    with opened() as cluster:
        _, failed = fetch_zookeeper(cluster, ["g"])
    assert "it has OffsetFetch 1-9, this needs 0-0" in failed["g"].text


def test_settings_are_group_configs(model: ModelCluster) -> None:
    model.group_configs["g"] = {"headgate.offsets.store": "dual", "headgate.offsets.source": "kafka"}
    with opened() as cluster:
        found, failed = fetch_settings(cluster, ["g", "other"])
        assert found == {"g": StoreSettings("dual", "kafka")}
        assert "it has to be Headgate with zookeeper.connect" in failed["other"].text
        assert change_settings(cluster, {"g": StoreSettings("kafka")}) == {}
    assert model.group_configs["g"] == {"headgate.offsets.store": "kafka"}


def test_a_refusal_of_the_broker_is_told(model: ModelCluster) -> None:
    model.on_group_configs = lambda group: "no"
    with opened() as cluster:
        failed = change_settings(cluster, {"g": StoreSettings("dual", "kafka")}, validate_only=True)
    assert failed["g"].text == "no (INVALID_CONFIG)"
    (request,) = model.of(IncrementalAlterConfigsRequest)
    assert request.validate_only
