"""What is asked of a broker to see its rules for administrators; `test_admin` compares with Kafka's answers.

    play(broker)        # any broker: `ask(request, version)` gives its response
    python -m headgate.gateway.api.tests.like_kafka.admin_scenario PORT PORT > admin_of_kafka.txt

The second line records the answers of two Apache Kafkas on this machine, as they stand in that file: of a new 4.1.2,
and of a new 3.9.1 for versions that 4.1 refuses; both with `SETTINGS`.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from headgate.gateway.coordinator.groups.tests.response_lines import ResponseLines
from headgate.gateway.tests.scenario import Broker
from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_configs import AlterableConfig as WholeConfig
from headgate.protocol.messages.alter_configs import AlterConfigsRequest
from headgate.protocol.messages.alter_configs import AlterConfigsResource as WholeResource
from headgate.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headgate.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headgate.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.messages.describe_acls import DescribeAclsRequest
from headgate.protocol.messages.describe_cluster import DescribeClusterRequest
from headgate.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headgate.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headgate.protocol.messages.describe_producers import DescribeProducersRequest
from headgate.protocol.messages.describe_producers import TopicRequest as ProducersOf
from headgate.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestedPartitionData, RequestedTopicData
from headgate.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headgate.protocol.messages.elect_leaders import ElectLeadersRequest
from headgate.protocol.messages.elect_leaders import TopicPartitions as Elected
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.incremental_alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headgate.protocol.messages.list_config_resources import ListConfigResourcesRequest
from headgate.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from headgate.protocol.messages.list_transactions import ListTransactionsRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.schema import Message
from headgate.protocol.wire import ZERO_UUID

SETTINGS = {"node.id": "1", "log.retention.ms": "360000000", "num.partitions": "2", "offsets.topic.num.partitions": "3"}
NOBODYS_ID = b"the id of no one"
TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
FEW = ["cleanup.policy", "retention.ms", "segment.bytes", "max.message.bytes", "index.interval.bytes"]


class Play:
    """One run: what was said to each question."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.answers: dict[str, str] = {}
        self.told = ResponseLines()

    def ask(self, label: str, request: Message, versions: Iterable[int], *, ordered: bool = False) -> None:
        """Put a question in each of these versions, and note what is said."""
        for version in versions:
            response = self.broker.ask(request, version)
            name = f"{type(request).__name__.removesuffix('Request')} v{version}: {label}"
            assert name not in self.answers, name
            if response is not None:
                self.answers[name] = self.told.line(response, version, ordered=ordered)

    def topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """A topic to ask about."""
        rows = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        request = CreateTopicsRequest([CreatableTopic(name, partitions, 1, configs=rows)])
        (made,) = self.broker.ask(request, 7).topics
        self.told.ids[made.topic_id] = name

    def id_of(self, name: str) -> bytes:
        return next((topic_id for topic_id, known in self.told.ids.items() if known == name), NOBODYS_ID)

    def produce(self, topic: str, count: int, **producer: Any) -> None:
        """Records of ten bytes, in one batch."""
        built = batch.build([Record(timestamp=1_700_000_000_000, key=b"k", value=b"x" * 10)] * count, **producer)
        rows = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=built)])]
        for _ in range(50):  # it takes Kafka's brokers a moment to see that they lead a new partition
            (answer,) = self.broker.ask(ProduceRequest(acks=-1, topic_data=rows), 9).responses
            if answer.partition_responses[0].error_code == ErrorCode.NONE:
                return
        raise AssertionError(answer)


def play(broker: Broker) -> dict[str, str]:
    """Ask everything, in this order; the answers by their names."""
    made = Play(broker)
    made.topic("t", 3, retention_ms="9000000000000")
    made.topic("u", 1, cleanup_policy="compact")
    made.produce("t", 5)
    made.produce("u", 2)
    for step in STEPS:
        step(made)
    return made.answers


