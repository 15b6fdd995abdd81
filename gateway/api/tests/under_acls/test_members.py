"""What a member gets follows the ACLs of its client; `test_under_acls` compares the answers with Kafka's."""

from __future__ import annotations

from pathlib import Path

from headgate.gateway.api.tests.under_acls.acl_sets import ADMIN
from headgate.gateway.api.tests.under_acls.dispatching_broker import DispatchingBroker
from headgate.protocol.acls import AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

LITERAL, ALLOW = int(PatternType.LITERAL), int(AclPermission.ALLOW)


def allow(broker: DispatchingBroker, resource: AclResource, name: str, operation: AclOperation) -> None:
    creation = AclCreation(int(resource), name, LITERAL, "User:alice", "*", int(operation), ALLOW)
    (result,) = broker.ask(ADMIN, CreateAclsRequest([creation]), 3).results
    assert not result.error_code


def beat(broker: DispatchingBroker, epoch: int, expression: str | None = None) -> tuple[int, int]:
    """A heartbeat of alice's member: its epoch, and the number of topics that it gets; -1 for no news."""
    joins = {"rebalance_timeout_ms": 60_000, "topic_partitions": []} if expression else {}
    request = ConsumerGroupHeartbeatRequest("g", "m", epoch, subscribed_topic_regex=expression, **joins)  # type: ignore[arg-type]
    response = broker.ask("alice", request, 1)
    assert not response.error_code
    return response.member_epoch, -1 if response.assignment is None else len(response.assignment.topic_partitions)


def test_an_expression_matches_anew_after_a_change_of_acls(tmp_path: Path) -> None:
    broker = DispatchingBroker(tmp_path)
    broker.ask(ADMIN, CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in "tu"], 1000), 7)
    allow(broker, AclResource.GROUP, "g", AclOperation.READ)
    allow(broker, AclResource.TOPIC, "t", AclOperation.READ)
    epoch, topics = beat(broker, 0, ".*")
    assert topics == 1
    broker.node.time.advance(2_000)
    assert beat(broker, epoch) == (epoch, -1)
    allow(broker, AclResource.TOPIC, "u", AclOperation.READ)
    broker.node.time.advance(2_000)
    epoch, topics = beat(broker, epoch)
    assert topics == 2
    every_t = DeleteAclsFilter(int(AclResource.TOPIC), "t", LITERAL, None, None, 1, 1)
    broker.ask(ADMIN, DeleteAclsRequest([every_t]), 3)
    broker.node.time.advance(2_000)
    assert beat(broker, epoch)[1] == 1
    broker.node.close()
