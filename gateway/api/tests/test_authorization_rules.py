"""Rules that are of one API: what a client is told of that which is denied."""

from __future__ import annotations

import pytest

from headgate.gateway.api.context import CloseConnection
from headgate.gateway.api.tests.test_authorization import (
    FETCH,
    TOPIC,
    Broker,
    Op,
    Res,
    ScriptedAuthorizer,
    broker,
    codes,
    data,
    on_cluster,
)
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.messages.describe_cluster import DescribeClusterRequest
from headgate.protocol.messages.describe_groups import DescribeGroupsRequest
from headgate.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headgate.protocol.messages.fetch import FetchRequest, FetchTopic, ReplicaState
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.list_groups import ListGroupsRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headgate.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headgate.protocol.messages.produce import ProduceRequest, TopicProduceData

__all__ = ["broker"]


def test_a_denied_produce_without_a_reply_ends_the_connection(broker: Broker) -> None:
    request = ProduceRequest(None, 0, 1_000, [TopicProduceData("t", partition_data=[data()])])
    with pytest.raises(CloseConnection, match="error 29"):
        broker.ask(request, 9, ScriptedAuthorizer(lambda *_: False))


def test_a_session_ends_what_is_denied_later(broker: Broker) -> None:
    allowed = ScriptedAuthorizer(lambda *_: True)
    first = broker.ask(FetchRequest(topics=FETCH, session_epoch=0), 12, allowed)
    assert (codes(first), len(first.responses)) == (set(), 2)
    denied = ScriptedAuthorizer(lambda _, __, name: name != "t")
    again = FetchRequest(topics=[], session_id=first.session_id, session_epoch=1)
    (row,) = broker.ask(again, 12, denied).responses
    assert (row.topic, row.partitions[0].error_code) == ("t", TOPIC)


def test_a_follower_of_version_15_is_known_by_its_state(broker: Broker) -> None:
    authorizer = ScriptedAuthorizer(lambda *_: False)
    topic = FetchTopic(topic_id=broker.t, partitions=FETCH[0].partitions)
    response = broker.ask(FetchRequest(topics=[topic], replica_state=ReplicaState(2)), 15, authorizer)
    assert codes(response) == {TOPIC}
    assert authorizer.asked == on_cluster(Op.CLUSTER_ACTION)


def test_a_broker_without_cluster_action_is_named_once(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    topic = FetchTopic(topic_id=broker.t, partitions=FETCH[0].partitions)
    for _ in range(3):
        broker.ask(
            FetchRequest(topics=[topic], replica_state=ReplicaState(2)), 15, ScriptedAuthorizer(lambda *_: False)
        )
    (line,) = [record.getMessage() for record in caplog.records if record.name == "headgate.authorizer"]
    assert line.startswith("a broker is denied CLUSTER_ACTION: ")
    assert "add User:alice to super.users of all brokers" in line


def test_an_operation_on_the_cluster_is_enough(broker: Broker) -> None:
    authorizer = ScriptedAuthorizer(lambda operation, resource, _: resource is Res.CLUSTER or operation is Op.DESCRIBE)
    epochs = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, -1, 0)])])
    assert not codes(broker.ask(epochs, 3, authorizer))
    created = broker.ask(CreateTopicsRequest([CreatableTopic("v", 3, 1)]), 5, authorizer)
    (row,) = created.topics
    assert (row.error_code, row.topic_config_error_code, row.num_partitions, row.configs) == (0, TOPIC, -1, [])
    assert broker.node.services.metadata.image.topics["v"]
    assert not codes(broker.ask(DeleteTopicsRequest(topic_names=["v"]), 5, authorizer))


def test_a_producer_may_have_an_id_if_it_may_write_anywhere(broker: Broker) -> None:
    authorizer = ScriptedAuthorizer(
        lambda operation, resource, name: (operation, resource, name) == (Op.WRITE, Res.TOPIC, "*")
    )
    assert not codes(broker.ask(InitProducerIdRequest(None), 3, authorizer))


def test_the_name_behind_a_denied_id_is_not_told(broker: Broker) -> None:
    request = DeleteTopicsRequest([DeleteTopicState(None, broker.t), DeleteTopicState(None, bytes(range(16)))])
    (row, unknown) = broker.ask(request, 6, ScriptedAuthorizer(lambda *_: False)).responses[::-1]
    assert (row.name, row.topic_id, row.error_code) == (None, broker.t, TOPIC)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    may_describe = ScriptedAuthorizer(lambda operation, *_: operation is Op.DESCRIBE)
    row = broker.ask(DeleteTopicsRequest([DeleteTopicState(None, broker.t)]), 6, may_describe).responses[0]
    assert (row.name, row.error_code) == ("t", TOPIC)


