"""The table of APIs: from an API key to the name, the response and the versions of both headers.

The first use of an API imports its module of `protocol.messages`: the start of a broker needs few of them. A header is
read before that, so the table has the facts that its version depends on. It also has the APIs that Headgate does not
serve: their requests are refused by name. A test compares the table with the declarations; those of APIs that are not
served are in `protocol/tests/unserved`.
"""

from __future__ import annotations

import functools
import importlib
import re
from typing import NamedTuple

from headgate.protocol.schema import Message


class Api(NamedTuple):
    """One API. `flexible_from`: the first flexible version, with compact lengths and tagged fields (KIP-482)."""

    name: str
    flexible_from: int


NEVER_FLEXIBLE = 0x7FFF

APIS: dict[int, Api] = {
    0: Api("Produce", 9),
    1: Api("Fetch", 12),
    2: Api("ListOffsets", 6),
    3: Api("Metadata", 9),
    4: Api("LeaderAndIsr", 4),
    5: Api("StopReplica", 2),
    6: Api("UpdateMetadata", 6),
    7: Api("ControlledShutdown", 3),
    8: Api("OffsetCommit", 8),
    9: Api("OffsetFetch", 6),
    10: Api("FindCoordinator", 3),
    11: Api("JoinGroup", 6),
    12: Api("Heartbeat", 4),
    13: Api("LeaveGroup", 4),
    14: Api("SyncGroup", 4),
    15: Api("DescribeGroups", 5),
    16: Api("ListGroups", 3),
    17: Api("SaslHandshake", NEVER_FLEXIBLE),
    18: Api("ApiVersions", 3),
    19: Api("CreateTopics", 5),
    20: Api("DeleteTopics", 4),
    21: Api("DeleteRecords", 2),
    22: Api("InitProducerId", 2),
    23: Api("OffsetForLeaderEpoch", 4),
    24: Api("AddPartitionsToTxn", 3),
    25: Api("AddOffsetsToTxn", 3),
    26: Api("EndTxn", 3),
    27: Api("WriteTxnMarkers", 1),
    28: Api("TxnOffsetCommit", 3),
    29: Api("DescribeAcls", 2),
    30: Api("CreateAcls", 2),
    31: Api("DeleteAcls", 2),
    32: Api("DescribeConfigs", 4),
    33: Api("AlterConfigs", 2),
    34: Api("AlterReplicaLogDirs", 2),
    35: Api("DescribeLogDirs", 2),
    36: Api("SaslAuthenticate", 2),
    37: Api("CreatePartitions", 2),
    38: Api("CreateDelegationToken", 2),
    39: Api("RenewDelegationToken", 2),
    40: Api("ExpireDelegationToken", 2),
    41: Api("DescribeDelegationToken", 2),
    42: Api("DeleteGroups", 2),
    43: Api("ElectLeaders", 2),
    44: Api("IncrementalAlterConfigs", 1),
    45: Api("AlterPartitionReassignments", 0),
    46: Api("ListPartitionReassignments", 0),
    47: Api("OffsetDelete", NEVER_FLEXIBLE),
    48: Api("DescribeClientQuotas", 1),
    49: Api("AlterClientQuotas", 1),
    50: Api("DescribeUserScramCredentials", 0),
    51: Api("AlterUserScramCredentials", 0),
    55: Api("DescribeQuorum", 0),
    56: Api("AlterPartition", 0),
    57: Api("UpdateFeatures", 0),
    60: Api("DescribeCluster", 0),
    61: Api("DescribeProducers", 0),
    64: Api("UnregisterBroker", 0),
    65: Api("DescribeTransactions", 0),
    66: Api("ListTransactions", 0),
    67: Api("AllocateProducerIds", 0),
    68: Api("ConsumerGroupHeartbeat", 0),
    69: Api("ConsumerGroupDescribe", 0),
    71: Api("GetTelemetrySubscriptions", 0),
    72: Api("PushTelemetry", 0),
    74: Api("ListConfigResources", 0),
    75: Api("DescribeTopicPartitions", 0),
    76: Api("ShareGroupHeartbeat", 0),
    77: Api("ShareGroupDescribe", 0),
    78: Api("ShareFetch", 0),
    79: Api("ShareAcknowledge", 0),
    83: Api("InitializeShareGroupState", 0),
    84: Api("ReadShareGroupState", 0),
    85: Api("WriteShareGroupState", 0),
    86: Api("DeleteShareGroupState", 0),
    87: Api("ReadShareGroupStateSummary", 0),
    88: Api("StreamsGroupHeartbeat", 0),
    89: Api("StreamsGroupDescribe", 0),
    90: Api("DescribeShareGroupOffsets", 0),
    91: Api("AlterShareGroupOffsets", 0),
    92: Api("DeleteShareGroupOffsets", 0),
    93: Api("StreamsGroupTopologyDescriptionUpdate", 0),
}

_UNKNOWN = Api("unknown", NEVER_FLEXIBLE)
_CONTROLLED_SHUTDOWN = 7
_API_VERSIONS = 18


@functools.cache
def response_class(key: int) -> type[Message]:
    """Return the response class of an API. Raises KeyError."""
    name = APIS[key].name
    module = importlib.import_module(f"headgate.protocol.messages.{module_name(name)}")
    declared: type[Message] = getattr(module, f"{name}Response")
    return declared


def module_name(api: str) -> str:
    """Return the name of the module that declares the messages of an API."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", api).lower()


@functools.lru_cache(maxsize=1024)
def header_versions(key: int, version: int) -> tuple[int, int]:
    """Return the versions of the request header and of the response header.

    Request header: 1 adds the client id, 2 the tagged fields. Response header: 1 adds the tagged fields. There are two
    exceptions. ControlledShutdown v0 has no client id. The ApiVersions response keeps header 0: a client reads this
    response before it knows the versions of the broker (KIP-511).
    """
    if version >= APIS.get(key, _UNKNOWN).flexible_from:
        return 2, 0 if key == _API_VERSIONS else 1
    return 0 if key == _CONTROLLED_SHUTDOWN and version == 0 else 1, 0
