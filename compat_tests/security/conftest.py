"""Fixtures: brokers with TLS and logins for the session, and a KDC."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat_tests.harness.topics import new_topic
from compat_tests.security import kdc
from compat_tests.security.kdc import Kdc
from compat_tests.security.login_broker import LoginBroker
from compat_tests.security.mechanisms_broker import SERVICE_PRINCIPAL, USERS, MechanismsBroker
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


@pytest.fixture(scope="session")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc | None]:
    """A KDC with the keys of the broker and of its users, and their tickets; None where it is not installed."""
    if not kdc.is_installed():
        yield None
        return
    served = Kdc(tmp_path_factory.mktemp("kdc"))
    served.start()
    try:
        served.add(SERVICE_PRINCIPAL, *USERS)
        for user in USERS:
            served.log_in(user, f"{user}.keytab.tickets")
        yield served
    finally:
        served.stop()


@pytest.fixture(scope="session")
def mechanisms(realm: Kdc | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MechanismsBroker]:
    """The broker with every mechanism; tests make topics of their own."""
    broker = MechanismsBroker(tmp_path_factory.mktemp("mechanisms"), realm)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
