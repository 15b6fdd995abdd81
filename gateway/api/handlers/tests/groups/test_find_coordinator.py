"""FindCoordinator: always this node, at the address of the client."""

from pathlib import Path

import pytest

from headgate.gateway.tests.builders import HandlerBroker, refusal
from headgate.protocol.errors import ErrorCode, MalformedRequest
from headgate.protocol.messages.find_coordinator import GROUP, SHARE, TRANSACTION, FindCoordinatorRequest
from headgate.protocol.wire import MAX_TEXT_SIZE

pytestmark = pytest.mark.every_metadata_store


@pytest.mark.parametrize("version", range(4))
def test_one_key(node: HandlerBroker, version: int) -> None:
    response = node.ask(FindCoordinatorRequest(key="g", key_type=GROUP), version)
    assert (response.error_code, response.node_id, response.host, response.port) == (0, 0, "192.0.2.1", 9092)


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_many_keys(node: HandlerBroker, version: int, key_type: int) -> None:
    response = node.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"]), version)
    rows = [(row.key, row.error_code, row.node_id, row.host, row.port) for row in response.coordinators]
    assert rows == [("a", 0, 0, "192.0.2.1", 9092), ("b", 0, 0, "192.0.2.1", 9092)]


def test_what_is_not_coordinated_here(node: HandlerBroker) -> None:
    response = node.ask(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=["g:id:0"]), 6)
    assert [row.error_code for row in response.coordinators] == [ErrorCode.INVALID_REQUEST]


def test_too_many_keys(node: HandlerBroker) -> None:
    assert refusal(node, FindCoordinatorRequest(coordinator_keys=["g"] * 10_001), 4) == ErrorCode.INVALID_REQUEST


def test_the_advertised_address_is_told(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path, advertised_listeners="PLAINTEXT://kafka.example:19092", node_id="7")
    response = node.ask(FindCoordinatorRequest(key="g"), 3)
    assert (response.node_id, response.host, response.port) == (7, "kafka.example", 19092)
    node.close()


def test_the_longest_id_that_can_be_read_has_a_coordinator(node: HandlerBroker) -> None:
    """A longer one, which no record could have as its key, is no request: Kafka reads none either."""
    rows = node.ask(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["g" * MAX_TEXT_SIZE, "g"]), 4).coordinators
    assert [(row.error_code, row.node_id) for row in rows] == [(ErrorCode.NONE, 0)] * 2
    with pytest.raises(MalformedRequest, match="cannot have length 32768"):
        node.ask(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["g" * (MAX_TEXT_SIZE + 1), "g"]), 4)


def test_transactions_need_no_topic_of_groups(node: HandlerBroker) -> None:
    node.ask(FindCoordinatorRequest(key="x", key_type=TRANSACTION), 3)
    assert set(node.services.metadata.image.topics) == {"__transaction_state"}
