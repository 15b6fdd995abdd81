"""Observing notes the narrowest right that a request lacks, and nothing that a client would not miss.

Refusals of an enforcing authorizer are reported to the audit log by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.api.authorization import with_authorization
from headgate.gateway.api.handler_registration import load
from headgate.gateway.audit.tests.audited import Audited
from headgate.gateway.security.acls.acls_image import image_of
from headgate.gateway.security.acls.authorizer import ClusterMetadataAuthorizer
from headgate.gateway.security.acls.observing import ObservingAuthorizer
from headgate.gateway.tests.builders import HandlerBroker, begun
from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.list_groups import ListGroupsRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.schema import Message
from headgate.protocol.security.acls.decision import AclPolicy

WRITE_A = AclBinding(
    AclResource.TOPIC, "a", PatternType.LITERAL, "User:ANONYMOUS", "*", AclOperation.WRITE, AclPermission.ALLOW
)


class RuledBroker(HandlerBroker):
    """A broker whose handlers have the step of the authorizer."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.audited = Audited()
        self.services.audit = self.audited.log
        self.services.metadata.create_topic("a", 1)
        self.services.metadata.create_topic("b", 1)

    def ask_ruled(self, request: Message, version: int, *, observes: bool, acls: tuple[AclBinding, ...] = ()) -> None:
        image = image_of(acls)
        enforcing = ClusterMetadataAuthorizer(lambda: image, AclPolicy())
        authorizer = ObservingAuthorizer(enforcing, self.audited.log.report_observed) if observes else enforcing
        served = load()[request.api_key].find(version)
        assert served is not None
        handler = with_authorization(served.handler, served.authorize, authorizer)
        try:
            begun(self.services.tasks, handler(request, self.context(version)))
        except Exception:  # noqa: BLE001  a refusal of the whole request
            assert not observes
        self.services.batcher.write_all()

    def noted(self, request: Message, version: int, *acls: AclBinding) -> list[str]:
        """The would-be refusals of a request, as operation, resource type, name."""
        return self._noted("would_be_refused", request, version, observes=True, acls=acls)

    def refused(self, request: Message, version: int, *acls: AclBinding) -> list[str]:
        return self._noted("refused", request, version, observes=False, acls=acls)

    def _noted(
        self, kind: str, request: Message, version: int, *, observes: bool, acls: tuple[AclBinding, ...]
    ) -> list[str]:
        known = len(self.audited.lines)
        self.ask_ruled(request, version, observes=observes, acls=acls)
        lines = self.audited.lines[known:]
        assert {line["event"] for line in lines} <= {kind}
        return [f"{line['operation']} {line['resource_type']} {line['resource_name']}" for line in lines]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RuledBroker]:
    broker = RuledBroker(tmp_path)
    yield broker
    broker.close()


def named(*names: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])


def test_the_narrower_of_two_rights_is_noted(broker: RuledBroker) -> None:
    created = CreateTopicsRequest([CreatableTopic("new", 1, 1)])
    deleted = DeleteTopicsRequest([DeleteTopicState("new")])
    assert broker.noted(created, 7) == ["CREATE TOPIC new"]
    assert broker.noted(deleted, 6) == ["DESCRIBE TOPIC new", "DELETE TOPIC new"]
    assert broker.noted(InitProducerIdRequest(transactional_id=None), 4) == ["WRITE TOPIC None"]
    assert broker.noted(InitProducerIdRequest(transactional_id=None), 4, WRITE_A) == []


def test_omitted_rows_are_no_refusals(broker: RuledBroker) -> None:
    assert broker.noted(MetadataRequest(topics=None), 12) == []
    assert broker.refused(MetadataRequest(topics=None), 12) == []
    assert broker.noted(ListGroupsRequest(), 4) == []
    assert broker.refused(ListGroupsRequest(), 4) == []


def test_named_topics_are_noted(broker: RuledBroker) -> None:
    assert broker.noted(named("a", "b"), 12, WRITE_A) == ["DESCRIBE TOPIC b"]
    assert broker.refused(named("a", "b"), 12, WRITE_A) == ["DESCRIBE TOPIC b"]


def test_a_refused_request_is_reported_once(broker: RuledBroker) -> None:
    created = CreateTopicsRequest([CreatableTopic("new", 1, 1), CreatableTopic("more", 1, 1)])
    assert broker.refused(created, 7) == ["CREATE TOPIC new", "CREATE TOPIC more"]
    assert broker.refused(InitProducerIdRequest(transactional_id=None), 4) == ["WRITE TOPIC None"]
    line = broker.audited.lines[-1]
    assert (line["api"], line["principal"]) == ("InitProducerId", "User:ANONYMOUS")


def test_authorized_operations_are_no_refusals(broker: RuledBroker) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a")], include_topic_authorized_operations=True)
    request.include_cluster_authorized_operations = True
    assert broker.refused(request, 10, WRITE_A) == []
    assert broker.noted(request, 10, WRITE_A) == []
