"""kazoo's thread: connections over TLS, and decrypted bytes that no poll reports. `test_client.py` has the rest."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from headgate.gateway.zookeeper import kazoo_handler
from headgate.gateway.zookeeper.kazoo_handler import InlineHandler
from headgate.protocol.security.client_security import InvalidClientSecurity

ADDRESS = ("127.0.0.1", 2182)


class Made:
    """A handler over TLS, and what it reported."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, result: object) -> None:
        self.opened: list[tuple[str, int]] = []
        self.problems: list[str] = []
        self.calls: list[Any] = []

        def connect(*arguments: Any) -> object:
            self.calls.append(arguments)
            if isinstance(result, BaseException):
                raise result
            return result

        monkeypatch.setattr(kazoo_handler, "connect", connect)
        self.handler = InlineHandler(
            lambda: None, self.opened.append, new_context=self.context, failed=self.problems.append
        )

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def connect(self) -> object:
        return self.handler.create_connection(address=ADDRESS, hostname="zk", timeout=3.0, use_ssl=False)


def test_a_connection_over_tls_has_the_name_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch, "socket")
    assert made.connect() == "socket"
    assert made.opened == [ADDRESS]
    assert made.calls[0][:3] == (ADDRESS, "zk", 3.0)


@pytest.mark.parametrize(
    "error,reason",
    [
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (InvalidClientSecurity("the store is empty"), "the store is empty"),
    ],
)
def test_a_connection_that_cannot_be_made_is_reported(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    made = Made(monkeypatch, error)
    with pytest.raises(ConnectionError):
        made.connect()
    assert made.problems == [reason]
    assert not made.opened


def test_decrypted_bytes_end_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch, "socket")
    monkeypatch.setattr(kazoo_handler, "has_decrypted", lambda sock: sock == "secure")
    assert made.handler.select(["secure", "pipe"], [], [], 100.0) == (["secure"], [], [])