def _topics(*names: str | None) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def _metadata(made: Play) -> None:
    everything = range(14)
    made.ask("empty list", MetadataRequest([]), everything)
    made.ask("all", MetadataRequest(None), range(1, 14))
    named = MetadataRequest(_topics("t", "gone", "t", "a b", "", ".", "u", "t_", "x" * 250), False)
    made.ask("named, some of them not there", named, range(4, 14))
    made.ask("named", MetadataRequest(_topics("u", "t")), range(4))
    made.ask("badly named", MetadataRequest(_topics("u", "a b", "..", "", "y" * 250)), range(14))
    rights = MetadataRequest(_topics("t", "gone"), False, True, True)
    made.ask("with operations", rights, range(8, 11))
    made.ask("with operations of topics", MetadataRequest(_topics("t"), False, False, True), range(11, 14))
    unnamed = [MetadataRequestTopic(made.id_of(name), None) for name in ("t", "nobody", "u", "t")]
    for label, rows in {
        "by id": unnamed,
        "by id and name": [MetadataRequestTopic(made.id_of("t"), "t")],
        "by id and another name": [MetadataRequestTopic(made.id_of("t"), "u")],
    }.items():
        made.ask(label, MetadataRequest(rows, False), range(10, 14))


def _creatable(name: str, partitions: int = 1, factor: int = 1, *assigned: Any, **configs: Any) -> CreatableTopic:
    rows = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreatableTopic(name, partitions, factor, [CreatableReplicaAssignment(*each) for each in assigned], rows)


def _creations(made: Play) -> None:
    everything = range(8)
    for version in everything:
        new = [_creatable(f"new{version}", 2, segment_bytes="2000000"), _creatable("t", 3), _creatable("a b", 1)]
        made.ask("new, old, bad", CreateTopicsRequest(new), [version])
        defaults = [_creatable(f"defaults{version}", -1, -1), _creatable(f"given{version}", -1, -1, [0, [1]], [1, [1]])]
        made.ask("defaults", CreateTopicsRequest(defaults), [version])
        checked = [_creatable("later", 2), _creatable("u", 1), _creatable("later2", 0)]
        if 0 < version < 7:
            made.ask("only checked", CreateTopicsRequest(checked, 60_000, True), [version])
    wrong = {
        "no partitions": _creatable("w", 0),
        "less than none": _creatable("w", -2),
        "no replicas": _creatable("w", 1, 0),
        "less than no replicas": _creatable("w", 1, -2),
        "two replicas": _creatable("w", 1, 2),
        "counted and given": _creatable("w", 1, 1, [0, [1]]),
        "counted replicas and given": _creatable("w", -1, 1, [0, [1]]),
        "counted partitions and given": _creatable("w", 1, -1, [0, [1]]),
        "a gap": _creatable("w", -1, -1, [0, [1]], [2, [1]]),
        "not from 0": _creatable("w", -1, -1, [1, [1]]),
        "negative": _creatable("w", -1, -1, [-1, [1]]),
        "one given twice": _creatable("w", -1, -1, [0, [1]], [0, [1]]),
        "no broker": _creatable("w", -1, -1, [0, []]),
        "one broker twice": _creatable("w", -1, -1, [0, [1, 1]]),
        "another broker": _creatable("w", -1, -1, [0, [2]]),
        "unequal": _creatable("w", -1, -1, [0, [1]], [1, [1, 2]]),
        "no such config": _creatable("w", no_such="1"),
        "bad config": _creatable("w", retention_ms="long"),
        "null config": _creatable("w", retention_ms=None),
        "config out of range": _creatable("w", segment_bytes="1"),
        "empty config": _creatable("w", retention_ms=""),
        "unequal lags": _creatable("w", min_compaction_lag_ms="2", max_compaction_lag_ms="1"),
        "empty name": _creatable(""),
        "dots": _creatable(".."),
        "long": _creatable("x" * 250),
    }
    for label, topic in wrong.items():
        made.ask(label, CreateTopicsRequest([topic], 60_000), [1, 4, 7])
    made.topic("with_line", 1)
    made.ask("collides with a line", CreateTopicsRequest([_creatable("with.line")]), [7])
    made.ask("nothing", CreateTopicsRequest([]), everything)
    made.ask("twice", CreateTopicsRequest([_creatable("w"), _creatable("x"), _creatable("w", 2)]), [5, 7])


