"""A cluster for the tests of `headgate groups` and `headgate txn`.

Its brokers are plain values behind the real client, encoder and decoder.

The client connects to sockets of ours, so versions are negotiated and bytes are written and read as on a network.
A test sets up topics, groups, offsets and transactions, and may disturb answers.
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headgate.protocol.client.tests.scripted_peer import reply
from headgate.protocol.errors import ErrorCode
from headgate.protocol.frame import FrameReader
from headgate.protocol.internal.consumer_protocol import ConsumerProtocolAssignment, TopicPartition, encode
from headgate.protocol.messages import consumer_group_describe as kip_848
from headgate.protocol.messages.alter_configs import AlterConfigsResourceResponse
from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from headgate.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from headgate.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headgate.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headgate.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from headgate.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from headgate.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from headgate.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from headgate.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headgate.protocol.messages.find_coordinator import (
    GROUP,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headgate.protocol.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headgate.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from headgate.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headgate.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from headgate.protocol.messages.list_transactions import TransactionState as ListedTransaction
from headgate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headgate.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headgate.protocol.records import batch
from headgate.protocol.schema import Message
from headgate.storage.segment.legacy_messages import read_head
from headgate.tools.client.cluster import Cluster
from headgate.tools.tests.model_produce import append_produced

LATEST, EARLIEST = -1, -2
_TOPIC = 2  # the type of a resource with configs
Disturb = Callable[[int, Any, int], "Message | bytes | None"]


@dataclass
class Log:
    """A partition: its batches with their last offsets, its ends, and who leads it.

    `stable`: the last stable offset, if a transaction is open. `replicas` and `isr` are node ids.
    """

    leader: int = 0
    start: int = 0
    end: int = 0
    leader_epoch: int = 3
    stable: int | None = None
    batches: list[bytes] = field(default_factory=list)
    producers: list[ProducerState] = field(default_factory=list)
    aborted: list[tuple[int, int]] = field(default_factory=list)
    replicas: list[int] = field(default_factory=list)
    isr: list[int] = field(default_factory=list)

    def append(self, *timestamps: int, size: int = 1, **options: Any) -> None:
        """A batch of records with these timestamps at the end."""
        records = [batch.Record(self.end + i, one, None, b"x" * size) for i, one in enumerate(timestamps)]
        self.batches.append(bytes(batch.build(records, base_offset=self.end, **options)))
        self.end += len(timestamps)

    def read(self, offset: int, room: int, is_first: bool, end: int) -> bytes:
        """From the batch with this offset on, cut to the room; the first of a request has its first batch whole."""
        heads = [(read_head(one), one) for one in self.batches]
        rest = [one for head, one in heads if head.last_offset >= offset and head.base_offset < end]
        if not rest:
            return b""
        if len(rest[0]) > room:
            return rest[0] if is_first else b""
        return b"".join(rest)[:room]

    def at(self, timestamp: int) -> int:
        if timestamp == LATEST:
            return self.end
        if timestamp == EARLIEST:
            return self.start
        records = [record for one in self.batches for record in batch.iterate(one)]
        found = [record.offset for record in records if record.timestamp >= timestamp and record.offset >= self.start]
        return min(found, default=-1)


@dataclass
class ModelMember:
    """A member with what it is assigned, by topic."""

    member_id: str
    assigned: dict[str, list[int]] = field(default_factory=dict)
    instance_id: str | None = None
    client_id: str = "app"


@dataclass
class ModelGroup:
    """A group and what it has committed: (topic, partition) -> (offset, leader epoch, metadata)."""

    state: str = "Empty"
    type: str = "classic"
    protocol: str = "consumer"
    members: list[ModelMember] = field(default_factory=list)
    offsets: dict[tuple[str, int], tuple[int, int, str]] = field(default_factory=dict)
    coordinator: int = 0


@dataclass
class ModelTransaction:
    """A transactional id as its coordinator knows it; `partitions` by topic."""

    state: str = "Ongoing"
    producer_id: int = 7
    partitions: dict[str, list[int]] = field(default_factory=dict)
    producer_epoch: int = 1
    timeout_ms: int = 60_000
    start_time_ms: int = -1
    coordinator: int = 0


class ModelCluster:
    """Brokers 0, 1 ... at 127.0.0.1:9092, 9093 ...; `served` narrows versions; `asked` is what was asked of whom."""

    def __init__(self, brokers: int = 1) -> None:
        self.nodes = list(range(brokers))
        self.topics: defaultdict[str, list[Log]] = defaultdict(list)
        self.groups: dict[str, ModelGroup] = {}
        self.transactions: dict[str, ModelTransaction] = {}
        self.served: dict[type[Message], tuple[int, int]] = {}
        self.unserved: set[type[Message]] = set()
        self.asked: list[tuple[int, Any, int]] = []
        self.connects: list[int] = []
        self.dead: set[int] = set()
        self.disturb: Disturb = lambda node, request, version: None
        self.answers: dict[type[Message], Answer] = dict(_ANSWERS)
        """By request; a test may add to them, as `model_topics.py` does."""
        self.cluster_id = "model"
        self.controller = 0
        self.topic_ids: dict[str, bytes] = {}
        self.zookeeper: defaultdict[str, dict[tuple[str, int], int | None]] = defaultdict(dict)
        """Offsets in ZooKeeper by group; None: the node has no number."""
        self.is_kafka = False
        """True for Apache Kafka, which has no answer to OffsetFetch 0 without partitions."""
        self.topic_configs: dict[str, list[DescribeConfigsResourceResult]] = {}
        self.log_directories: dict[int, list[DescribeLogDirsResult]] = {}
        """By broker; the answer has them as they are, whatever partitions the request names."""
        self.group_configs: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self.on_group_configs: Callable[[str], str] = lambda group: ""
        """What the broker does when the configs of a group have changed; returns a refusal."""

    def connect(self, address: tuple[str, int], timeout_s: float) -> ModelSocket:
        node = address[1] - 9092
        self.connects.append(node)
        if node in self.dead or node not in self.nodes:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return ModelSocket(lambda request, version: self.answer(node, request, version))

    def of(self, kind: type[Message]) -> list[Any]:
        """The requests of a kind."""
        return [request for _, request, _ in self.asked if isinstance(request, kind)]

    def answer(self, node: int, request: Any, version: int) -> Message | bytes | None:
        if isinstance(request, ApiVersionsRequest):
            return self._api_versions()
        self.asked.append((node, request, version))
        disturbed = self.disturb(node, request, version)
        return self.answers[type(request)](self, node, request, version) if disturbed is None else disturbed

    def _api_versions(self) -> Message:
        kinds: list[type[Message]] = [ApiVersionsRequest, *self.answers]
        ranges = {kind: self.served.get(kind, kind.versions) for kind in kinds if kind not in self.unserved}
        return ApiVersionsResponse(api_keys=[ApiVersion(kind.api_key, *ends) for kind, ends in ranges.items()])

    # ------------------------------------------------------------------------------------------------------- groups

    def find_coordinator(self, node: int, request: FindCoordinatorRequest, version: int) -> Message:
        keys = request.coordinator_keys if version >= 4 else [request.key]
        nodes = [self._of(key) if request.key_type == GROUP else self._of_id(key) for key in keys]
        rows = [
            Coordinator(key, node, "127.0.0.1", 9092 + node, 0, None) for key, node in zip(keys, nodes, strict=True)
        ]
        one = rows[0]
        return FindCoordinatorResponse(node_id=one.node_id, host=one.host, port=one.port, coordinators=rows)

    def _of(self, group: str) -> int:
        return self.groups[group].coordinator if group in self.groups else 0

    def _of_id(self, transactional_id: str) -> int:
        known = self.transactions.get(transactional_id)
        return known.coordinator if known else 0

    def list_groups(self, node: int, request: ListGroupsRequest, version: int) -> Message:
        rows = [
            ListedGroup(name, group.protocol, group.state, group.type)
            for name, group in self.groups.items()
            if group.coordinator == node or group.type == "zookeeper"  # each broker reads ZooKeeper
        ]
        return ListGroupsResponse(groups=rows)

    def describe_groups(self, node: int, request: DescribeGroupsRequest, version: int) -> Message:
        return DescribeGroupsResponse(groups=[self._classic(name, version) for name in request.groups])

    def _classic(self, name: str, version: int) -> DescribedGroup:
        group = self.groups.get(name)
        if group is None or group.type not in ("classic", "zookeeper"):
            return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0, None, name, "Dead")
        members = [
            DescribedGroupMember(one.member_id, one.instance_id, one.client_id, "/10.0.0.1", b"", assignment(one))
            for one in group.members
        ]
        assignor = "zookeeper" if group.type == "zookeeper" else "range" if members else ""
        return DescribedGroup(0, None, name, group.state, group.protocol, assignor, members)

    def describe_consumer_groups(self, node: int, request: Any, version: int) -> Message:
        return kip_848.ConsumerGroupDescribeResponse(groups=[self._consumer(name) for name in request.group_ids])

    def _consumer(self, name: str) -> kip_848.DescribedGroup:
        group = self.groups.get(name)
        if group is None or group.type != "consumer":
            return kip_848.DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_id=name)
        members = [
            kip_848.Member(
                member_id=one.member_id,
                instance_id=one.instance_id,
                member_epoch=7,
                client_id="app",
                client_host="/10.0.0.1",
                assignment=kip_848.Assignment(
                    [kip_848.TopicPartitions(bytes(16), topic, numbers) for topic, numbers in one.assigned.items()]
                ),
            )
            for one in group.members
        ]
        return kip_848.DescribedGroup(
            group_id=name, group_state=group.state, assignor_name="uniform", members=members, group_epoch=7
        )

    def delete_groups(self, node: int, request: DeleteGroupsRequest, version: int) -> Message:
        return DeleteGroupsResponse(
            results=[DeletableGroupResult(one, self._delete(one)) for one in request.groups_names]
        )

    def _delete(self, name: str) -> int:
        if name not in self.groups:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.groups[name].members:
            return ErrorCode.NON_EMPTY_GROUP
        del self.groups[name]
        return ErrorCode.NONE

    # ------------------------------------------------------------------------------------------------------ offsets

    def offset_fetch(self, node: int, request: OffsetFetchRequest, version: int) -> Message:
        if version == 0:
            return self._zookeeper_offsets(request)
        if version < 8:
            topics = self._offsets(request.group_id, OffsetFetchResponseTopic, OffsetFetchResponsePartition)
            assert request.topics is None or version < 2
            return OffsetFetchResponse(topics=topics)
        rows = []
        for one in request.groups:
            if one.topics is not None:
                rows.append(OffsetFetchResponseGroup(one.group_id))
                continue
            topics = self._offsets(one.group_id, OffsetFetchResponseTopics, OffsetFetchResponsePartitions)
            rows.append(OffsetFetchResponseGroup(one.group_id, topics))
        return OffsetFetchResponse(groups=rows)

    def _zookeeper_offsets(self, request: OffsetFetchRequest) -> Message:
        wanted = {(topic.name, number) for topic in request.topics or () for number in topic.partition_indexes}
        rows: defaultdict[str, list[OffsetFetchResponsePartition]] = defaultdict(list)
        for (topic, number), offset in self.zookeeper[request.group_id].items():
            if (topic, number) not in wanted if wanted else self.is_kafka:
                continue
            code = ErrorCode.UNKNOWN_SERVER_ERROR if offset is None else ErrorCode.NONE
            known = -1 if offset is None else offset
            rows[topic].append(
                OffsetFetchResponsePartition(
                    partition_index=number, committed_offset=known, metadata="", error_code=code
                )
            )
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name, row) for name, row in rows.items()])

    def describe_configs(self, node: int, request: DescribeConfigsRequest, version: int) -> Message:
        return DescribeConfigsResponse(results=[self._configs(one) for one in request.resources])

    def _configs(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        kind, name = resource.resource_type, resource.resource_name
        if kind == _TOPIC:
            code = ErrorCode.NONE if name in self.topic_configs else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return DescribeConfigsResult(code, None, kind, name, self.topic_configs.get(name, []))
        configs = [
            DescribeConfigsResourceResult(name=key, value=value)
            for key, value in self.group_configs[name].items()
            if key in (resource.configuration_keys or ())
        ]
        return DescribeConfigsResult(0, None, kind, name, configs)

    def describe_log_directories(self, node: int, request: DescribeLogDirsRequest, version: int) -> Message:
        return DescribeLogDirsResponse(results=self.log_directories.get(node, []))

    def alter_configs(self, node: int, request: IncrementalAlterConfigsRequest, version: int) -> Message:
        responses = []
        for one in request.resources:
            own = self.group_configs[one.resource_name]
            for config in one.configs:
                own.pop(config.name, None)
                if config.config_operation == SET:
                    own[config.name] = config.value or ""
            refusal = self.on_group_configs(one.resource_name)
            code = ErrorCode.INVALID_CONFIG if refusal else ErrorCode.NONE
            responses.append(AlterConfigsResourceResponse(code, refusal, one.resource_type, one.resource_name))
        return IncrementalAlterConfigsResponse(responses=responses)

    def _offsets(self, name: str, topic_type: Any, partition_type: Any) -> list[Any]:
        rows: defaultdict[str, list[Any]] = defaultdict(list)
        group = self.groups.get(name, ModelGroup())
        for (topic, number), (offset, epoch, metadata) in group.offsets.items():
            rows[topic].append(
                partition_type(
                    partition_index=number, committed_offset=offset, committed_leader_epoch=epoch, metadata=metadata
                )
            )
        return [topic_type(name=topic, partitions=partitions) for topic, partitions in rows.items()]

    def offset_commit(self, node: int, request: OffsetCommitRequest, version: int) -> Message:
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
        if version == 0:
            return self._commit_in_zookeeper(request)
        group = self.groups.setdefault(request.group_id, ModelGroup(protocol=""))
        code = ErrorCode.UNKNOWN_MEMBER_ID if group.members else ErrorCode.NONE
        topics = []
        for topic in request.topics:
            for row in topic.partitions:
                if not code:
                    place = (row.committed_offset, row.committed_leader_epoch, row.committed_metadata or "")
                    group.offsets[topic.name, row.partition_index] = place
            rows = [OffsetCommitResponsePartition(row.partition_index, code) for row in topic.partitions]
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=rows))
        return OffsetCommitResponse(topics=topics)

    def _commit_in_zookeeper(self, request: OffsetCommitRequest) -> Message:
        topics = []
        for topic in request.topics:
            for row in topic.partitions:
                self.zookeeper[request.group_id][topic.name, row.partition_index] = row.committed_offset
            rows = [OffsetCommitResponsePartition(row.partition_index, 0) for row in topic.partitions]
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=rows))
        return OffsetCommitResponse(topics=topics)

    def offset_delete(self, node: int, request: OffsetDeleteRequest, version: int) -> Message:
        group = self.groups[request.group_id]
        used = {topic for member in group.members for topic in member.assigned}
        topics = []
        for topic in request.topics:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if topic.name in used else ErrorCode.NONE
            for row in topic.partitions:
                if not code:
                    group.offsets.pop((topic.name, row.partition_index), None)
            rows = [OffsetDeleteResponsePartition(row.partition_index, code) for row in topic.partitions]
            topics.append(OffsetDeleteResponseTopic(topic.name, rows))
        return OffsetDeleteResponse(topics=topics)

    # --------------------------------------------------------------------------------------------------- partitions

    def metadata(self, node: int, request: MetadataRequest, version: int) -> Message:
        names = [topic.name or "" for topic in request.topics] if request.topics is not None else list(self.topics)
        assert version >= 4 or request.topics is None or not names, "this makes topics"
        assert not request.allow_auto_topic_creation or version < 4
        brokers = [MetadataResponseBroker(one, "127.0.0.1", 9092 + one) for one in self.nodes]
        topics = [self._topic(name) for name in names]
        return MetadataResponse(
            brokers=brokers, cluster_id=self.cluster_id, controller_id=self.controller, topics=topics
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
        partitions = [
            MetadataResponsePartition(0, i, log.leader, log.leader_epoch, log.replicas, log.isr)
            for i, log in enumerate(self.topics[name])
        ]
        return MetadataResponseTopic(name=name, topic_id=self.topic_ids.get(name, bytes(16)), partitions=partitions)

    def delete_topics(self, node: int, request: DeleteTopicsRequest, version: int) -> Message:
        rows = []
        for name in [topic.name or "" for topic in request.topics] or request.topic_names:
            if node != self.controller:
                code = ErrorCode.NOT_CONTROLLER
            else:
                code = ErrorCode.NONE if name in self.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                self.topics.pop(name, None)
            rows.append(DeletableTopicResult(name=name, error_code=code))
        return DeleteTopicsResponse(responses=rows)

    def list_offsets(self, node: int, request: ListOffsetsRequest, version: int) -> Message:
        topics = []
        for topic in request.topics:
            rows = []
            for one in topic.partitions:
                log = self.topics[topic.name][one.partition_index]
                if log.leader != node:
                    rows.append(
                        ListOffsetsPartitionResponse(one.partition_index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
                    )
                    continue
                is_stable = request.isolation_level and one.timestamp == LATEST and log.stable is not None
                found = log.stable if is_stable and log.stable is not None else log.at(one.timestamp)
                rows.append(ListOffsetsPartitionResponse(one.partition_index, 0, [found], offset=found))
            topics.append(ListOffsetsTopicResponse(topic.name, rows))
        return ListOffsetsResponse(topics=topics)

    def fetch(self, node: int, request: FetchRequest, version: int) -> Message:
        topics, is_first = [], True
        for topic in request.topics:
            rows = []
            for one in topic.partitions:
                log = self.topics[topic.topic][one.partition]
                is_inside = log.start <= one.fetch_offset <= log.end
                room = one.partition_max_bytes
                stable = log.end if log.stable is None else log.stable
                is_readable = is_inside and (not request.isolation_level or one.fetch_offset < stable)
                end = stable if request.isolation_level else log.end
                data = log.read(one.fetch_offset, room, is_first, end) if is_readable else b""
                is_first = is_first and not data
                code = ErrorCode.NONE if is_inside else ErrorCode.OFFSET_OUT_OF_RANGE
                row = PartitionData(one.partition, code, log.end, stable, log.start, records=data)
                if request.isolation_level:
                    row.aborted_transactions = [AbortedTransaction(*each) for each in log.aborted]
                rows.append(row)
            topics.append(FetchableTopicResponse(topic=topic.topic, partitions=rows))
        return FetchResponse(responses=topics)

    def produce(self, node: int, request: ProduceRequest, version: int) -> Message:
        assert request.acks == -1
        return append_produced(self.topics, node, request)

    # ------------------------------------------------------------------------------------------------- transactions

    def list_transactions(self, node: int, request: ListTransactionsRequest, version: int) -> Message:
        rows = [
            ListedTransaction(name, one.producer_id, one.state)
            for name, one in self.transactions.items()
            if one.coordinator == node
            and (not request.state_filters or one.state in request.state_filters)
            and (not request.producer_id_filters or one.producer_id in request.producer_id_filters)
        ]
        return ListTransactionsResponse(transaction_states=rows)

    def describe_transactions(self, node: int, request: DescribeTransactionsRequest, version: int) -> Message:
        return DescribeTransactionsResponse(
            transaction_states=[self._transaction(node, name) for name in request.transactional_ids]
        )

    def _transaction(self, node: int, name: str) -> DescribedTransaction:
        one = self.transactions.get(name)
        if one is None:
            return DescribedTransaction(error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=name)
        if one.coordinator != node:
            return DescribedTransaction(error_code=ErrorCode.NOT_COORDINATOR, transactional_id=name)
        topics = [TopicData(topic, numbers) for topic, numbers in one.partitions.items()]
        times = one.timeout_ms, one.start_time_ms
        return DescribedTransaction(0, name, one.state, *times, one.producer_id, one.producer_epoch, topics)

    def describe_producers(self, node: int, request: DescribeProducersRequest, version: int) -> Message:
        topics = []
        for topic in request.topics:
            logs = [(index, self.topics[topic.name][index]) for index in topic.partition_indexes]
            rows = [
                PartitionResponse(index, active_producers=log.producers)
                if log.leader == node
                else PartitionResponse(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                for index, log in logs
            ]
            topics.append(TopicResponse(topic.name, rows))
        return DescribeProducersResponse(topics=topics)

    def write_markers(self, node: int, request: WriteTxnMarkersRequest, version: int) -> Message:
        markers = []
        for marker in request.markers:
            topics = []
            for topic in marker.topics:
                rows = [
                    WritableTxnMarkerPartitionResult(index, self._mark(node, self.topics[topic.name][index], marker))
                    for index in topic.partition_indexes
                ]
                topics.append(WritableTxnMarkerTopicResult(topic.name, rows))
            markers.append(WritableTxnMarkerResult(marker.producer_id, topics))
        return WriteTxnMarkersResponse(markers=markers)

    def _mark(self, node: int, log: Log, marker: WritableTxnMarker) -> int:
        if log.leader != node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        for producer in log.producers:
            if producer.producer_id == marker.producer_id:
                producer.current_txn_start_offset = -1
                producer.coordinator_epoch = marker.coordinator_epoch
        return ErrorCode.NONE


def assignment(member: ModelMember) -> bytes:
    rows = [TopicPartition(topic, numbers) for topic, numbers in member.assigned.items()]
    return encode(ConsumerProtocolAssignment(rows), 1)


Answer = Callable[[ModelCluster, int, Any, int], Message]
_ANSWERS: dict[type[Message], Answer] = {
    FindCoordinatorRequest: ModelCluster.find_coordinator,
    ListGroupsRequest: ModelCluster.list_groups,
    DescribeGroupsRequest: ModelCluster.describe_groups,
    kip_848.ConsumerGroupDescribeRequest: ModelCluster.describe_consumer_groups,
    DeleteGroupsRequest: ModelCluster.delete_groups,
    DeleteTopicsRequest: ModelCluster.delete_topics,
    OffsetFetchRequest: ModelCluster.offset_fetch,
    DescribeConfigsRequest: ModelCluster.describe_configs,
    DescribeLogDirsRequest: ModelCluster.describe_log_directories,
    IncrementalAlterConfigsRequest: ModelCluster.alter_configs,
    OffsetCommitRequest: ModelCluster.offset_commit,
    OffsetDeleteRequest: ModelCluster.offset_delete,
    MetadataRequest: ModelCluster.metadata,
    ListOffsetsRequest: ModelCluster.list_offsets,
    FetchRequest: ModelCluster.fetch,
    ProduceRequest: ModelCluster.produce,
    ListTransactionsRequest: ModelCluster.list_transactions,
    DescribeTransactionsRequest: ModelCluster.describe_transactions,
    DescribeProducersRequest: ModelCluster.describe_producers,
    WriteTxnMarkersRequest: ModelCluster.write_markers,
}


class ModelSocket:
    """What `tools.client.client` uses of a socket: what is sent is answered at once."""

    def __init__(self, answer: Callable[[Message, int], Message | bytes | None]) -> None:
        self._answer = answer
        self._frames = FrameReader(1 << 24)
        self._received: deque[bytes] = deque()
        self.is_closed = False
        self._unread: int | None = None

    def fileno(self) -> int:
        """A descriptor on which nothing ever waits, for the client's look whether the broker has closed."""
        if self._unread is None:
            self._unread = os.eventfd(0)
        return self._unread

    def sendall(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self._received.append(reply(frame, self._answer) or b"")

    def recv(self, size: int) -> bytes:
        assert not self.is_closed
        data = self._received.popleft()
        if len(data) > size:
            self._received.appendleft(data[size:])
        return data[:size]

    def recv_into(self, buffer: memoryview) -> int:
        data = self.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.is_closed = True
        if self._unread is not None:
            os.close(self._unread)
            self._unread = None


class Clock:
    """Time that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def opened() -> Cluster:
    """The tools' cluster over the modelled one, with time that only waiting moves."""
    clock = Clock()
    return Cluster("127.0.0.1:9092", timeout_s=5, clock=clock, sleep=clock.sleep)
