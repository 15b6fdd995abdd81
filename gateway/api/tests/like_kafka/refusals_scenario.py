"""Wrong requests of administrators, and the message of each refusal, for `test_refusals`.

    play(broker)        # any broker: `ask(request, version)` gives its response
    python -m headgate.gateway.api.tests.like_kafka.refusals_scenario PORT > refusals_of_kafka41.txt

The second line records the messages of a new Apache Kafka on this machine with `SETTINGS`: of 4.1.2 in that file, of
3.9.1 in `refusals_of_kafka39.txt`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from headgate.gateway.api.tests.like_kafka.admin_scenario import Remote
from headgate.gateway.tests.scenario import Broker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_configs import AlterableConfig as WholeConfig
from headgate.protocol.messages.alter_configs import AlterConfigsRequest
from headgate.protocol.messages.alter_configs import AlterConfigsResource as WholeResource
from headgate.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
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
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headgate.protocol.messages.elect_leaders import ElectLeadersRequest
from headgate.protocol.messages.elect_leaders import TopicPartitions as Elected
from headgate.protocol.messages.incremental_alter_configs import (
    APPEND,
    DELETE,
    SET,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.schema import Message
from headgate.protocol.wire import ZERO_UUID

SETTINGS = {"node.id": "1"}
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
NOBODYS_ID = b"the id of no one"


def play(broker: Broker) -> dict[str, str]:
    """Put every question, in this order; label -> 'ERROR_NAME message' of each row, rows sorted and joined by ' | '."""
    return {label: " | ".join(_asked(broker, request, version)) for label, request, version in _questions(broker)}


def _asked(broker: Broker, request: Message, version: int) -> list[str]:
    rows = sorted(_rows(broker.ask(request, version)))
    for _ in range(100):  # Kafka answers before it has created a topic
        if not any(row.startswith(("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT")) for row in rows) or version != 12:
            break
        rows = sorted(_rows(broker.ask(request, version)))
    return rows


def _rows(response: Message) -> Iterator[str]:
    for rows in ("topics", "results", "responses", "replica_election_results"):
        for row in getattr(response, rows, ()):
            nested = (
                [row]
                if rows == "topics"
                else getattr(row, "partitions", None) or getattr(row, "partition_result", [row])
            )
            for each in nested:
                message = getattr(each, "error_message", None)
                yield f"{ErrorCode(each.error_code).name} {message or ''}".strip()


def _questions(broker: Broker) -> Iterator[tuple[str, Message, int]]:
    for name in ("t", "a.b"):
        broker.ask(CreateTopicsRequest([CreatableTopic(name, 2 if name == "t" else 1, 1)], 60_000), 5)
    for questions in (_creations, _partitions, _deletions, _alterations, _replacements, _descriptions, _elections):
        yield from questions()


def _topic(name: str, partitions: int = 1, factor: int = 1, *assigned: Any, **configs: Any) -> CreatableTopic:
    rows = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreatableTopic(name, partitions, factor, [CreatableReplicaAssignment(*each) for each in assigned], rows)


def _creations() -> Iterator[tuple[str, Message, int]]:
    for label, topic in {
        "exists": _topic("t"),
        "no partitions": _topic("w", 0),
        "negative partitions": _topic("w", -2),
        "no replicas": _topic("w", 1, 0),
        "negative replicas": _topic("w", 1, -2),
        "too many replicas": _topic("w", 1, 3),
        "counted and given": _topic("w", 1, 1, [0, [1]]),
        "counted partitions and given": _topic("w", 1, -1, [0, [1]]),
        "a gap": _topic("w", -1, -1, [0, [1]], [2, [1]]),
        "given twice": _topic("w", -1, -1, [0, [1]], [0, [1]]),
        "given to nobody": _topic("w", -1, -1, [0, []]),
        "one broker twice": _topic("w", -1, -1, [0, [1, 1]]),
        "another broker": _topic("w", -1, -1, [0, [2]]),
        "another broker, later": _topic("w", -1, -1, [0, [1]], [1, [1, 2]]),
        "unknown config": _topic("w", prefix="1"),
        "misspelt config": _topic("w", retentions_ms="1"),
        "a broker's config": _topic("w", log_retention_ms="1"),
        "no number": _topic("w", retention_ms="long"),
        "too small": _topic("w", retention_ms="-2"),
        "small segments": _topic("w", segment_bytes="1"),
        "empty value": _topic("w", retention_ms=""),
        "null value": _topic("w", retention_ms=None),
        "no boolean": _topic("w", preallocate="maybe"),
        "no such choice": _topic("w", compression_type="rar"),
        "no such policy": _topic("w", cleanup_policy="shred"),
        "ratio": _topic("w", min_cleanable_dirty_ratio="1.5"),
        "lags": _topic("w", min_compaction_lag_ms="2", max_compaction_lag_ms="1"),
        "gzip level": _topic("w", compression_gzip_level="10"),
        "tiered": _topic("w", remote_storage_enable="true"),
        "throttled replicas": _topic("w", leader_replication_throttled_replicas="x"),
        "empty name": _topic(""),
        "one dot": _topic("."),
        "two dots": _topic(".."),
        "a blank": _topic("a b"),
        "a slash": _topic("a/b"),
        "too long": _topic("x" * 250),
        "collides": _topic("a_b"),
        "metadata log": _topic("__cluster_metadata"),
    }.items():
        yield f"CreateTopics: {label}", CreateTopicsRequest([topic], 60_000, True), 5
    for validate_only in (True, False):
        suffix = ", checked" * validate_only
        for label, names in {
            "twice": ["v", "w", "v"],
            "dot before line": ["c.d", "c_d"],
            "line before dot": ["e_f", "e.f"],
            "three spellings": ["g.h.i", "g_h.i", "g_h_i"],
            "collides with an older": ["a_b", "k.l", "k_l"],
        }.items():
            request = CreateTopicsRequest([_topic(name) for name in names], 60_000, validate_only)
            yield f"CreateTopics: {label}{suffix}", request, 5
    yield "CreateTopics: exist by now", CreateTopicsRequest([_topic("e-f"), _topic("e.f"), _topic("e_f")]), 5
    named = MetadataRequest([MetadataRequestTopic(name=name) for name in ("m.n", "m_n", "a_b")])
    yield "Metadata: created when asked for", named, 12
    yield "CreateTopics: too many", CreateTopicsRequest([_topic("w", 10_001)], 60_000, True), 5


def _partitions() -> Iterator[tuple[str, Message, int]]:
    def row(name: str, count: int, *assigned: list[int]) -> CreatePartitionsTopic:
        rows = [CreatePartitionsAssignment(each) for each in assigned]
        return CreatePartitionsTopic(name, count, rows or None)

    for label, topics in {
        "unknown topic": [row("gone", 2)],
        "empty name": [row("", 2)],
        "fewer": [row("t", 1)],
        "as many": [row("t", 2)],
        "none": [row("t", 0)],
        "negative": [row("t", -1)],
        "too many": [row("t", 10_003)],
        "too few given": [row("t", 4, [1])],
        "too many given": [row("t", 3, [1], [1])],
        "another broker": [row("t", 3, [2])],
        "a broker twice": [row("t", 3, [1, 1])],
        "given to nobody": [row("t", 3, [])],
        "unequal": [row("t", 4, [1], [])],
        "empty list": [CreatePartitionsTopic("t", 3, [])],
        "twice": [row("t", 3), row("t", 4)],
    }.items():
        yield f"CreatePartitions: {label}", CreatePartitionsRequest(topics, 60_000, True), 2


def _deletions() -> Iterator[tuple[str, Message, int]]:
    for label, states in {
        "unknown topic": [DeleteTopicState("gone")],
        "bad name": [DeleteTopicState("a b")],
        "empty name": [DeleteTopicState("")],
        "unknown id": [DeleteTopicState(None, NOBODYS_ID)],
        "neither": [DeleteTopicState(None, ZERO_UUID), DeleteTopicState("gone")],
        "both": [DeleteTopicState("t", NOBODYS_ID)],
        "twice": [DeleteTopicState("t"), DeleteTopicState("t")],
        "id twice": [DeleteTopicState(None, NOBODYS_ID), DeleteTopicState(None, NOBODYS_ID)],
    }.items():
        yield f"DeleteTopics: {label}", DeleteTopicsRequest(states, timeout_ms=60_000), 6


def _changed(kind: int, name: str, *configs: tuple[str, int, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, [AlterableConfig(*config) for config in configs])


def _alterations() -> Iterator[tuple[str, Message, int]]:
    one = ("retention.ms", SET, "1")
    for label, resource in {
        "unknown topic": _changed(TOPIC, "gone", one),
        "empty topic": _changed(TOPIC, "", one),
        "bad topic": _changed(TOPIC, "a b", one),
        "unknown type": _changed(3, "t", one),
        "no type": _changed(0, "t", one),
        "unknown config": _changed(TOPIC, "t", ("prefix", SET, "1")),
        "delete unknown config": _changed(TOPIC, "t", ("prefix", DELETE, None)),
        "no number": _changed(TOPIC, "t", ("retention.ms", SET, "x")),
        "too small": _changed(TOPIC, "t", ("retention.ms", SET, "-2")),
        "null": _changed(TOPIC, "t", ("retention.ms", SET, None)),
        "append null": _changed(TOPIC, "t", ("cleanup.policy", APPEND, None)),
        "append to no list": _changed(TOPIC, "t", ("retention.ms", APPEND, "1")),
        "append to an unknown": _changed(TOPIC, "t", ("prefix", APPEND, "1")),
        "no such policy": _changed(TOPIC, "t", ("cleanup.policy", APPEND, "shred")),
        "twice": _changed(TOPIC, "t", one, one),
        "empty config": _changed(TOPIC, "t", ("", SET, "1")),
        "no such operation": _changed(TOPIC, "t", ("retention.ms", 9, "1")),
        "lags": _changed(TOPIC, "t", ("min.compaction.lag.ms", SET, "2"), ("max.compaction.lag.ms", SET, "1")),
        "a fixed setting": _changed(BROKER, "1", ("num.partitions", SET, "2")),
        "two fixed settings": _changed(BROKER, "1", ("num.partitions", SET, "2"), ("log.dirs", SET, "2")),
        "a fixed setting of all": _changed(BROKER, "", ("num.partitions", SET, "2")),
        "delete a fixed setting": _changed(BROKER, "1", ("num.partitions", DELETE, None)),
        "a setting of each broker": _changed(BROKER, "", ("sasl.kerberos.kinit.cmd", SET, "/bin/kinit")),
        "a setting of each listener": _changed(BROKER, "1", ("ssl.keystore.location", SET, "/tmp/x")),
        "a thread too many": _changed(BROKER, "1", ("num.io.threads", SET, "1000")),
        "no thread": _changed(BROKER, "1", ("num.io.threads", SET, "0")),
        "no number of a broker": _changed(BROKER, "1", ("message.max.bytes", SET, "x")),
        "another broker": _changed(BROKER, "7", ("message.max.bytes", SET, "1000")),
        "no broker": _changed(BROKER, "x", ("message.max.bytes", SET, "1000")),
        "no logger": _changed(LOGGER, "1", ("no.such.logger", SET, "INFO")),
        "bad level": _changed(LOGGER, "1", ("root", SET, "LOUD")),
        "root logger deleted": _changed(LOGGER, "1", ("root", DELETE, None)),
        "logger appended": _changed(LOGGER, "1", ("root", APPEND, "INFO")),
        "logger of another": _changed(LOGGER, "2", ("root", SET, "INFO")),
        "logger of nobody": _changed(LOGGER, "", ("root", SET, "INFO")),
        "empty group": _changed(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
        "group, too small": _changed(GROUP, "g", ("consumer.session.timeout.ms", SET, "5")),
        "group, too large": _changed(GROUP, "g", ("consumer.session.timeout.ms", SET, "5000000")),
        "group, no number": _changed(GROUP, "g", ("consumer.session.timeout.ms", SET, "x")),
        "group, unknown config": _changed(GROUP, "g", ("prefix", SET, "5")),
        "group, heartbeat": _changed(GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "1")),
        "metrics, empty name": _changed(METRICS, "", ("interval.ms", SET, "1000")),
        "metrics": _changed(METRICS, "m", ("interval.ms", SET, "1000")),
        "metrics, unknown config": _changed(METRICS, "m", ("prefix", SET, "1000")),
        "metrics, too small": _changed(METRICS, "m", ("interval.ms", SET, "1")),
    }.items():
        yield f"IncrementalAlterConfigs: {label}", IncrementalAlterConfigsRequest([resource], True), 1
    twice = [_changed(TOPIC, "t", one), _changed(TOPIC, "t", one)]
    yield "IncrementalAlterConfigs: a resource twice", IncrementalAlterConfigsRequest(twice, True), 1


def _replacements() -> Iterator[tuple[str, Message, int]]:
    def whole(kind: int, name: str, **configs: str | None) -> WholeResource:
        return WholeResource(kind, name, [WholeConfig(key.replace("_", "."), value) for key, value in configs.items()])

    for label, resource in {
        "unknown topic": whole(TOPIC, "gone", retention_ms="1"),
        "unknown config": whole(TOPIC, "t", prefix="1"),
        "no number": whole(TOPIC, "t", retention_ms="x"),
        "null": whole(TOPIC, "t", retention_ms=None),
        "no type": whole(0, "t", retention_ms="1"),
        "a fixed setting": whole(BROKER, "1", num_partitions="2"),
        "a setting of each broker": whole(BROKER, "", sasl_kerberos_kinit_cmd="2"),
        "a setting of each listener": whole(BROKER, "1", ssl_keystore_location="2"),
        "another broker": whole(BROKER, "7", message_max_bytes="1000"),
    }.items():
        yield f"AlterConfigs: {label}", AlterConfigsRequest([resource], True), 2


def _descriptions() -> Iterator[tuple[str, Message, int]]:
    for label, (kind, name) in {
        "unknown topic": (TOPIC, "gone"),
        "empty topic": (TOPIC, ""),
        "bad topic": (TOPIC, "a b"),
        "another broker": (BROKER, "2"),
        "no broker": (BROKER, "x"),
        "no type": (0, "t"),
        "unknown type": (3, "t"),
        "logger of another": (LOGGER, "2"),
        "logger of nobody": (LOGGER, ""),
        "empty group": (GROUP, ""),
        "metrics, empty name": (METRICS, ""),
        "metrics": (METRICS, "m"),
    }.items():
        yield f"DescribeConfigs: {label}", DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)]), 4


def _elections() -> Iterator[tuple[str, Message, int]]:
    for label, wanted in {
        "unknown topic": Elected("gone", [0]),
        "unknown partition": Elected("t", [9]),
        "not needed": Elected("t", [0]),
    }.items():
        for kind, election in enumerate(("preferred", "unclean")):
            yield f"ElectLeaders: {label}, {election}", ElectLeadersRequest(kind, [wanted]), 2
    for label, topic in {
        "unknown topic": ReassignableTopic("gone", [ReassignablePartition(0, [1])]),
        "unknown partition": ReassignableTopic("t", [ReassignablePartition(9, [1])]),
        "another broker": ReassignableTopic("t", [ReassignablePartition(0, [2])]),
        "a broker twice": ReassignableTopic("t", [ReassignablePartition(0, [1, 1])]),
        "nobody": ReassignableTopic("t", [ReassignablePartition(0, [])]),
        "nothing to cancel": ReassignableTopic("t", [ReassignablePartition(0, None)]),
    }.items():
        yield f"AlterPartitionReassignments: {label}", AlterPartitionReassignmentsRequest(topics=[topic]), 0


def record(ports: Iterable[str]) -> dict[str, str]:
    """The answers of the broker behind the first port."""
    return play(Remote(int(next(iter(ports)))))


if __name__ == "__main__":
    for name, answer in record(sys.argv[1:]).items():
        sys.stdout.write(f"{name}\t{answer}\n")
