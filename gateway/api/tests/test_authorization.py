"""Every served API asks the authorizer what Apache Kafka's asks, and tells of a denial what Kafka's tells."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headgate.gateway.api import authorized_operations
from headgate.gateway.api.authorization import AclOperation, AclResource, GrantedTopics
from headgate.gateway.api.authorization_rules import unrestricted
from headgate.gateway.api.context import Client
from headgate.gateway.api.dispatch import Dispatcher
from headgate.gateway.api.handler_registration import handles, load
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol import registry
from headgate.protocol.compiler import read, write
from headgate.protocol.errors import ErrorCode
from headgate.protocol.header import RequestHeader, read_response_header, write_request_header
from headgate.protocol.messages import alter_configs, describe_configs, incremental_alter_configs
from headgate.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headgate.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headgate.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, OpData
from headgate.protocol.messages.alter_client_quotas import EntryData as QuotaEntry
from headgate.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from headgate.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headgate.protocol.messages.delete_groups import DeleteGroupsRequest
from headgate.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.messages.describe_acls import DescribeAclsRequest
from headgate.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, EntityData
from headgate.protocol.messages.describe_cluster import DescribeClusterRequest
from headgate.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from headgate.protocol.messages.describe_groups import DescribeGroupsRequest
from headgate.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from headgate.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headgate.protocol.messages.describe_quorum import DescribeQuorumRequest
from headgate.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headgate.protocol.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headgate.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from headgate.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headgate.protocol.messages.end_txn import EndTxnRequest
from headgate.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.join_group import JoinGroupRequest
from headgate.protocol.messages.leave_group import LeaveGroupRequest
from headgate.protocol.messages.list_config_resources import ListConfigResourcesRequest
from headgate.protocol.messages.list_groups import ListGroupsRequest
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headgate.protocol.messages.list_transactions import ListTransactionsRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from headgate.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest
from headgate.protocol.messages.sync_group import SyncGroupRequest
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headgate.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from headgate.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.schema import Message, Struct

Op, Res = AclOperation, AclResource
TOPIC, GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER, TRANSACTIONAL_ID = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
CLIENT = Client("192.0.2.9", 50_000, "192.0.2.1", 9092, principal="User:alice")
Asked = tuple[AclOperation, AclResource, str]


class ScriptedAuthorizer:
    """Allows what `is_allowed` says, and notes what it was asked."""

    def __init__(self, is_allowed: Callable[[AclOperation, AclResource, str], bool]) -> None:
        self.is_allowed = is_allowed
        self.asked: set[Asked] = set()

    def allows(self, client: Client, operation: AclOperation, resource: AclResource, name: str) -> bool:
        assert client is CLIENT
        self.asked.add((operation, resource, name))
        return self.is_allowed(operation, resource, name)

    def allows_any(self, client: Client, operation: AclOperation, resource: AclResource) -> bool:
        return self.allows(client, operation, resource, "*")


class Broker:
    """The services of a node behind a dispatcher with a scripted authorizer; topics `t` and `u`, group `g`."""

    def __init__(self, directory: Path) -> None:
        self.node = HandlerBroker(directory)
        self.node.ask(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1), CreatableTopic("u", 1, 1)]), 5)
        produce = ProduceRequest(None, 1, 1_000, [TopicProduceData("t", partition_data=[data()])])
        self.node.ask(produce, 9)
        self.ask(COMMIT, 8)

    @property
    def t(self) -> bytes:
        return self.node.services.metadata.image.topics["t"].topic_id

    def ask(self, request: Message, version: int, authorizer: ScriptedAuthorizer | None = None) -> Any:
        """The response over the wire; None if the reply is owed to something that does not come."""
        return self.ask_by(Dispatcher(self.node.services, load(), authorizer), request, version)

    def ask_by(self, dispatcher: Dispatcher, request: Message, version: int, client: Client = CLIENT) -> Any:
        """`ask`, by a dispatcher that has answered others."""
        frame = bytearray()
        write_request_header(frame, RequestHeader(request.api_key, version, 7, "me"))
        write(request, version, frame, [])
        replies: list[Any] = []
        reply = dispatcher.dispatch(memoryview(frame), client, replies.append)
        if isinstance(reply, list):
            replies.append(reply)
        for _ in range(4):
            self.node.services.batcher.write_all()
            self.node.time.advance(4_000)
        assert len(replies) == 1, f"{request} is not answered"
        if isinstance(replies[0], Exception):
            raise replies[0]
        data = memoryview(
            b"".join(
                bytes(one) if isinstance(one, bytes | bytearray | memoryview) else one.read() for one in replies[0]
            )
        )
        _, position = read_response_header(data[4:], request.api_key, version)
        response, end = read(registry.response_class(request.api_key), version, data[4:], position)
        assert end == len(data) - 4
        (size,) = struct.unpack_from(">i", data)
        assert size == end
        return response


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path / "data")
    yield made
    made.node.close()


def data() -> PartitionProduceData:
    return PartitionProduceData(0, bytes(batch.build([Record(-1, -1, None, b"v")])))


def transactional_data() -> PartitionProduceData:
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    return PartitionProduceData(0, bytes(batch.build([Record(-1, -1, None, b"v")], **producer)))


def commit_row(name: str) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 1, committed_metadata="")])


COMMIT = OffsetCommitRequest("g", topics=[commit_row("t"), commit_row("u")])
TXN_COMMIT = TxnOffsetCommitRequest(
    "x",
    "g",
    7,
    0,
    topics=[
        TxnOffsetCommitRequestTopic(name, partitions=[TxnOffsetCommitRequestPartition(0, 1, committed_metadata="")])
        for name in "tu"
    ],
)


class Case(NamedTuple):
    """One request, the error of each denied part, and what the authorizer is asked, with everything allowed.

    `codes`: every error in the response if everything is denied; none where the denied parts are left out.
    """

    request: Message
    version: int
    codes: set[ErrorCode]
    asked: set[Asked]


def topics(operation: AclOperation, *names: str) -> set[Asked]:
    return {(operation, Res.TOPIC, name) for name in names or ("t", "u")}


def with_all_operations(*names: str) -> set[Asked]:
    return {
        (operation, Res.TOPIC, name)
        for operation in Op
        if authorized_operations.TOPIC >> operation & 1
        for name in names
    }


def on_group(operation: AclOperation) -> set[Asked]:
    return {(operation, Res.GROUP, "g")}


def on_cluster(operation: AclOperation) -> set[Asked]:
    return {(operation, Res.CLUSTER, "kafka-cluster")}


def config_resources(module: Any, kind: type[Struct]) -> list[Any]:
    return [kind(resource_type=number, resource_name=name) for number, name in ((2, "t"), (4, "0"), (32, "g"))]


def config_asked(operation: AclOperation) -> set[Asked]:
    return topics(operation, "t") | on_group(operation) | on_cluster(operation)


FETCH = [
    FetchTopic(topic=name, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)]) for name in "tu"
]
# fmt: off
CASES = [
    Case(ProduceRequest(None, 1, 1_000, [TopicProduceData(name, partition_data=[data()]) for name in "tu"]), 9, {TOPIC}, topics(Op.WRITE)),
    Case(ProduceRequest("x", 1, 1_000, [TopicProduceData("t", partition_data=[transactional_data()])]), 9, {TRANSACTIONAL_ID}, topics(Op.WRITE, "t") | {(Op.WRITE, Res.TRANSACTIONAL_ID, "x")}),
    Case(FetchRequest(topics=FETCH), 12, {TOPIC}, topics(Op.READ)),
    Case(FetchRequest(topics=FETCH), 4, {TOPIC}, topics(Op.READ)),
    Case(FetchRequest(topics=FETCH), 1, {TOPIC}, topics(Op.READ)),
    Case(FetchRequest(topics=FETCH, replica_id=2), 12, {TOPIC}, on_cluster(Op.CLUSTER_ACTION)),
    Case(ListOffsetsRequest(-1, topics=[ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=-1)]) for name in "tu"]), 7, {TOPIC}, topics(Op.DESCRIBE)),
    Case(ListOffsetsRequest(-1, topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])]), 0, {TOPIC}, topics(Op.DESCRIBE, "t")),
    Case(MetadataRequest([MetadataRequestTopic(name=name) for name in "tu"]), 9, {TOPIC}, topics(Op.DESCRIBE)),
    Case(MetadataRequest([MetadataRequestTopic(name="new")]), 9, {TOPIC}, topics(Op.DESCRIBE, "new") | on_cluster(Op.CREATE)),
    Case(MetadataRequest(None), 9, set(), topics(Op.DESCRIBE, "t", "u", "__consumer_offsets")),
    Case(MetadataRequest([]), 0, set(), topics(Op.DESCRIBE, "t", "u", "__consumer_offsets")),
    Case(COMMIT, 8, {GROUP}, on_group(Op.READ) | topics(Op.READ)),
    Case(OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])]), 5, {GROUP}, on_group(Op.DESCRIBE) | topics(Op.DESCRIBE, "t")),
    Case(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])]), 8, {GROUP}, on_group(Op.DESCRIBE) | topics(Op.DESCRIBE, "t")),
    Case(TXN_COMMIT, 3, {TRANSACTIONAL_ID}, {(Op.WRITE, Res.TRANSACTIONAL_ID, "x")} | on_group(Op.READ) | topics(Op.READ)),
    Case(FindCoordinatorRequest("g"), 3, {GROUP}, on_group(Op.DESCRIBE)),
    Case(FindCoordinatorRequest(coordinator_keys=["g"]), 4, {GROUP}, on_group(Op.DESCRIBE)),
    Case(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4, {TRANSACTIONAL_ID}, {(Op.DESCRIBE, Res.TRANSACTIONAL_ID, "x")}),
    Case(JoinGroupRequest("g", 10_000, protocol_type="consumer"), 5, {GROUP}, on_group(Op.READ)),
    Case(SyncGroupRequest("g", 1, "m"), 3, {GROUP}, on_group(Op.READ)),
    Case(HeartbeatRequest("g", 1, "m"), 3, {GROUP}, on_group(Op.READ)),
    Case(LeaveGroupRequest("g"), 3, {GROUP}, on_group(Op.READ)),
    Case(DescribeGroupsRequest(["g"]), 5, {GROUP}, on_group(Op.DESCRIBE)),
    Case(ListGroupsRequest(), 4, set(), on_cluster(Op.DESCRIBE)),
    Case(DeleteGroupsRequest(["g"]), 2, {GROUP}, on_group(Op.DELETE)),
    Case(OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])]), 0, {GROUP}, on_group(Op.DELETE) | topics(Op.READ, "t")),
    Case(ConsumerGroupHeartbeatRequest("h", "m", 0, rebalance_timeout_ms=30_000, subscribed_topic_names=["t"], topic_partitions=[]), 1, {GROUP}, {(Op.READ, Res.GROUP, "h")} | topics(Op.DESCRIBE, "t")),
    Case(ConsumerGroupDescribeRequest(["g"]), 0, {GROUP}, on_group(Op.DESCRIBE)),
    Case(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3, set(), set()),
    Case(CreateTopicsRequest([CreatableTopic("v", 1, 1)]), 5, {TOPIC}, on_cluster(Op.CREATE) | topics(Op.DESCRIBE_CONFIGS, "v")),
    Case(DeleteTopicsRequest(topic_names=["t", "u"]), 5, {TOPIC}, on_cluster(Op.DELETE)),
    Case(DeleteTopicsRequest([DeleteTopicState("t")]), 6, {TOPIC}, on_cluster(Op.DELETE)),
    Case(DeleteRecordsRequest([DeleteRecordsTopic(name, [DeleteRecordsPartition(0, 0)]) for name in "tu"]), 2, {TOPIC}, topics(Op.DELETE)),
    Case(CreatePartitionsRequest([CreatePartitionsTopic(name, 2) for name in "tu"]), 2, {TOPIC}, topics(Op.ALTER)),
    Case(InitProducerIdRequest(None), 3, {CLUSTER}, on_cluster(Op.IDEMPOTENT_WRITE)),
    Case(InitProducerIdRequest("x"), 3, {TRANSACTIONAL_ID}, {(Op.WRITE, Res.TRANSACTIONAL_ID, "x")}),
    Case(AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=[AddPartitionsToTxnTopic(name, [0]) for name in "tu"]), 3, {TRANSACTIONAL_ID}, topics(Op.WRITE) | {(Op.WRITE, Res.TRANSACTIONAL_ID, "x")}),
    Case(AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("x", 1, 0, topics=[AddPartitionsToTxnTopic("t", [0])])]), 5, {CLUSTER}, on_cluster(Op.CLUSTER_ACTION)),
    Case(AddOffsetsToTxnRequest("x", group_id="g"), 3, {TRANSACTIONAL_ID}, {(Op.WRITE, Res.TRANSACTIONAL_ID, "x")} | on_group(Op.READ)),
    Case(EndTxnRequest("x"), 3, {TRANSACTIONAL_ID}, {(Op.WRITE, Res.TRANSACTIONAL_ID, "x")}),
    Case(OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(name, [OffsetForLeaderPartition(0, -1, 0)]) for name in "tu"]), 3, {TOPIC}, on_cluster(Op.CLUSTER_ACTION)),
    Case(describe_configs.DescribeConfigsRequest(config_resources(describe_configs, describe_configs.DescribeConfigsResource)), 4, {TOPIC, GROUP, CLUSTER}, config_asked(Op.DESCRIBE_CONFIGS)),
    Case(alter_configs.AlterConfigsRequest(config_resources(alter_configs, alter_configs.AlterConfigsResource)), 2, {TOPIC, GROUP, CLUSTER}, config_asked(Op.ALTER_CONFIGS)),
    Case(incremental_alter_configs.IncrementalAlterConfigsRequest(config_resources(incremental_alter_configs, incremental_alter_configs.AlterConfigsResource)), 1, {TOPIC, GROUP, CLUSTER}, config_asked(Op.ALTER_CONFIGS)),
    Case(DescribeLogDirsRequest(None), 4, {CLUSTER}, on_cluster(Op.DESCRIBE)),
    Case(DescribeClientQuotasRequest(), 1, {CLUSTER}, on_cluster(Op.DESCRIBE_CONFIGS)),
    Case(AlterClientQuotasRequest([QuotaEntry([EntityData("user", "ann")], [OpData("producer_byte_rate", 5.0)])]), 1, {CLUSTER}, on_cluster(Op.ALTER_CONFIGS)),
    Case(ElectLeadersRequest(topic_partitions=[TopicPartitions("t", [0])]), 2, {CLUSTER}, on_cluster(Op.ALTER)),
    Case(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("t", [ReassignablePartition(0, [0])])]), 0, {CLUSTER}, on_cluster(Op.ALTER)),
    Case(ListPartitionReassignmentsRequest(topics=None), 0, {CLUSTER}, on_cluster(Op.DESCRIBE)),
    Case(DescribeQuorumRequest(), 1, {CLUSTER}, on_cluster(Op.DESCRIBE)),
    Case(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("group.version", 1)]), 1, {CLUSTER}, on_cluster(Op.ALTER)),
    Case(DescribeClusterRequest(), 0, set(), set()),
    Case(SaslHandshakeRequest("PLAIN"), 1, {ErrorCode.ILLEGAL_SASL_STATE}, set()),
    Case(SaslAuthenticateRequest(b"\0a\0b"), 2, {ErrorCode.ILLEGAL_SASL_STATE}, set()),
    Case(DescribeUserScramCredentialsRequest(), 0, {CLUSTER}, on_cluster(Op.DESCRIBE)),
    Case(AlterUserScramCredentialsRequest([], [ScramCredentialUpsertion("ann", 1, 4096, b"salt", b"password")]), 0, {CLUSTER}, on_cluster(Op.ALTER)),
    Case(WriteTxnMarkersRequest([WritableTxnMarker(7, 0, False, [WritableTxnMarkerTopic("t", [0])], 0)]), 1, {CLUSTER}, on_cluster(Op.ALTER)),
    Case(DescribeProducersRequest([TopicRequest(name, [0]) for name in "tu"]), 0, {TOPIC}, topics(Op.READ)),
    Case(DescribeTransactionsRequest(["x"]), 0, {TRANSACTIONAL_ID}, {(Op.DESCRIBE, Res.TRANSACTIONAL_ID, "x")}),
    Case(ListTransactionsRequest(), 0, set(), set()),
    Case(CreateAclsRequest([AclCreation(2, "t", 3, "User:a", "*", 3, 3)]), 3, {CLUSTER}, on_cluster(Op.ALTER)),
    Case(DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, 1)]), 3, {CLUSTER}, on_cluster(Op.ALTER)),
    Case(DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3, {CLUSTER}, on_cluster(Op.DESCRIBE)),
    Case(ListConfigResourcesRequest(), 1, {CLUSTER}, on_cluster(Op.DESCRIBE_CONFIGS)),
    Case(DescribeTopicPartitionsRequest([DescribedTopic("t")]), 0, {TOPIC}, with_all_operations("t")),
    Case(DescribeTopicPartitionsRequest([]), 0, set(), with_all_operations("t", "u", "__consumer_offsets")),
]
# fmt: on
BETWEEN_BROKERS = [one.request for one in load().values() if one.ranges[0].between_brokers]
"""The APIs of a cluster's controller and its brokers."""
DENIED_BY_ALL = {ApiVersionsRequest, DescribeClusterRequest, SaslHandshakeRequest, SaslAuthenticateRequest}
"""The APIs that everybody may ask."""


