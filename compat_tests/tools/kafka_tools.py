"""Kafka's command-line tools without a JVM for each: the program in java/broker/src runs one after the other."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import TOOL_OPTIONS, logging_option
from compat_tests.matrix.proxy import Proxy

_PACKAGE: Final = "org.apache.kafka.tools."
API_VERSIONS: Final = _PACKAGE + "BrokerApiVersionsCommand"
CLIENT_METRICS: Final = _PACKAGE + "ClientMetricsCommand"
CLUSTER: Final = _PACKAGE + "ClusterTool"
CONFIGS: Final = "kafka.admin.ConfigCommand"
CONSUMER_GROUPS: Final = _PACKAGE + "consumer.group.ConsumerGroupCommand"
DELETE_RECORDS: Final = _PACKAGE + "DeleteRecordsCommand"
ELECTION: Final = _PACKAGE + "LeaderElectionCommand"
FEATURES: Final = _PACKAGE + "FeatureCommand"
GROUPS: Final = _PACKAGE + "GroupsCommand"
LOG_DIRS: Final = _PACKAGE + "LogDirsCommand"
OFFSETS: Final = _PACKAGE + "GetOffsetShell"
QUORUM: Final = _PACKAGE + "MetadataQuorumCommand"
REASSIGN: Final = _PACKAGE + "reassign.ReassignPartitionsCommand"
TOPICS: Final = _PACKAGE + "TopicCommand"
TRANSACTIONS: Final = _PACKAGE + "TransactionsCommand"


class Said(NamedTuple):
    """What a tool ended with and wrote."""

    status: int
    output: str
    errors: str


class Tools:
    """One JVM for the tools of Kafka 4.1, pointed at the broker behind a proxy, which notes what they ask."""

    name = "kafka-tools 4.1"

    def __init__(self, proxy: Proxy, directory: Path) -> None:
        self.proxy = proxy
        self.bootstrap = proxy.bootstrap
        java = toolchain.program("java", "install a JDK, version 17 or newer")
        logging = logging_option("log4j2.configurationFile", directory, "warn")
        command = [java, *TOOL_OPTIONS, logging, "-cp", toolchain.compiled_java("broker"), "Tools"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close its input, at which it ends by itself."""
        self.process.__exit__(kind, error, trace)

    def run(self, tool: str, *arguments: str) -> Said:
        """Run a tool to its end, whatever that is."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        where = ("--bootstrap-server", self.bootstrap)
        # Some take it before what they are to do, and this one after it
        words = (*arguments, *where) if tool == CLUSTER else (*where, *arguments)
        with self.proxy.recording(self.name):
            self.process.stdin.write("\t".join((tool, *words)) + "\n")
            self.process.stdin.flush()
            status, output, errors = self.process.stdout.readline().rstrip("\n").split("\t")
        return Said(int(status), *(base64.b64decode(text).decode() for text in (output, errors)))

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
