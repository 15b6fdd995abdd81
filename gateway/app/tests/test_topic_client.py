"""The client that creates topics for tests."""

import socket

import pytest

from headgate.gateway.app.child_process import HeadgateError
from headgate.gateway.app.topic_client import create_topic


@pytest.mark.sockets
def test_a_broker_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(HeadgateError, match=f"topic a was not created: the broker at {address} does not answer"):
        create_topic(address, "a", 1, {})