def _partitions(made: Play) -> None:
    def row(name: str, count: int, *assigned: list[int]) -> CreatePartitionsTopic:
        rows = [CreatePartitionsAssignment(each) for each in assigned]
        return CreatePartitionsTopic(name, count, rows or None)

    for version in range(4):
        made.topic(f"more{version}")
        rows = [row(f"more{version}", 3), row("gone", 2), row("u", 1), row("t", 2)]
        made.ask("more", CreatePartitionsRequest(rows, 60_000), [version])
        made.ask("checked", CreatePartitionsRequest([row("u", 4)], 60_000, True), [version])
        made.ask("given", CreatePartitionsRequest([row(f"more{version}", 5, [1], [1])], 60_000), [version])
    for label, wanted in {
        "none": row("u", 0),
        "negative": row("u", -1),
        "as many": row("t", 3),
        "too few given": row("u", 3, [1]),
        "too many given": row("u", 2, [1], [1]),
        "given another broker": row("u", 2, [2]),
        "given two": row("u", 2, [1, 1]),
        "given none": row("u", 2, []),
        "given unequal": row("u", 3, [1], []),
        "empty name": row("", 2),
    }.items():
        made.ask(label, CreatePartitionsRequest([wanted], 60_000), [0, 3])
    nothing = CreatePartitionsTopic("u", 2, [])
    made.ask("an empty list given", CreatePartitionsRequest([nothing], 60_000, True), [3])
    made.ask("twice", CreatePartitionsRequest([row("u", 2), row("more0", 9), row("u", 3)], 60_000, True), [0, 3])
    made.ask("nothing", CreatePartitionsRequest([]), [0, 3])


def _deletions(made: Play) -> None:
    for version in range(6):
        made.topic(f"go{version}")
        names = [f"go{version}", "gone", "", "a b"]
        made.ask("names", DeleteTopicsRequest(topic_names=names, timeout_ms=60_000), [version])
        made.ask("twice", DeleteTopicsRequest(topic_names=["gone", "u", "u"], timeout_ms=60_000), [version])
        made.ask("nothing", DeleteTopicsRequest(), [version])
    made.topic("go6")
    made.topic("go7")
    go7 = made.id_of("go7")
    states = [
        DeleteTopicState("go6"),
        DeleteTopicState(None, go7),
        DeleteTopicState("gone"),
        DeleteTopicState(None, NOBODYS_ID),
    ]
    made.ask("names and ids", DeleteTopicsRequest(states, timeout_ms=60_000), [6])
    for label, rows in {
        "neither": [DeleteTopicState(None, ZERO_UUID), DeleteTopicState("gone")],
        "both": [DeleteTopicState("u", made.id_of("u"))],
        "name twice": [DeleteTopicState("u"), DeleteTopicState("u")],
        "id twice": [DeleteTopicState(None, made.id_of("u")), DeleteTopicState(None, made.id_of("u"))],
        "unknown id twice": [DeleteTopicState(None, NOBODYS_ID), DeleteTopicState(None, NOBODYS_ID)],
    }.items():
        made.ask(label, DeleteTopicsRequest(rows, timeout_ms=60_000), [6])


def _records(made: Play) -> None:
    def rows(topic: str, *wanted: tuple[int, int]) -> DeleteRecordsTopic:
        return DeleteRecordsTopic(topic, [DeleteRecordsPartition(*each) for each in wanted])

    for version in range(3):
        made.topic(f"r{version}", 2)
        made.produce(f"r{version}", 5)
        named = [rows(f"r{version}", (0, 2), (1, 0), (2, 0), (-1, 0)), rows("gone", (0, 1)), rows("u", (0, 1))]
        made.ask("some", DeleteRecordsRequest(named, 60_000), [version])
        for label, offset in {"less": 1, "too many": 6, "all": -1, "negative": -2, "the end": 5}.items():
            made.ask(label, DeleteRecordsRequest([rows(f"r{version}", (0, offset))], 60_000), [version])
    made.ask("nothing", DeleteRecordsRequest([]), [2])