def test_a_topic_is_not_created_without_create(broker: Broker) -> None:
    may_describe = ScriptedAuthorizer(lambda operation, *_: operation is Op.DESCRIBE)
    (row,) = broker.ask(MetadataRequest([MetadataRequestTopic(name="new")]), 9, may_describe).topics
    assert (row.name, row.error_code) == ("new", TOPIC)
    assert "new" not in broker.node.services.metadata.image.topics
    may_create = ScriptedAuthorizer(lambda _, resource, __: resource is Res.TOPIC)
    (row,) = broker.ask(MetadataRequest([MetadataRequestTopic(name="new")]), 9, may_create).topics
    assert row.error_code == 0


@pytest.mark.parametrize("version", [0, 1, 9, 12])
def test_of_all_topics_those_are_told_that_are_allowed(broker: Broker, version: int) -> None:
    authorizer = ScriptedAuthorizer(lambda _, __, name: name == "t")
    response = broker.ask(MetadataRequest([] if version == 0 else None), version, authorizer)
    assert [row.name for row in response.topics] == ["t"]
    assert response.brokers


def test_the_pages_of_topics_leave_out_denied_ones(broker: Broker) -> None:
    authorizer = ScriptedAuthorizer(lambda _, __, name: name == "u")
    response = broker.ask(DescribeTopicPartitionsRequest([]), 0, authorizer)
    assert [row.name for row in response.topics] == ["u"]


def test_authorized_operations_are_those_of_the_client(broker: Broker) -> None:
    some = {Op.DESCRIBE, Op.READ}
    authorizer = ScriptedAuthorizer(lambda operation, *_: operation in some)
    field = sum(1 << operation for operation in some)
    request = MetadataRequest(
        [MetadataRequestTopic(name="t")],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    response = broker.ask(request, 9, authorizer)
    assert response.topics[0].topic_authorized_operations == field
    assert response.cluster_authorized_operations == 1 << Op.DESCRIBE
    (group,) = broker.ask(DescribeGroupsRequest(["g"], include_authorized_operations=True), 5, authorizer).groups
    assert group.authorized_operations == field
    cluster = broker.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0, authorizer)
    assert cluster.cluster_authorized_operations == 1 << Op.DESCRIBE
    nothing = ScriptedAuthorizer(lambda *_: False)
    cluster = broker.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0, nothing)
    assert cluster.cluster_authorized_operations == 0


def test_groups_are_listed_that_may_be_described(broker: Broker) -> None:
    authorizer = ScriptedAuthorizer(lambda _, resource, name: resource is Res.GROUP and name == "g")
    assert [row.group_id for row in broker.ask(ListGroupsRequest(), 4, authorizer).groups] == ["g"]


def test_offsets_of_a_denied_topic_are_not_told(broker: Broker) -> None:
    authorizer = ScriptedAuthorizer(lambda _, __, name: name != "u")
    wanted = [OffsetFetchRequestTopics(name, partition_indexes=[0]) for name in "tu"]
    named, of_all = (OffsetFetchRequestGroup("g", topics=some) for some in (wanted, None))
    (group,) = broker.ask(OffsetFetchRequest(groups=[named]), 8, authorizer).groups
    told = {row.name: (row.partitions[0].committed_offset, row.partitions[0].error_code) for row in group.topics}
    assert told == {"t": (1, 0), "u": (-1, TOPIC)}
    (group,) = broker.ask(OffsetFetchRequest(groups=[of_all]), 8, authorizer).groups
    assert [row.name for row in group.topics] == ["t"]
    old = broker.ask(OffsetFetchRequest("g", None), 5, authorizer)
    assert [row.name for row in old.topics] == ["t"]


def test_a_group_that_reads_a_denied_topic_is_not_described(broker: Broker) -> None:
    heartbeat = ConsumerGroupHeartbeatRequest(
        "h", "m", 0, rebalance_timeout_ms=30_000, subscribed_topic_names=["u"], topic_partitions=[]
    )
    broker.ask(heartbeat, 1)
    authorizer = ScriptedAuthorizer(lambda _, __, name: name != "u")
    (group,) = broker.ask(ConsumerGroupDescribeRequest(["h"]), 0, authorizer).groups
    assert (group.error_code, group.members) == (TOPIC, [])


def test_many_topics_are_answered_in_steps(broker: Broker) -> None:
    names = [f"many-{number}" for number in range(80)]
    broker.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names]), 5)
    authorizer = ScriptedAuthorizer(lambda _, __, name: not name.endswith("7"))
    response = broker.ask(MetadataRequest([MetadataRequestTopic(name=name) for name in names]), 9, authorizer)
    assert len(response.topics) == 80
    assert {row.name for row in response.topics if row.error_code} == {name for name in names if name[-1] == "7"}
    wanted = MetadataRequest(None, include_topic_authorized_operations=True)
    assert len(broker.ask(wanted, 9, authorizer).topics) == 80 - 8 + 3
