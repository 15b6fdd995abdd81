"""ApiVersions: derived from what is registered; who the client is."""

import pytest

from headgate.gateway.api.handler_registration import load, served, versions
from headgate.gateway.api.handlers import api_versions
from headgate.gateway.api.handlers.api_versions import unsupported_version
from headgate.gateway.tests.builders import HandlerBroker, refusal
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

pytestmark = pytest.mark.every_metadata_store


def advertised(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}


def introduction(name: str = "librdkafka", version: str = "2.11.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", range(6))
def test_what_is_registered_is_advertised(node: HandlerBroker, version: int) -> None:
    response = node.ask(introduction(), version)
    assert response.error_code == ErrorCode.NONE
    registrations = served(load(), has_zookeeper=False)
    assert advertised(response) == {key: (row.served_min, row.served_max) for key, row in registrations.items()}
    assert [row.api_key for row in response.api_keys] == sorted(registrations)


@pytest.mark.parametrize("version", range(6))
def test_consumer_groups_and_transactions_are_finalized_features(node: HandlerBroker, version: int) -> None:
    """A supported range that begins at 0 must not be shown below version 4 (KAFKA-17011)."""
    response = node.ask(introduction(), version)
    supported = [(row.name, row.min_version, row.max_version) for row in response.supported_features]
    finalized = [(row.name, row.min_version_level, row.max_version_level) for row in response.finalized_features]
    assert supported == ([("group.version", 0, 1), ("transaction.version", 0, 2)] if version >= 4 else [])
    assert finalized == ([("group.version", 1, 1), ("transaction.version", 2, 2)] if version >= 3 else [])
    assert response.finalized_features_epoch == (1 if version >= 3 else -1), "the record of this start"


def test_the_requests_of_producers_and_coordinators_are_advertised(node: HandlerBroker) -> None:
    keys = advertised(node.ask(introduction(), 4))
    assert keys[0] == (0, 13)  # Produce
    assert keys[22] == (0, 5)  # InitProducerId
    assert keys[10] == (0, 6)  # FindCoordinator
    assert keys[24] == (0, 5)  # AddPartitionsToTxn
    assert keys[25] == (0, 4)  # AddOffsetsToTxn
    assert keys[26] == (0, 5)  # EndTxn
    assert keys[27] == (0, 2)  # WriteTxnMarkers
    assert keys[28] == (0, 6)  # TxnOffsetCommit


def test_an_unserved_version_is_answered_with_the_whole_list() -> None:
    response = unsupported_version(api_versions.advertised(versions(load())))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert set(advertised(response)) == set(load())


def test_the_client_is_remembered(node: HandlerBroker) -> None:
    node.ask(introduction("apache-kafka-java", "4.4.0"), 4)
    assert (node.client.software_name, node.client.software_version) == ("apache-kafka-java", "4.4.0")


def test_before_version_3_a_client_says_nothing_of_itself(node: HandlerBroker) -> None:
    node.ask(introduction(), 2)
    assert node.client.software_name == "unknown"


@pytest.mark.parametrize(
    "name, version",
    [("", "1"), ("a", ""), ("-a", "1"), ("a", "1."), ("a b", "1"), ("a\n", "1"), ("a", "1\r\nb"), ("x" * 251, "1")],
)
def test_what_is_no_name_of_software_is_refused(node: HandlerBroker, name: str, version: str) -> None:
    response = node.ask(introduction(name, version), 3)
    assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])
    assert node.client.software_name == "unknown"


def test_a_client_that_means_another_broker_starts_anew(node: HandlerBroker) -> None:
    cluster_id = node.services.metadata.image.cluster_id

    def asked(cluster: str | None, node_id: int) -> ApiVersionsRequest:
        return ApiVersionsRequest("a", "1", cluster, node_id)

    assert refusal(node, asked("other", 0), 5) == ErrorCode.REBOOTSTRAP_REQUIRED
    assert refusal(node, asked(cluster_id, 1), 5) == ErrorCode.REBOOTSTRAP_REQUIRED
    for right in (asked(cluster_id, 0), asked(cluster_id, -1), asked(None, 0), asked(None, -1)):
        assert node.ask(right, 5).error_code == ErrorCode.NONE
