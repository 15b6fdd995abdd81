"""A request that has changed something is a line of the audit log: before and after, without a secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.authorization import with_audit
from headgate.gateway.audit.audit_events import HIDDEN
from headgate.gateway.audit.changes import CHANGES, changed_tokens
from headgate.gateway.audit.tests.audited import PATH, Audited
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.metadata.image import Image
from headgate.gateway.security.tokens.delegation_token import DelegationToken
from headgate.gateway.tests.builders import HandlerBroker, begun, handler_of
from headgate.protocol.acls import AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headgate.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from headgate.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headgate.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headgate.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.messages.describe_client_quotas import EntityData
from headgate.protocol.messages.expire_delegation_token import ExpireDelegationTokenResponse
from headgate.protocol.messages.incremental_alter_configs import (
    DELETE,
    SET,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headgate.protocol.messages.metadata import MetadataRequest
from headgate.protocol.messages.renew_delegation_token import RenewDelegationTokenResponse
from headgate.protocol.schema import Message

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class AuditedBroker(HandlerBroker):
    """A broker whose handlers have the step of the audit."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, **{"authorizer.class.name": STANDARD})
        self.audited = Audited()

    def changes(self, request: Message, version: int) -> list[tuple[Any, ...]]:
        """The changes that the request has made: type, name, before, after."""
        known = len(self.audited.lines)
        handler = with_audit(handler_of(request, version), type(request), self.audited.log)
        begun(self.services.tasks, handler(request, self.context(version)))
        self.services.batcher.write_all()
        lines = self.audited.lines[known:]
        assert all(line["event"] == "changed" and line["principal"] == self.client.principal for line in lines)
        return [(line["resource_type"], line["resource_name"], line["before"], line["after"]) for line in lines]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[AuditedBroker]:
    broker = AuditedBroker(tmp_path)
    yield broker
    broker.close()


def test_topics_are_created_grown_and_deleted(broker: AuditedBroker) -> None:
    configs = [CreatableTopicConfig("retention.ms", "1000")]
    topics = [CreatableTopic("a", 2, 1, [], configs), CreatableTopic("bad name", 1, 1)]
    created = {"partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "1000"}}
    assert broker.changes(CreateTopicsRequest(topics, validate_only=True), 7) == []
    assert broker.changes(CreateTopicsRequest(topics), 7) == [("TOPIC", "a", None, created)]
    grown = CreatePartitionsRequest([CreatePartitionsTopic("a", 3, None), CreatePartitionsTopic("none", 3, None)])
    assert broker.changes(grown, 3) == [("TOPIC", "a", {"partitions": 2}, {"partitions": 3})]
    topic_id = broker.services.metadata.image.topics["a"].topic_id
    deleted = DeleteTopicsRequest([DeleteTopicState(None, topic_id), DeleteTopicState("none")])
    assert broker.changes(deleted, 6) == [("TOPIC", "a", {"partitions": 3}, None)]


def alter(kind: ResourceType, name: str, **configs: str | None) -> IncrementalAlterConfigsRequest:
    changes = [
        AlterableConfig(key.replace("_", "."), DELETE if value is None else SET, value)
        for key, value in configs.items()
    ]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, changes)])


def test_configs_have_both_values(broker: AuditedBroker) -> None:
    broker.services.metadata.create_topic("a", 1, configs={"retention.ms": "1"})
    changed = broker.changes(alter(ResourceType.TOPIC, "a", retention_ms="2", segment_ms="5"), 1)
    assert changed == [
        ("TOPIC", "a", {"retention.ms": "1", "segment.ms": None}, {"retention.ms": "2", "segment.ms": "5"})
    ]
    assert broker.changes(alter(ResourceType.TOPIC, "a", retention_ms="2"), 1) == []
    assert broker.changes(alter(ResourceType.TOPIC, "a", retention_ms=None), 1) == [
        ("TOPIC", "a", {"retention.ms": "2"}, {"retention.ms": None})
    ]


def test_passwords_are_hidden(broker: AuditedBroker) -> None:
    request = alter(ResourceType.BROKER, "0", listener_name_plaintext_ssl_keystore_password="geheim")
    assert broker.changes(request, 1) == [
        (
            "BROKER",
            "0",
            {"listener.name.plaintext.ssl.keystore.password": None},
            {"listener.name.plaintext.ssl.keystore.password": HIDDEN},
        )
    ]
    assert b"geheim" not in broker.audited.files.content[PATH]


