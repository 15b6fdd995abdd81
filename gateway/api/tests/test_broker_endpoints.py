"""The addresses that clients are told."""

from pathlib import Path

from headgate.gateway.api.broker_endpoints import endpoints, leader_of, own_endpoint
from headgate.gateway.tests.builders import HandlerBroker


def test_by_default_the_address_that_the_client_connected_to(node: HandlerBroker) -> None:
    node.client.local_host, node.client.local_port = "::1", 1234
    assert own_endpoint(node.context(0)) == (0, "::1", 1234, None)
    assert endpoints(node.context(0)) == [(0, "::1", 1234, None)]


def test_what_is_configured_by_listener(tmp_path: Path) -> None:
    node = HandlerBroker(
        tmp_path,
        listeners="PLAINTEXT://127.0.0.1:9092,INSIDE://127.0.0.1:9093",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
        advertised_listeners="PLAINTEXT://kafka.example:19092,INSIDE://inside:0",
        broker_rack="r2",
    )
    assert own_endpoint(node.context(0)) == (0, "kafka.example", 19092, "r2")
    node.client.listener, node.client.local_port = "INSIDE", 9093
    assert endpoints(node.context(0)) == [(0, "inside", 9093, "r2")]
    node.close()


def test_of_what_is_not_there_no_leader_is_known(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    context = node.context(0)
    assert leader_of(context, "t", 0) == (0, 0, own_endpoint(context))
    assert [leader_of(context, *missing) for missing in (("t", 1), ("t", -1), ("u", 0))] == [(-1, -1, None)] * 3