def _described(kind: int, name: str, keys: list[str] | None = None) -> DescribeConfigsResource:
    return DescribeConfigsResource(kind, name, keys)


def _configs(made: Play) -> None:
    everything = range(5)
    for flags in ((False, False), (True, False), (True, True)):
        resources = [_described(TOPIC, "t", FEW), _described(TOPIC, "u", FEW)]
        suffix = " with synonyms" * flags[0] + " with documentation" * flags[1]
        made.ask("topics" + suffix, DescribeConfigsRequest(resources, *flags), everything)
        keys = ["message.max.bytes", "log.roll.ms", "log.retention.ms", "num.partitions", "no.such", "node.id"]
        broker = [_described(BROKER, "1", keys)]
        made.ask("the broker" + suffix, DescribeConfigsRequest(broker, *flags), everything)
    for label, resource in {
        "all brokers": _described(BROKER, "", FEW),
        "unknown topic": _described(TOPIC, "gone"),
        "bad topic": _described(TOPIC, "a b"),
        "empty topic": _described(TOPIC, ""),
        "another broker": _described(BROKER, "2"),
        "no broker": _described(BROKER, "x"),
        "no type": _described(0, "t"),
        "unknown type": _described(3, "t"),
        "user": _described(64, "t"),
        "empty group": _described(GROUP, "", ["consumer.session.timeout.ms"]),
        "logger of another": _described(LOGGER, "2"),
        "logger of nobody": _described(LOGGER, ""),
        "one logger": _described(LOGGER, "1", ["no.such.logger"]),
    }.items():
        made.ask(label, DescribeConfigsRequest([resource], True), [1, 4])
    made.ask("nothing", DescribeConfigsRequest([]), everything)


