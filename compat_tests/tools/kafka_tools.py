"""Kafka's command-line tools behind a proxy, which notes what they ask for."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from compat_tests.harness.proxy import Proxy
from compat_tests.harness.tool_jvm import Said, ToolJvm

_PACKAGE: Final = "org.apache.kafka.tools."
API_VERSIONS: Final = _PACKAGE + "BrokerApiVersionsCommand"
CLIENT_METRICS: Final = _PACKAGE + "ClientMetricsCommand"
CLUSTER: Final = _PACKAGE + "ClusterTool"
CONFIGS: Final = "kafka.admin.ConfigCommand"
CONSUMER_GROUPS: Final = _PACKAGE + "consumer.group.ConsumerGroupCommand"
DELETE_RECORDS: Final = _PACKAGE + "DeleteRecordsCommand"
DELEGATION_TOKENS: Final = _PACKAGE + "DelegationTokenCommand"
ELECTION: Final = _PACKAGE + "LeaderElectionCommand"
FEATURES: Final = _PACKAGE + "FeatureCommand"
GROUPS: Final = _PACKAGE + "GroupsCommand"
LOG_DIRS: Final = _PACKAGE + "LogDirsCommand"
OFFSETS: Final = _PACKAGE + "GetOffsetShell"
QUORUM: Final = _PACKAGE + "MetadataQuorumCommand"
REASSIGN: Final = _PACKAGE + "reassign.ReassignPartitionsCommand"
TOPICS: Final = _PACKAGE + "TopicCommand"
TRANSACTIONS: Final = _PACKAGE + "TransactionsCommand"


class Tools:
    """One JVM for the tools of Kafka 4.1, pointed at the broker behind a proxy, which notes what they ask."""

    name = "kafka-tools 4.1"

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.bootstrap = proxy.bootstrap
        self.jvm = ToolJvm("broker")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.jvm.close()

    def run(self, tool: str, *arguments: str) -> Said:
        """Run a tool to its end, whatever that is."""
        where = ("--bootstrap-server", self.bootstrap)
        # Some take it before what they are to do, and this one after it
        words = (*arguments, *where) if tool == CLUSTER else (*where, *arguments)
        with self.proxy.recording(self.name):
            return self.jvm.run(tool, *words)

    def lines(self, tool: str, *arguments: str) -> list[str]:
        """What a tool that succeeds prints, without what is blank: lines, with one blank where there are several."""
        said = self.run(tool, *arguments)
        assert said.status == 0, said
        return [" ".join(line.split()) for line in said.output.splitlines() if line.strip()]

    def fails(self, tool: str, *arguments: str) -> str:
        """All that a tool prints that does not succeed."""
        said = self.run(tool, *arguments)
        assert said.status != 0, said
        return said.output + said.errors
