"""A modelled cluster whose census a test fills."""

from __future__ import annotations

import pytest

from headgate.protocol.census.records import encode_key, encode_value
from headgate.protocol.census.rows import TOPIC, CensusClient, VersionUse
from headgate.protocol.records import batch
from headgate.tools.arguments import now_ms
from headgate.tools.census.command import main
from headgate.tools.tests.command_output import CommandOutput
from headgate.tools.tests.model_cluster import Log, ModelCluster

CLIENT = CensusClient("User:a", "old", "librdkafka", "1.0.0", "192.0.2.1", "SSL")
HOUR_MS = 3_600_000


class CensusOfCluster:
    """A modelled cluster whose topic a test fills."""

    def __init__(self, model: ModelCluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.model = model
        self._capsys = capsys

    def keep(self, *records: tuple[bytes, bytes | None]) -> None:
        """One batch of the topic, whose leader is the second broker."""
        if TOPIC not in self.model.topics:
            self.model.topics[TOPIC].append(Log(leader=1))
        log = self.model.topics[TOPIC][0]
        rows = [batch.Record(log.end + number, 1, *record) for number, record in enumerate(records)]
        log.batches.append(bytes(batch.build(rows, base_offset=log.end)))
        log.end += len(records)

    def client(self, client_id: str, *versions: tuple[int, int], node_id: int = 0, age_ms: int = 0) -> None:
        last_ms = now_ms() - age_ms
        uses = [VersionUse(api_key, version, 5, last_ms - 10, last_ms) for api_key, version in versions]
        self.keep((encode_key(node_id, CLIENT._replace(client_id=client_id)), encode_value(uses)))

    def run(self, *arguments: str) -> CommandOutput:
        code = main(arguments)
        captured = self._capsys.readouterr()
        return CommandOutput(code, captured.out, captured.err)
