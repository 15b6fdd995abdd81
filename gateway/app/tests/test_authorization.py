"""The authorizer of a broker is that of its settings, and a class in Python is checked at the start."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import NonCallableMock

import pytest

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorizer
from headgate.gateway.api.context import Client
from headgate.gateway.app.authorization import make_authorizer, open_audit
from headgate.gateway.audit.audit_log import AuditLog
from headgate.gateway.config import BrokerConfig
from headgate.gateway.config.broker import ACL_AUTHORIZERS, STANDARD_AUTHORIZER
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.security.acls.acls_image import NO_ACLS
from headgate.gateway.security.acls.authorizer import ClusterMetadataAuthorizer
from headgate.gateway.security.acls.observing import ObservingAuthorizer
from headgate.protocol.security.acls.decision import AclPolicy
from headgate.storage.errors import StorageError
from headgate.storage.files import Files


class Company:
    """The authorizer of a company."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings

    def allows(self, *_: object) -> bool:
        return True

    def allows_any(self, *_: object) -> bool:
        return True


class Broken:
    def __init__(self, _settings: object) -> None:
        raise RuntimeError("no directory server")


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("company_of_test")
    made.__dict__.update(Company=Company, Broken=Broken, Empty=SimpleNamespace, Count=len)
    monkeypatch.setitem(sys.modules, "company_of_test", made)


def make(text: str, given: Authorizer | None = None) -> Authorizer | None:
    return make_authorizer(BrokerConfig.load(text), lambda: NO_ACLS, given)


def test_without_a_class_there_is_none() -> None:
    assert make("super.users=User:a") is None


@pytest.mark.parametrize("name", [STANDARD_AUTHORIZER, *ACL_AUTHORIZERS])
def test_kafkas_names_mean_the_acls_of_the_cluster(name: str) -> None:
    text = f"authorizer.class.name={name}\nsuper.users=User:a\nallow.everyone.if.no.acl.found=true"
    authorizer = make(text)
    assert isinstance(authorizer, ClusterMetadataAuthorizer)
    assert authorizer.policy == AclPolicy(frozenset({"User:a"}), True, name != STANDARD_AUTHORIZER)


def test_the_authorizer_of_a_test_wins() -> None:
    given = NonCallableMock(Authorizer)
    assert make(f"authorizer.class.name={STANDARD_AUTHORIZER}", given) is given


def test_observing_wraps_any_authorizer() -> None:
    for name in (STANDARD_AUTHORIZER, "python:company_of_test:Company"):
        authorizer = make(f"authorizer.class.name={name}\nheadgate.authorizer.mode=observe")
        assert isinstance(authorizer, ObservingAuthorizer)


def test_a_class_in_python_gets_the_settings_of_the_file() -> None:
    authorizer = make("authorizer.class.name=python:company_of_test:Company\nnum.partitions=3")
    assert isinstance(authorizer, Company)
    assert authorizer.settings["num.partitions"] == "3"


@pytest.mark.parametrize(
    "name, reason",
    [
        ("nowhere_of_test:Company", "nowhere_of_test"),
        ("company_of_test:Missing", "Missing"),
        ("company_of_test:Broken", "no directory server"),
        ("company_of_test:Empty", "cannot be used"),
        ("company_of_test:Count", "has no method allows"),
    ],
)
def test_a_class_that_cannot_be_used_stops_the_start(name: str, reason: str) -> None:
    with pytest.raises(StorageError, match=rf"authorizer\.class\.name=python:{name}.*{reason}"):
        make(f"authorizer.class.name=python:{name}")


def test_a_file_in_the_settings_is_the_audit_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    time, metrics = ManualTime(), Metrics()

    def opened(text: str) -> AuditLog | None:
        return open_audit(BrokerConfig.load(text), Files(), time.clock, time.scheduler, metrics)

    assert opened("") is None
    assert opened("headgate.audit.log=") is None
    audit = opened(f"headgate.audit.log={tmp_path}/audit.log")
    assert audit is not None
    observe = f"authorizer.class.name={STANDARD_AUTHORIZER}\nheadgate.authorizer.mode=observe"
    authorizer = make_authorizer(BrokerConfig.load(observe), lambda: NO_ACLS, None, audit)
    assert authorizer is not None
    assert authorizer.allows(Client("10.0.0.1", 1, "", 2), AclOperation.READ, AclResource.TOPIC, "t")
    assert '"would_be_refused"' in (tmp_path / "audit.log").read_text()
    assert not caplog.messages
    make(observe)
    assert "without headgate.audit.log" in caplog.text
