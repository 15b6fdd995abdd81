"""Fixtures: one broker with TLS for the session, and topics of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat_tests.harness.topics import new_topic
from compat_tests.security.login_broker import LoginBroker
from compat_tests.security.secure_broker import SecureBroker


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """The broker that these tests share; none of them changes it."""
    broker = SecureBroker(tmp_path_factory.mktemp("secure"))
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def secure_topic(secure: SecureBroker) -> Callable[..., str]:
    """A new topic with each call."""

    def create(partitions: int = 1, **configs: str) -> str:
        return new_topic(secure.bootstrap, partitions, configs)

    return create


@pytest.fixture(scope="session")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    """The broker where clients log in; tests add users of their own."""
    broker = LoginBroker(tmp_path_factory.mktemp("logins"))
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