_VARYING = re.compile(r"/data|usable_bytes=\d+|0x[0-9a-f]+|/[\w/-]+/test_\w+/\d")
"""Parts of a response that are of one run: directories, free space, addresses of objects."""


def name_of(case: Case) -> str:
    return f"{type(case.request).__name__}-{case.version}"


def codes(value: Any) -> set[ErrorCode]:
    """Every error code in a response."""
    if isinstance(value, list):
        return {code for element in value for code in codes(element)}
    if not isinstance(value, Struct):
        return set()
    found = {code for field in type(value).fields for code in codes(getattr(value, field.name))}
    own = getattr(value, "error_code", 0) or getattr(value, "partition_error_code", 0)
    return found | {ErrorCode(own)} if own else found


def texts(value: Any) -> set[str]:
    """Every text in a response."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, list):
        return {text for element in value for text in texts(element)}
    if isinstance(value, Struct):
        return {text for field in type(value).fields for text in texts(getattr(value, field.name))}
    return set()


def state(broker: Broker) -> Any:
    """What requests may change."""
    services = broker.node.services
    groups = {group.group_id: group.state for shard in services.groups.shards() for group in shard.groups.values()}
    ends = {(one.topic, one.index): (one.log.start_offset, one.log.end_offset) for one in services.partitions}
    image = services.metadata.image
    security = image.scram_credentials, image.quotas
    return groups, ends, image.topics, image.configs, image.features, image.next_producer_id, security


# Refused on this listener, as on any without a login; `gateway.security.tokens.tests.tokens_scenario` has their ACLs
OF_TOKENS: list[type[Message]] = [
    CreateDelegationTokenRequest,
    RenewDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    DescribeDelegationTokenRequest,
]


@pytest.mark.parametrize("request_type", OF_TOKENS, ids=lambda one: one.__name__)
def test_nobody_has_tokens_without_a_login(request_type: type[Message], broker: Broker) -> None:
    authorizer = ScriptedAuthorizer(lambda *_: True)
    response = broker.ask(request_type(), load()[request_type.api_key].served_max, authorizer)
    assert codes(response) == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}


def test_every_served_api_has_a_case() -> None:
    others = {one.api_key for one in (*BETWEEN_BROKERS, *OF_TOKENS)}
    assert {case.request.api_key for case in CASES} == load().keys() - others


@pytest.mark.parametrize("request_type", BETWEEN_BROKERS, ids=lambda one: one.__name__)
def test_a_client_without_cluster_action_gives_no_orders(request_type: type[Message], broker: Broker) -> None:
    authorizer = ScriptedAuthorizer(lambda *_: False)
    response = broker.ask(request_type(), load()[request_type.api_key].served_max, authorizer)
    assert codes(response) == {CLUSTER}


def test_an_api_without_a_declaration_cannot_be_registered() -> None:
    with pytest.raises(TypeError, match="authorize"):
        handles(HeartbeatRequest, versions="0-4")  # type: ignore[call-arg]


def test_only_apis_of_a_new_connection_are_for_everybody() -> None:
    open_to_all = {
        one.request for one in load().values() if any(served.authorize is unrestricted for served in one.ranges)
    }
    by_secret = {RenewDelegationTokenRequest, ExpireDelegationTokenRequest}
    assert open_to_all == {ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest} | by_secret


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_whoever_may_do_nothing_is_told_so_and_does_nothing(case: Case, broker: Broker) -> None:
    before = state(broker)
    authorizer = ScriptedAuthorizer(lambda *_: False)
    response = broker.ask(case.request, case.version, authorizer)
    if isinstance(case.request, DescribeLogDirsRequest | DescribeTopicPartitionsRequest):
        assert texts(response) <= {"t"}
    assert codes(response) == case.codes
    assert state(broker) == before
    assert authorizer.asked or type(case.request) in DENIED_BY_ALL | {ListTransactionsRequest}
    if not case.codes and type(case.request) not in DENIED_BY_ALL:
        assert not texts(response) & {"t", "u", "g"}


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_whoever_may_do_everything_notices_no_authorizer(case: Case, tmp_path: Path) -> None:
    told = []
    for number, authorizer in enumerate((None, ScriptedAuthorizer(lambda *_: True))):
        broker = Broker(tmp_path / str(number))
        told.append(re.sub(_VARYING, "", repr(broker.ask(case.request, case.version, authorizer))))
        if authorizer is not None:
            assert authorizer.asked == case.asked
        broker.node.close()
    assert told[0] == told[1]


def test_of_two_topics_one_is_denied(broker: Broker) -> None:
    count = 0
    for case in CASES:
        if {(resource, name) for _, resource, name in case.asked} >= {
            (Res.TOPIC, "t"),
            (Res.TOPIC, "u"),
        } and case.codes:
            count += 1
            authorizer = ScriptedAuthorizer(lambda _, resource, name: resource is not Res.TOPIC or name != "u")
            response = broker.ask(case.request, case.version, authorizer)
            rows = {row_name(row): codes(row) for row in rows_of(response)}
            assert rows["u"] == {TOPIC}, case
            assert TOPIC not in rows["t"], case
    assert count > 8


def rows_of(response: Any) -> list[Any]:
    return next(
        value
        for field in type(response).fields
        if isinstance(value := getattr(response, field.name), list) and value and row_name(value[0]) in {"t", "u"}
    )


def row_name(row: Any) -> Any:
    return getattr(row, "name", getattr(row, "topic", None))


class StableScript(ScriptedAuthorizer):
    """The same, with decisions that are good until the image changes."""

    def __init__(self, is_allowed: Callable[[AclOperation, AclResource, str], bool]) -> None:
        super().__init__(is_allowed)
        self.count = 0

    def allows(self, client: Client, operation: AclOperation, resource: AclResource, name: str) -> bool:
        self.count += 1
        self.asked.add((operation, resource, name))
        return self.is_allowed(operation, resource, name)

    def viewpoint(self, client: Client) -> str:
        return client.remote_host


def produce_to(*topics: str) -> ProduceRequest:
    return ProduceRequest(None, 1, 1_000, [TopicProduceData(name, partition_data=[data()]) for name in topics])


def codes_of(response: Any) -> list[ErrorCode]:
    return [ErrorCode(row.error_code) for topic in response.responses for row in topic.partition_responses]


def test_an_allowed_topic_is_asked_for_once_until_the_image_changes(broker: Broker) -> None:
    authorizer = StableScript(lambda operation, resource, name: name != "u")
    dispatcher = Dispatcher(broker.node.services, load(), authorizer)
    for _ in range(3):
        assert codes_of(broker.ask_by(dispatcher, produce_to("t", "u"), 9)) == [ErrorCode.NONE, TOPIC]
    assert authorizer.count == 1 + 3  # what is denied is asked for each time
    authorizer.is_allowed = lambda operation, resource, name: name != "t"
    assert codes_of(broker.ask_by(dispatcher, produce_to("t"), 9)) == [ErrorCode.NONE]
    broker.node.services.metadata.create_topic("v", 1)
    assert codes_of(broker.ask_by(dispatcher, produce_to("t", "u"), 9)) == [TOPIC, ErrorCode.NONE]


def test_another_principal_and_host_are_asked_for(broker: Broker) -> None:
    authorizer = StableScript(lambda operation, resource, name: True)
    dispatcher = Dispatcher(broker.node.services, load(), authorizer)
    alike = replace(CLIENT, remote_port=50_001)
    for client in (CLIENT, alike, replace(CLIENT, principal="User:bob"), replace(CLIENT, remote_host="192.0.2.8")):
        assert codes_of(broker.ask_by(dispatcher, produce_to("t"), 9, client)) == [ErrorCode.NONE]
    assert authorizer.count == 3


def test_a_remembered_topic_does_not_allow_a_transaction(broker: Broker) -> None:
    authorizer = StableScript(lambda operation, resource, name: resource is Res.TOPIC)
    dispatcher = Dispatcher(broker.node.services, load(), authorizer)
    assert codes_of(broker.ask_by(dispatcher, produce_to("t"), 9)) == [ErrorCode.NONE]
    asked = ProduceRequest("x", 1, 1_000, [TopicProduceData("t", partition_data=[transactional_data()])])
    assert codes_of(broker.ask_by(dispatcher, asked, 9)) == [TRANSACTIONAL_ID]


def test_a_remembered_topic_does_not_allow_a_follower(broker: Broker) -> None:
    authorizer = StableScript(lambda operation, resource, name: resource is Res.TOPIC)
    dispatcher = Dispatcher(broker.node.services, load(), authorizer)
    for replica_id, code in ((-1, ErrorCode.NONE), (1, TOPIC)):
        wanted = [FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0)])]
        response = broker.ask_by(dispatcher, FetchRequest(replica_id=replica_id, max_bytes=1_000, topics=wanted), 11)
        assert [row.error_code for topic in response.responses for row in topic.partitions] == [code]


def test_remembered_topics_are_bounded(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GrantedTopics, "MAX_REMEMBERED", 3)
    authorizer = StableScript(lambda operation, resource, name: True)
    dispatcher = Dispatcher(broker.node.services, load(), authorizer)
    for topic in ("t", "u"):  # two clients with one topic each are four things
        client = replace(CLIENT, principal=f"User:{topic}")
        assert codes_of(broker.ask_by(dispatcher, produce_to(topic), 9, client)) == [ErrorCode.NONE]
    assert authorizer.count == 2
    assert codes_of(broker.ask_by(dispatcher, produce_to("t"), 9, replace(CLIENT, principal="User:t"))) == [
        ErrorCode.NONE
    ]
    assert authorizer.count == 3
