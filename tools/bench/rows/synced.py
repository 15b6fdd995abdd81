"""The rows of producers that wait for the disk: acks=all, and nothing is acknowledged that a power cut could take back.

Apache Kafka is asked for it by `flush.messages=1`, Headgate by `headgate.flush=commit`. What is measured is mostly the
disk, and how many of those who wait share one sync of it.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from headgate.tools.bench.measuring.brokers import HEADGATE
from headgate.tools.bench.measuring.generator import Load
from headgate.tools.bench.measuring.target import Target, Topic
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.templates import template, write_templates
from headgate.tools.bench.rows.row import ProduceRow, write_disk_budget

ACKS_ALL = -1
_POLICIES: Mapping[bool, Mapping[str, str]] = {True: {"headgate.flush": "commit"}, False: {"flush.messages": "1"}}


@dataclass(frozen=True, slots=True)
class SyncedProduceRow(ProduceRow):
    """Producers of small batches, one in flight for each connection."""

    def topic(self, target: Target) -> AbstractContextManager[Topic]:
        return target.topic(self.partitions, _POLICIES[target.name == HEADGATE])

    def load(self, target: Target, topic: Topic, seconds: float) -> Load:
        path = target.scratch_file(f"{self.name}.templates")
        data = self.batch.build()
        writers = [
            frames.produce(self.version, topic.name, number, data, topic.topic_id, acks=ACKS_ALL)
            for number in range(self.partitions)
        ]
        write_templates(path, [template(writer, load_bytes=len(data)) for writer in writers])
        limit = write_disk_budget()
        return Load(frames.PRODUCE, self.version, path, self.connections, self.in_flight, seconds, byte_limit=limit)
