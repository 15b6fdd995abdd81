"""Questions of administrators about topics, configs and the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.gateway.api.tests.under_acls.questions import Ids, Question, named, question
from headgate.protocol.messages import alter_configs, describe_configs, incremental_alter_configs
from headgate.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from headgate.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from headgate.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.messages.describe_acls import DescribeAclsRequest
from headgate.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
)
from headgate.protocol.messages.describe_cluster import DescribeClusterRequest
from headgate.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headgate.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestedPartitionData,
    RequestedTopicData,
)
from headgate.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from headgate.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headgate.protocol.messages.list_config_resources import ListConfigResourcesRequest
from headgate.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest
from headgate.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
ANY, LITERAL, READ, ALLOW = 1, 3, 3, 3
ZED = AclCreation(TOPIC, "zed", LITERAL, "User:zed", "*", READ, ALLOW)
"""An ACL of nobody, which exists."""


def admin_questions() -> Iterator[Question]:
    yield from _topics()
    yield from _configs()
    yield from _partitions()
    yield from _security()
    yield from _cluster()


def _topics() -> Iterator[Question]:
    creatable = [CreatableTopic(name, 2, 1) for name in ("t", "u", "new", "other")]
    yield question("created", CreateTopicsRequest(creatable, 10_000), [0, 7], ("new", "other"))
    yield question("checked", CreateTopicsRequest(creatable, 10_000, True), range(1, 8))
    names = ["doomed", "stays", "new", "gone"]
    existing = ("doomed", "stays")
    yield question("names", DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), range(6), existing)
    states = [DeleteTopicState(name) for name in names]
    yield question("names", DeleteTopicsRequest(states, timeout_ms=10_000), [6], existing)

    def by_id(ids: Ids, _version: int) -> DeleteTopicsRequest:
        return DeleteTopicsRequest([DeleteTopicState(None, named(ids, name)) for name in names[:3]], timeout_ms=10_000)

    yield Question("ids", by_id, [6], existing)
    grown = [CreatePartitionsTopic(name, 3) for name in ("t", "u", "new", "gone")]
    yield question("checked", CreatePartitionsRequest(grown, 10_000, True))


def _configs() -> Iterator[Question]:
    keys = {
        TOPIC: ["retention.ms"],
        GROUP: ["consumer.session.timeout.ms"],
        BROKER: ["log.retention.ms"],
        LOGGER: ["no"],
    }
    resources = [
        *((TOPIC, name) for name in ("t", "u", "new", "gone")),
        *((GROUP, name) for name in ("g", "h", "nobody")),
        *((BROKER, name) for name in ("1", "")),
    ]
    older = [resource for resource in resources if resource[0] != GROUP]
    described = [describe_configs.DescribeConfigsResource(*resource, keys[resource[0]]) for resource in resources]
    few = [describe_configs.DescribeConfigsResource(*resource, keys[resource[0]]) for resource in older]
    yield question("topics and brokers", describe_configs.DescribeConfigsRequest(few))
    yield question("groups too", describe_configs.DescribeConfigsRequest(described))
    logger = describe_configs.DescribeConfigsResource(LOGGER, "1", keys[LOGGER])
    yield question("loggers", describe_configs.DescribeConfigsRequest([logger]))

    values = {TOPIC: "86400000", GROUP: "46000", BROKER: "86400000", LOGGER: "INFO"}
    whole = [
        alter_configs.AlterConfigsResource(kind, name, [alter_configs.AlterableConfig(keys[kind][0], values[kind])])
        for kind, name in older[:-1]
    ]
    yield question("checked", alter_configs.AlterConfigsRequest(whole, True))
    incremental = [
        incremental_alter_configs.AlterConfigsResource(
            kind, name, [incremental_alter_configs.AlterableConfig(keys[kind][0], 0, values[kind])]
        )
        for kind, name in (*resources, (LOGGER, "1"))
    ]
    request = incremental_alter_configs.IncrementalAlterConfigsRequest
    yield question(
        "topics and brokers, checked",
        request([row for row in incremental if row.resource_type in (TOPIC, BROKER)], True),
    )
    yield question("groups, checked", request([row for row in incremental if row.resource_type == GROUP], True))
    yield question("loggers, checked", request([row for row in incremental if row.resource_type == LOGGER], True))
    yield question("all types", ListConfigResourcesRequest(), [1])
    yield question("groups", ListConfigResourcesRequest([GROUP]), [1])
    yield question("client metrics", ListConfigResourcesRequest(), [0])


def _partitions() -> Iterator[Question]:
    cancelled = [ReassignableTopic(name, [ReassignablePartition(0, None)]) for name in ("t", "u", "new")]
    yield question("cancelled", AlterPartitionReassignmentsRequest(10_000, topics=cancelled))
    yield question("all", ListPartitionReassignmentsRequest(10_000, None))
    yield question("some", ElectLeadersRequest(0, [TopicPartitions(name, [0]) for name in ("t", "u", "new")], 10_000))
    yield question("some", DescribeLogDirsRequest([DescribableLogDirTopic(name, [0]) for name in ("t", "u", "new")]))


def _security() -> Iterator[Question]:
    yield question("one that exists", CreateAclsRequest([ZED]))
    yield question("of a topic", DescribeAclsRequest(TOPIC, "zed", LITERAL, None, None, ANY, ANY))
    yield question("none", DeleteAclsRequest([DeleteAclsFilter(TOPIC, "zed", LITERAL, "User:none", None, ANY, ANY)]))
    zed = EntityData("user", "zed")
    yield question("of a user", DescribeClientQuotasRequest([ComponentData("user", 0, "zed")], True))
    altered = [EntryData([zed], [OpData("producer_byte_rate", 5.0)])]
    yield question("checked", AlterClientQuotasRequest(altered, True))
    yield question("of a user", DescribeUserScramCredentialsRequest([UserName("zed")]))
    weak = ScramCredentialUpsertion("zed", 1, 1, b"salt", b"password")
    yield question("too few iterations", AlterUserScramCredentialsRequest([], [weak]))
    yield question("after the login", SaslHandshakeRequest("PLAIN"))
    yield question("after the login", SaslAuthenticateRequest(b"\0a\0b"))


def _cluster() -> Iterator[Question]:
    yield question("no such feature", UpdateFeaturesRequest(10_000, [FeatureUpdateKey("no.such", 1, False, 1)]))
    yield question("of a topic", DescribeQuorumRequest([RequestedTopicData("t", [RequestedPartitionData(0)])]))
    yield question("plain", DescribeClusterRequest())
    yield question("with operations", DescribeClusterRequest(True))
