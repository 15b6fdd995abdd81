"""Observing refuses nothing, and remembers what the ACLs would refuse, within bounds."""

from __future__ import annotations

import logging

import pytest

from headgate.gateway.security.acls import observing
from headgate.gateway.security.acls.acls_image import image_of
from headgate.gateway.security.acls.authorizer import Asked, ClusterMetadataAuthorizer
from headgate.gateway.security.acls.observing import ObservingAuthorizer
from headgate.protocol.security.acls.decision import AclPolicy
from headgate.protocol.security.acls.tests.made import ALICE, READ, TOPIC, WRITE, Somebody, acl


class Refusing:
    """An authorizer of a user."""

    def allows(self, *_: object) -> bool:
        return False

    def allows_any(self, *_: object) -> bool:
        return False


@pytest.fixture
def authorizer() -> ObservingAuthorizer:
    acls = image_of([acl()])
    return ObservingAuthorizer(ClusterMetadataAuthorizer(lambda: acls, AclPolicy()))


def test_everything_is_allowed_and_refusals_are_counted(authorizer: ObservingAuthorizer) -> None:
    assert authorizer.allows(ALICE, READ, TOPIC, "t")
    assert not authorizer.observed
    assert all(authorizer.allows(ALICE, WRITE, TOPIC, "t") for _ in range(3))
    assert authorizer.allows_any(ALICE, WRITE, TOPIC)
    assert authorizer.observed == {
        Asked("User:alice", "10.0.0.1", WRITE, TOPIC, "t"): 3,
        Asked("User:alice", "10.0.0.1", WRITE, TOPIC, None): 1,
    }
    assert [*authorizer.count_refusals()] == [(("WRITE", "TOPIC"), 4)]
    assert authorizer.reads_acls


def test_each_refusal_is_logged_once_with_its_rule(
    authorizer: ObservingAuthorizer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.authorizer")
    for _ in range(2):
        authorizer.allows(ALICE, WRITE, TOPIC, "t")
    (line,) = caplog.messages
    rule = "would be denied, as the resource has ACLs, and none of them allows it"
    assert line == f"observe: User:alice from 10.0.0.1, WRITE on TOPIC 't': {rule}"


def test_memory_is_bounded(authorizer: ObservingAuthorizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "MAX_OBSERVED", 2)
    for name in ("a", "b", "c", "x" * 301):
        authorizer.allows(ALICE, READ, TOPIC, name)
    authorizer.allows(Somebody("User:" + "x" * 400), READ, TOPIC, "a")
    assert [asked.name for asked in authorizer.observed] == ["a", "b"]
    assert authorizer.counts.total() == 5


def test_the_authorizer_of_a_user_can_be_observed() -> None:
    authorizer = ObservingAuthorizer(Refusing())
    assert authorizer.allows(ALICE, READ, TOPIC, "t")
    assert authorizer.allows_any(ALICE, READ, TOPIC)
    assert len(authorizer.observed) == 2
    assert not authorizer.reads_acls