def test_users_show_iterations_alone(broker: AuditedBroker) -> None:
    change = ScramCredentialUpsertion("bob", 2, 4096, b"saltsalt", b"password")
    request = AlterUserScramCredentialsRequest(upsertions=[change])
    mechanism = {"SCRAM-SHA-512": {"iterations": 4096}}
    assert broker.changes(request, 0) == [("USER", "bob", None, mechanism)]
    assert broker.changes(request, 0) == [("USER", "bob", mechanism, mechanism)], "another password is a change"
    gone = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion("bob", 2)])
    assert broker.changes(gone, 0) == [("USER", "bob", mechanism, None)]
    assert broker.changes(gone, 0) == []
    lines = broker.audited.files.content[PATH]
    assert b"salt" not in lines
    assert b"password" not in lines


def test_quotas_have_both_values(broker: AuditedBroker) -> None:
    entity = [EntityData("user", "bob")]
    request = AlterClientQuotasRequest([EntryData(entity, [OpData("producer_byte_rate", 7.0)])])
    assert broker.changes(AlterClientQuotasRequest(request.entries, validate_only=True), 1) == []
    assert broker.changes(request, 1) == [("QUOTA", "user 'bob'", None, {"producer_byte_rate": 7.0})]
    removed = AlterClientQuotasRequest([EntryData(entity, [OpData("producer_byte_rate", 0.0, remove=True)])])
    assert broker.changes(removed, 1) == [("QUOTA", "user 'bob'", {"producer_byte_rate": 7.0}, None)]


def test_acls_are_rules_that_were_not_there(broker: AuditedBroker) -> None:
    numbers = AclOperation.READ, AclPermission.ALLOW
    creation = AclCreation(AclResource.TOPIC, "a", PatternType.LITERAL, "User:bob", "*", *numbers)
    rule = {"principal": "User:bob", "permission": "ALLOW", "operation": "READ", "host": "*"}
    assert broker.changes(CreateAclsRequest([creation]), 3) == [("ACL", "TOPIC:LITERAL:a", None, rule)]
    assert broker.changes(CreateAclsRequest([creation]), 3) == []
    wanted = DeleteAclsFilter(AclResource.TOPIC, None, PatternType.ANY, None, None, 1, 1)
    assert broker.changes(DeleteAclsRequest([wanted, wanted]), 3) == [("ACL", "TOPIC:LITERAL:a", rule, None)]


def test_requests_that_change_nothing_have_no_step(broker: AuditedBroker) -> None:
    handler = handler_of(MetadataRequest(), 12)
    assert with_audit(handler, MetadataRequest, broker.audited.log) is handler
    assert MetadataRequest.api_key not in CHANGES


def test_a_line_is_one_object(broker: AuditedBroker) -> None:
    broker.changes(CreateTopicsRequest([CreatableTopic("a", 1, 1)]), 7)
    [line] = broker.audited.files.content[PATH].splitlines()
    assert json.loads(line)["api"] == "CreateTopics"


def test_tokens_show_their_people_and_times_but_no_secret() -> None:
    token = DelegationToken("T1", "User:bob", "User:alice", ("User:job",), 0, 2000, 1000)
    none = Image.empty()
    one, longer = none._replace(tokens={"T1": token}), none._replace(tokens={"T1": token._replace(expiry_ms=1500)})
    shown = {
        "owner": "User:bob",
        "requester": "User:alice",
        "renewers": ["User:job"],
        "expires": "1970-01-01T00:00:01.000Z",
        "max_lifetime": "1970-01-01T00:00:02.000Z",
    }
    later = {**shown, "expires": "1970-01-01T00:00:01.500Z"}

    def changes(response: Message, before: Image, after: Image) -> list[tuple[object, object]]:
        found = changed_tokens(None, response, before, after)
        return [(change["before"], change["after"]) for change in found if change["resource_name"] == "T1"]

    created = CreateDelegationTokenResponse(token_id="T1", hmac=b"secret")
    renewed = RenewDelegationTokenResponse(expiry_timestamp_ms=1500)
    assert changes(created, none, one) == [(None, shown)]
    assert changes(renewed, one, longer) == [(shown, later)]
    assert changes(ExpireDelegationTokenResponse(expiry_timestamp_ms=7), longer, none) == [(later, None)]
    assert changes(RenewDelegationTokenResponse(error_code=62), one, longer) == []
    assert changes(RenewDelegationTokenResponse(expiry_timestamp_ms=9), one, longer) == []
