"""FindCoordinator: always this node, at the address of the client."""

from pathlib import Path

import pytest

from gateway.tests.builders import Node, refusal
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import GROUP, SHARE, TRANSACTION, FindCoordinatorRequest


@pytest.mark.parametrize("version", range(4))
def test_one_key(node: Node, version: int) -> None:
    response = node.ask(FindCoordinatorRequest(key="g", key_type=GROUP), version)
    assert (response.error_code, response.node_id, response.host, response.port) == (0, 0, "192.0.2.1", 9092)


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_many_keys(node: Node, version: int, key_type: int) -> None:
    response = node.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"]), version)
    rows = [(row.key, row.error_code, row.node_id, row.host, row.port) for row in response.coordinators]
    assert rows == [("a", 0, 0, "192.0.2.1", 9092), ("b", 0, 0, "192.0.2.1", 9092)]


def test_what_is_not_coordinated_here(node: Node) -> None:
    response = node.ask(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=["g:id:0"]), 6)
    assert [row.error_code for row in response.coordinators] == [ErrorCode.INVALID_REQUEST]


def test_too_many_keys(node: Node) -> None:
    assert refusal(node, FindCoordinatorRequest(coordinator_keys=["g"] * 10_001), 4) == ErrorCode.INVALID_REQUEST


def test_the_advertised_address_is_told(tmp_path: Path) -> None:
    node = Node(tmp_path, advertised_listeners="PLAINTEXT://kafka.example:19092", node_id="7")
    response = node.ask(FindCoordinatorRequest(key="g"), 3)
    assert (response.node_id, response.host, response.port) == (7, "kafka.example", 19092)
    node.close()


def test_a_group_whose_id_cannot_be_written_down_has_none(node: Node) -> None:
    request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["g" * 32_768, "g"])
    rows = node.ask(request, 4).coordinators
    assert [(row.error_code, row.node_id) for row in rows] == [(ErrorCode.INVALID_GROUP_ID, -1), (ErrorCode.NONE, 0)]


def test_transactions_need_no_topic_of_groups(node: Node) -> None:
    node.ask(FindCoordinatorRequest(key="x", key_type=TRANSACTION), 3)
    assert "__consumer_offsets" not in node.services.metadata.image.topics
