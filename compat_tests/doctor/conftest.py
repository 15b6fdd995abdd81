"""Brokers that the tests of the doctor share; none of the tests changes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.doctor.secured import LOGIN, SecuredBroker
from compat_tests.harness.broker import HTTP, HeadgateBroker
from compat_tests.harness.ports import reserve


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadgateBroker]:
    """A broker without security, with HTTP."""
    broker = HeadgateBroker(tmp_path_factory.mktemp("plain"))
    broker.settings[HTTP] = f"http://127.0.0.1:{reserve(broker)}"
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with TLS, client certificates, logins and ACLs."""
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    broker.start()
    assert LOGIN in broker.ports()
    try:
        yield broker
    finally:
        broker.stop()