def _changes(kind: int, name: str, *configs: tuple[str, int, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, [AlterableConfig(*config) for config in configs])


def _increments(made: Play) -> None:
    made.topic("c", 1, retention_ms="5000", segment_bytes="2000000")
    shown = [_described(TOPIC, "c", FEW)]
    for version in (0, 1):
        steps: dict[str, list[tuple[str, int, str | None]]] = {
            "set": [("retention.ms", SET, f"600{version}"), ("max.message.bytes", SET, "9000")],
            "delete": [("segment.bytes", DELETE, None), ("index.interval.bytes", DELETE, "")],
            "append": [("cleanup.policy", APPEND, "compact")],
            "append again": [("cleanup.policy", APPEND, "compact,delete")],
            "subtract": [("cleanup.policy", SUBTRACT, "delete")],
            "subtract what is not there": [("cleanup.policy", SUBTRACT, "delete")],
            "subtract the last": [("cleanup.policy", SUBTRACT, "compact")],
            "append to no list": [("retention.ms", APPEND, "1")],
            "subtract from no list": [("retention.ms", SUBTRACT, "1")],
            "null": [("retention.ms", SET, None)],
            "append null": [("cleanup.policy", APPEND, None)],
            "no such": [("no.such", SET, "1")],
            "delete no such": [("no.such", DELETE, None)],
            "bad": [("retention.ms", SET, "x")],
            "empty": [("retention.ms", SET, "")],
            "twice": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
            "empty name": [("", SET, "1")],
            "good and bad": [("retention.ms", SET, "1"), ("segment.bytes", SET, "x")],
            "nothing": [],
            "set with blanks": [("cleanup.policy", SET, "compact , delete"), ("retention.ms", SET, " 7 ")],
            "delete all": [("cleanup.policy", DELETE, None), ("retention.ms", DELETE, None)],
        }
        for label, changes in steps.items():
            request = IncrementalAlterConfigsRequest([_changes(TOPIC, "c", *changes)])
            made.ask(label, request, [version])
            if version:
                made.ask(f"after: {label}", DescribeConfigsRequest(shown, True), [4])
    for label, resource in {
        "unknown topic": _changes(TOPIC, "gone", ("retention.ms", SET, "1")),
        "empty topic": _changes(TOPIC, "", ("retention.ms", SET, "1")),
        "bad topic": _changes(TOPIC, "a b", ("retention.ms", SET, "1")),
        "unknown type": _changes(3, "t", ("retention.ms", SET, "1")),
        "no type": _changes(0, "t", ("retention.ms", SET, "1")),
        "another broker": _changes(BROKER, "7", ("message.max.bytes", SET, "1")),
        "no broker": _changes(BROKER, "x", ("message.max.bytes", SET, "1")),
        "a fixed setting": _changes(BROKER, "1", ("num.partitions", SET, "9")),
        "a fixed setting of all": _changes(BROKER, "", ("num.partitions", SET, "9")),
        "a broker's bad": _changes(BROKER, "1", ("message.max.bytes", SET, "x")),
        "another's logger": _changes(LOGGER, "2", ("root", SET, "INFO")),
        "no logger": _changes(LOGGER, "1", ("no.such.logger", SET, "INFO")),
        "bad level": _changes(LOGGER, "1", ("root", SET, "LOUD")),
        "root logger deleted": _changes(LOGGER, "1", ("root", DELETE, None)),
        "logger appended": _changes(LOGGER, "1", ("root", APPEND, "INFO")),
        "empty group": _changes(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
        "group": _changes(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
        "group, out of bounds": _changes(GROUP, "g", ("consumer.session.timeout.ms", SET, "5")),
        "group, no such": _changes(GROUP, "g", ("no.such", SET, "5")),
    }.items():
        for validate_only in (True, False):
            request = IncrementalAlterConfigsRequest([resource], validate_only)
            made.ask(label + ", checked" * validate_only, request, [1])
    group = [_described(GROUP, "g", ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"])]
    made.ask("group, after", DescribeConfigsRequest(group), [1, 4])
    row = _changes(TOPIC, "c", ("retention.ms", SET, "1"))
    made.ask("no resource", IncrementalAlterConfigsRequest([]), [1])
    made.ask("checked", IncrementalAlterConfigsRequest([row], True), [1])
    made.ask("after: checked", DescribeConfigsRequest(shown, True), [4])


def _broker_settings(made: Play) -> None:
    """Dynamic settings of this broker and of all: taken, told with where they come from, taken away."""
    keys = ["message.max.bytes", "log.retention.ms", "log.cleanup.policy", "log.segment.bytes"]
    for name, label in (("1", "own"), ("", "all")):
        shown = DescribeConfigsRequest([_described(BROKER, each, keys) for each in {"1", name}], True)
        topic = DescribeConfigsRequest([_described(TOPIC, "u", FEW)], True)
        steps: dict[str, list[tuple[str, int, str | None]]] = {
            "set": [("message.max.bytes", SET, "900000" if name else "800000")],
            "more": [("log.retention.ms", SET, "360000"), ("log.cleanup.policy", APPEND, "compact")],
            "taken away": [("log.retention.ms", DELETE, None)],
        }
        for step, changes in steps.items():
            request = IncrementalAlterConfigsRequest([_changes(BROKER, name, *changes)])
            made.ask(f"{label}: {step}", request, [1])
            made.ask(f"{label}: {step}", shown, [4])
            made.ask(f"{label}: {step}, a topic", topic, [4])
    for name in ("1", ""):
        gone = [(key, DELETE, None) for key in keys]
        request = IncrementalAlterConfigsRequest([_changes(BROKER, name, *gone)])
        made.ask(f"gone from {name or 'all'}", request, [1])
    made.ask("gone", DescribeConfigsRequest([_described(BROKER, "1", keys)], True), [4])


def _replacements(made: Play) -> None:
    made.topic("d", 1, retention_ms="5000", segment_bytes="2000000")
    shown = [_described(TOPIC, "d", FEW)]

    def whole(kind: int, name: str, **configs: str | None) -> WholeResource:
        return WholeResource(kind, name, [WholeConfig(key.replace("_", "."), value) for key, value in configs.items()])

    for version in range(3):
        for label, resource in {
            "some": whole(TOPIC, "d", retention_ms=f"600{version}"),
            "none": whole(TOPIC, "d"),
            "null": whole(TOPIC, "d", retention_ms=None),
            "bad": whole(TOPIC, "d", retention_ms="x"),
            "no such": whole(TOPIC, "d", no_such="x"),
            "unknown": whole(TOPIC, "gone", retention_ms="1"),
            "no type": whole(0, "d", retention_ms="1"),
            "another broker": whole(BROKER, "7", message_max_bytes="1000"),
            "a fixed setting": whole(BROKER, "1", num_partitions="9"),
        }.items():
            made.ask(label, AlterConfigsRequest([resource]), [version])
            if version == 2:
                made.ask(f"after: {label}", DescribeConfigsRequest(shown, True), [3])
    row = whole(TOPIC, "d", retention_ms="1")
    made.ask("checked", AlterConfigsRequest([row], True), [2])
    made.ask("after: checked", DescribeConfigsRequest(shown), [3])


def _resources(made: Play) -> None:
    made.ask("client metrics", ListConfigResourcesRequest([]), [0])
    for label, types in {"groups": [GROUP], "brokers": [BROKER], "loggers": [LOGGER], "metrics": [16]}.items():
        made.ask(label, ListConfigResourcesRequest(types), [1])
    made.ask("no such", ListConfigResourcesRequest([3]), [1])
    made.ask("groups twice", ListConfigResourcesRequest([GROUP, GROUP]), [1])


def _cluster(made: Play) -> None:
    everything = range(3)
    made.ask("plain", DescribeClusterRequest(), everything)
    made.ask("operations", DescribeClusterRequest(True), everything)
    made.ask("controllers", DescribeClusterRequest(endpoint_type=2), [1, 2])
    made.ask("no such endpoint", DescribeClusterRequest(endpoint_type=3), [1, 2])
    made.ask("fenced", DescribeClusterRequest(include_fenced_brokers=True), [2])


def _pages(made: Play) -> None:
    names = [TopicRequest(name) for name in ("u", "t", "gone", "t")]
    for limit in (2000, 2, 1, 0, -1):
        made.ask(f"limit {limit}", DescribeTopicPartitionsRequest(names, limit), [0], ordered=True)
    some = [TopicRequest(name) for name in ("t", "u", "gone")]
    for place in (("t", 0), ("t", 1), ("t", 3), ("t", 9), ("t", -1), ("u", 0), ("u", 1), ("tt", 0), ("gone", 0)):
        request = DescribeTopicPartitionsRequest(some, 2, Cursor(*place))
        made.ask(f"from {place}", request, [0], ordered=True)
    made.ask("none left", DescribeTopicPartitionsRequest(some, 1, Cursor("zzz", 0)), [0], ordered=True)


def _directories(made: Play) -> None:
    def rows(**topics: list[int]) -> DescribeLogDirsRequest:
        return DescribeLogDirsRequest([DescribableLogDirTopic(*topic) for topic in topics.items()])

    for label, request in {
        "some": rows(t=[0, 2, 7], u=[0], gone=[0]),
        "twice": rows(t=[0, 0]),
        "no partitions": rows(t=[]),
        "unknown": rows(gone=[0]),
        "nothing": DescribeLogDirsRequest([]),
    }.items():
        made.ask(label, request, range(6))


def _epochs(made: Play) -> None:
    def rows(topic: str, *wanted: tuple[int, int, int]) -> OffsetForLeaderTopic:
        return OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(*each) for each in wanted])

    epochs = [(0, -1, 0), (1, -1, 0), (0, 0, 0), (0, 5, 0), (0, -1, 9), (0, -1, -1), (9, -1, 0)]
    for number, wanted in enumerate(epochs):
        request = OffsetForLeaderEpochRequest(-2, [rows("t", wanted), rows("gone", wanted)])
        made.ask(f"{number}", request, range(5))


ASKS = (MetadataRequest, DescribeConfigsRequest, DescribeTopicPartitionsRequest, DescribeAclsRequest)
SETTLED_S = 0.1


def _elections(made: Play) -> None:
    named = [Elected("t", [0, 2, 9, -1]), Elected("gone", [0]), Elected("t", [1])]
    for label, wanted in {
        "named": named,
        "none": [],
        "no partitions": [Elected("t", [])],
        "twice": [Elected("t", [0, 0])],
        "empty name": [Elected("", [0])],
    }.items():
        made.ask(label, ElectLeadersRequest(0, wanted), range(3))
        made.ask(f"unclean, {label}", ElectLeadersRequest(1, wanted), [1, 2])
    made.ask("no such election", ElectLeadersRequest(7, named), [1, 2])


def _reassignments(made: Play) -> None:
    def rows(topic: str, *wanted: tuple[int, list[int] | None]) -> ReassignableTopic:
        return ReassignableTopic(topic, [ReassignablePartition(*each) for each in wanted])

    for label, topics in {
        "as it is": [rows("t", (0, [1]))],
        "cancelled": [rows("t", (0, None))],
        "another broker": [rows("t", (0, [2]))],
        "two": [rows("t", (0, [1, 2]))],
        "twice the same": [rows("t", (0, [1, 1]))],
        "nobody": [rows("t", (0, []))],
        "negative": [rows("t", (0, [-1]))],
        "unknown": [rows("gone", (0, [1])), rows("t", (9, [1]), (-1, None)), rows("gone", (0, None))],
        "twice": [rows("t", (0, [1]), (0, [2])), rows("t", (0, None))],
        "nothing": [],
        "no partitions": [rows("t")],
        "empty name": [rows("", (0, [1]))],
    }.items():
        for version in (0, 1):
            made.ask(label, AlterPartitionReassignmentsRequest(topics=topics), [version])
    made.ask("not to another number", AlterPartitionReassignmentsRequest(60_000, False, [rows("t", (0, [1]))]), [1])
    named = [ListPartitionReassignmentsTopics("t", [0, 9]), ListPartitionReassignmentsTopics("gone", [0])]
    for label, listed in {"all": None, "named": named, "none": []}.items():
        made.ask(label, ListPartitionReassignmentsRequest(topics=listed), [0])


def _quorum(made: Play) -> None:
    def rows(topic: str, *partitions: int) -> RequestedTopicData:
        return RequestedTopicData(topic, [RequestedPartitionData(index) for index in partitions])

    for label, topics in {
        "nothing": [],
        "another topic": [rows("t", 0)],
        "another partition": [rows("__cluster_metadata", 1)],
        "two partitions": [rows("__cluster_metadata", 0, 1)],
        "no partition": [rows("__cluster_metadata")],
        "two topics": [rows("__cluster_metadata", 0), rows("t", 0)],
    }.items():
        made.ask(label, DescribeQuorumRequest(topics), range(3))


def _features(made: Play) -> None:
    upgrade, safe, unsafe = 1, 2, 3
    for version in range(3):
        for label, updates in {
            "as it is": [("group.version", 1, upgrade)],
            "above": [("group.version", 99, upgrade)],
            "negative": [("group.version", -1, upgrade)],
            "down by an upgrade": [("group.version", 0, upgrade)],
            "up by a downgrade": [("group.version", 1, safe)],
            "no such": [("no.such", 1, upgrade)],
            "no such, to 0": [("no.such", 0, safe)],
            "no such kind": [("group.version", 1, 9)],
            "good and bad": [("group.version", 1, upgrade), ("no.such", 1, upgrade)],
            "empty name": [("", 1, upgrade)],
            "nothing": [],
            "down": [("group.version", 0, safe)],
            "down, unsafe": [("group.version", 0, unsafe)],
            "up again": [("group.version", 1, upgrade)],
        }.items():
            rows = [FeatureUpdateKey(name, level, kind != upgrade, kind) for name, level, kind in updates]
            if not version and any(kind != upgrade for *_, kind in updates):
                continue
            if version:
                made.ask(f"{label}, checked", UpdateFeaturesRequest(60_000, rows, True), [version])
            made.ask(label, UpdateFeaturesRequest(60_000, rows), [version])
            features = made.broker.ask(ApiVersionsRequest("headgate", "1"), 4).finalized_features
            levels = [row.max_version_level for row in features if row.name == "group.version"]
            made.answers[f"UpdateFeatures v{version}: after {label}"] = str(levels)


def _producers(made: Play) -> None:
    made.topic("p", 2)
    for producer_id, sequence in ((700, 0), (700, 3), (701, 0)):
        made.produce("p", 3, producer_id=producer_id, producer_epoch=2, base_sequence=sequence)
    for label, rows in {
        "some": [ProducersOf("p", [0, 1, 9, -1]), ProducersOf("gone", [0])],
        "bad name": [ProducersOf("a b", [0]), ProducersOf("", [0])],
        "no partitions": [ProducersOf("p", [])],
        "nothing": [],
    }.items():
        made.ask(label, DescribeProducersRequest(rows), [0])


def _transactions(made: Play) -> None:
    made.ask("nothing", DescribeTransactionsRequest([]), [0])
    made.ask("all", ListTransactionsRequest(), range(3))
    filters = ListTransactionsRequest(["Ongoing", "Loud", "ongoing", ""], [7], 1000)
    made.ask("filtered", filters, range(3))
    made.ask("pattern", ListTransactionsRequest(transactional_id_pattern="a.*"), [2])
    made.ask("bad pattern", ListTransactionsRequest(transactional_id_pattern="("), [2])
    made.ask("empty pattern", ListTransactionsRequest(transactional_id_pattern=""), [2])


def _internal(made: Play) -> None:
    """The topic of the groups, which comes into being when somebody asks for a coordinator."""
    for _ in range(100):
        (found,) = made.broker.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4).coordinators
        if found.error_code == ErrorCode.NONE:
            break
    name = "__consumer_offsets"
    (topic,) = made.broker.ask(MetadataRequest(_topics(name)), 12).topics
    made.told.ids[topic.topic_id] = name
    made.ask("internal", MetadataRequest(_topics(name), False, False, True), [1, 8, 12, 13])
    made.ask("internal", DescribeTopicPartitionsRequest([TopicRequest(name)]), [0])
    made.ask("internal", DescribeConfigsRequest([_described(TOPIC, name, FEW)], True), [1, 4])
    rows = [DeleteRecordsTopic(name, [DeleteRecordsPartition(0, 0), DeleteRecordsPartition(9, 0)])]
    made.ask("internal", DeleteRecordsRequest(rows, 60_000), range(3))
    for created in (name, "__transaction_state"):
        made.ask(f"internal {created}", CreateTopicsRequest([_creatable(created, 1)], 60_000), [7])
    made.ask("internal", DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=60_000), [6])


STEPS: list[Callable[[Play], None]] = [
    _metadata,
    _creations,
    _partitions,
    _deletions,
    _records,
    _configs,
    _increments,
    _broker_settings,
    _replacements,
    _resources,
    _cluster,
    _pages,
    _directories,
    _epochs,
    _elections,
    _reassignments,
    _quorum,
    _features,
    _producers,
    _transactions,
    _internal,
]


class Remote:
    """A broker behind a port of this machine. What changes something in Kafka is seen by others a moment later."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30.0)
        self._peer = ClientConnection("admin")
        self.ask(ApiVersionsRequest("headgate", "1"), 3)

    def ask(self, request: Message, version: int) -> Any:
        served = self._peer.served_versions.get(request.api_key)
        if self._peer.served_versions and (served is None or version not in served):
            return None
        self._socket.sendall(self._peer.request(request, version))
        answered: list[tuple[Message, Any]] = []
        while not answered:
            received = self._socket.recv(1 << 20)
            assert received, f"the broker hung up on {request!r}, version {version}"
            answered = self._peer.receive(received)
        if not isinstance(request, ASKS):
            time.sleep(SETTLED_S)
        return answered[0][1]


def record(ports: Iterable[str]) -> dict[str, str]:
    """The answers of the first of these brokers, and of the next ones to what it does not serve."""
    answers: dict[str, str] = {}
    for port in ports:
        answers = {**play(Remote(int(port))), **answers}
    return answers


if __name__ == "__main__":
    for name, answer in record(sys.argv[1:]).items():
        sys.stdout.write(f"{name}\t{answer}\n")
