"""The versions of APIs that each release of Apache Kafka serves to clients.

`tools/development/kafka_versions.py` makes the table of the message definitions in Kafka's own Java clients; a test
compares it with the jars that the tests install. A release stands for its last patch: 4.0 is 4.0.2.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from headgate.protocol.schema import Versions

# The table
_RELEASES: Final = "2.3 2.4 2.5 2.6 2.7 2.8 3.0 3.1 3.2 3.3 3.4 3.5 3.6 3.7 3.8 3.9 4.0.0 4.0 4.1 4.2 4.3 4.4"
_CHANGES: Final[dict[int, str]] = {
    # Produce
    0: "2.3:0-7 2.4:0-8 2.8:0-9 3.7:0-10 3.8:0-11 4.0.0:3-12 4.1:3-13",
    # Fetch
    1: "2.3:0-11 2.7:0-12 3.1:0-13 3.5:0-15 3.7:0-16 3.9:0-17 4.0.0:4-17 4.1:4-18",
    # ListOffsets
    2: "2.3:0-5 2.8:0-6 3.0:0-7 3.5:0-8 3.9:0-9 4.0.0:1-10 4.2:1-11",
    # Metadata
    3: "2.3:0-8 2.4:0-9 2.8:0-11 3.1:0-12 4.0.0:0-13",
    # LeaderAndIsr
    4: "2.3:0-2 2.4:0-4 2.8:0-5 3.2:0-6 3.4:0-7 4.0.0:none",
    # StopReplica
    5: "2.3:0-1 2.4:0-2 2.6:0-3 3.4:0-4 4.0.0:none",
    # UpdateMetadata
    6: "2.3:0-5 2.4:0-6 2.8:0-7 3.4:0-8 4.0.0:none",
    # ControlledShutdown
    7: "2.3:0-2 2.4:0-3 4.0.0:none",
    # OffsetCommit
    8: "2.3:0-7 2.4:0-8 3.7:0-9 4.0.0:2-9 4.2:2-10",
    # OffsetFetch
    9: "2.3:0-5 2.4:0-6 2.5:0-7 3.0:0-8 3.7:0-9 4.0.0:1-9 4.2:1-10",
    # FindCoordinator
    10: "2.3:0-2 2.4:0-3 3.0:0-4 3.8:0-5 3.9:0-6",
    # JoinGroup
    11: "2.3:0-5 2.4:0-6 2.5:0-7 3.2:0-9 4.0.0:2-9 4.0:0-9",
    # Heartbeat
    12: "2.3:0-3 2.4:0-4",
    # LeaveGroup
    13: "2.3:0-2 2.4:0-4 3.2:0-5",
    # SyncGroup
    14: "2.3:0-3 2.4:0-4 2.5:0-5",
    # DescribeGroups
    15: "2.3:0-3 2.4:0-5 4.0.0:0-6",
    # ListGroups
    16: "2.3:0-2 2.4:0-3 2.6:0-4 3.8:0-5",
    # SaslHandshake
    17: "2.3:0-1",
    # ApiVersions
    18: "2.3:0-2 2.4:0-3 3.9:0-4 4.4:0-5",
    # CreateTopics
    19: "2.3:0-3 2.4:0-5 2.7:0-6 2.8:0-7 4.0.0:2-7",
    # DeleteTopics
    20: "2.3:0-3 2.4:0-4 2.7:0-5 2.8:0-6 4.0.0:1-6",
    # DeleteRecords
    21: "2.3:0-1 2.6:0-2",
    # InitProducerId
    22: "2.3:0-1 2.4:0-2 2.5:0-3 2.7:0-4 3.8:0-5",
    # OffsetForLeaderEpoch
    23: "2.3:0-3 2.8:0-4 4.0.0:2-4",
    # AddPartitionsToTxn
    24: "2.3:0-1 2.7:0-2 2.8:0-3 3.6:0-4 3.8:0-5",
    # AddOffsetsToTxn
    25: "2.3:0-1 2.7:0-2 2.8:0-3 3.8:0-4",
    # EndTxn
    26: "2.3:0-1 2.7:0-2 2.8:0-3 3.8:0-4 4.0.0:0-5",
    # WriteTxnMarkers
    27: "2.3:0 2.8:0-1 4.0.0:1 4.2:1-2",
    # TxnOffsetCommit
    28: "2.3:0-2 2.5:0-3 3.8:0-4 4.0.0:0-5 4.4:0-6",
    # DescribeAcls
    29: "2.3:0-1 2.5:0-2 3.3:0-3 4.0.0:1-3",
    # CreateAcls
    30: "2.3:0-1 2.5:0-2 3.3:0-3 4.0.0:1-3",
    # DeleteAcls
    31: "2.3:0-1 2.5:0-2 3.3:0-3 4.0.0:1-3",
    # DescribeConfigs
    32: "2.3:0-2 2.6:0-3 2.8:0-4 4.0.0:1-4",
    # AlterConfigs
    33: "2.3:0-1 2.8:0-2",
    # AlterReplicaLogDirs
    34: "2.3:0-1 2.8:0-2 4.0.0:1-2",
    # DescribeLogDirs
    35: "2.3:0-1 2.6:0-2 3.2:0-3 3.3:0-4 4.0.0:1-4 4.3:1-5",
    # SaslAuthenticate
    36: "2.3:0-1 2.5:0-2",
    # CreatePartitions
    37: "2.3:0-1 2.5:0-2 2.7:0-3",
    # CreateDelegationToken
    38: "2.3:0-1 2.4:0-2 3.3:0-3 4.0.0:1-3",
    # RenewDelegationToken
    39: "2.3:0-1 2.5:0-2 4.0.0:1-2",
    # ExpireDelegationToken
    40: "2.3:0-1 2.5:0-2 4.0.0:1-2",
    # DescribeDelegationToken
    41: "2.3:0-1 2.5:0-2 3.3:0-3 4.0.0:1-3",
    # DeleteGroups
    42: "2.3:0-1 2.4:0-2 4.4:0-3",
    # ElectLeaders
    43: "2.3:0 2.4:0-2",
    # IncrementalAlterConfigs
    44: "2.3:0 2.4:0-1",
    # AlterPartitionReassignments
    45: "2.4:0 4.1:0-1",
    # ListPartitionReassignments
    46: "2.4:0",
    # OffsetDelete
    47: "2.4:0",
    # DescribeClientQuotas
    48: "2.6:0 2.8:0-1",
    # AlterClientQuotas
    49: "2.6:0 2.8:0-1",
    # DescribeUserScramCredentials
    50: "2.7:0",
    # AlterUserScramCredentials
    51: "2.7:0",
    # DescribeQuorum
    55: "2.7:0 3.3:0-1 3.9:0-2",
    # AlterPartition
    56: "2.7:0 3.2:0-1 3.3:0-2 3.5:0-3 4.0.0:2-3",
    # UpdateFeatures
    57: "2.7:0 3.3:0-1 4.0.0:0-2",
    # DescribeCluster
    60: "2.8:0 3.7:0-1 4.0.0:0-2",
    # DescribeProducers
    61: "2.8:0",
    # UnregisterBroker
    64: "2.8:0",
    # DescribeTransactions
    65: "3.0:0",
    # ListTransactions
    66: "3.0:0 3.8:0-1 4.1:0-2",
    # AllocateProducerIds
    67: "3.0:0",
    # ConsumerGroupHeartbeat
    68: "3.7:0 4.0.0:0-1",
    # ConsumerGroupDescribe
    69: "3.8:0 4.0.0:0-1",
    # GetTelemetrySubscriptions
    71: "3.7:0",
    # PushTelemetry
    72: "3.7:0",
    # ListConfigResources
    74: "3.7:0 4.1:0-1",
    # DescribeTopicPartitions
    75: "3.8:0",
    # ShareGroupHeartbeat
    76: "4.1:1",
    # ShareGroupDescribe
    77: "4.1:1",
    # ShareFetch
    78: "4.1:1 4.2:1-2",
    # ShareAcknowledge
    79: "4.1:1 4.2:1-2",
    # InitializeShareGroupState
    83: "4.1:0",
    # ReadShareGroupState
    84: "4.1:0",
    # WriteShareGroupState
    85: "4.1:0 4.2:0-1",
    # DeleteShareGroupState
    86: "4.1:0",
    # ReadShareGroupStateSummary
    87: "4.1:0 4.2:0-1",
    # StreamsGroupHeartbeat
    88: "4.2:0 4.4:0-1",
    # StreamsGroupDescribe
    89: "4.2:0 4.4:0-1",
    # DescribeShareGroupOffsets
    90: "4.1:0 4.2:0-1",
    # AlterShareGroupOffsets
    91: "4.1:0",
    # DeleteShareGroupOffsets
    92: "4.1:0",
    # StreamsGroupTopologyDescriptionUpdate
    93: "4.4:0",
}
# The end of the table

RELEASES: Final = tuple(_RELEASES.split())
"""The releases, the oldest first."""


class UnknownRelease(ValueError):
    """The table has no such release; the text has the known ones."""


def newest() -> str:
    """The newest release of the table."""
    return RELEASES[-1]


def find(name: str) -> str:
    """The release that a user means: 4.1, 4.1.2 and v4.1 are 4.1. Raises UnknownRelease."""
    text = name.strip().removeprefix("v")
    minor = ".".join(text.split(".")[:2])
    for release in (text, minor):
        if release in RELEASES:
            return release
    raise UnknownRelease(f"{name} is no known release of Kafka; these are known: {', '.join(RELEASES)}")


@functools.cache
def release(name: str) -> Mapping[int, Versions]:
    """The versions of a release by API key; an API that the release does not have is left out."""
    position = RELEASES.index(name)
    versions: dict[int, Versions] = {}
    for api_key, changes in _CHANGES.items():
        for change in changes.split():
            since, _, text = change.partition(":")
            if RELEASES.index(since) > position:
                break
            versions[api_key] = Versions.parse(text)
    return {api_key: found for api_key, found in versions.items() if found.first <= found.last}
