"""Rows of producers that wait for the disk: with acks=all, a power cut loses no acknowledged record.

Apache Kafka does so with `flush.messages=1`, Headgate with `headgate.flush=commit`. These rows measure mostly the disk,
and the number of waiting producers that share one sync.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from headgate.tools.bench.measuring.brokers import HEADGATE
from headgate.tools.bench.measuring.target import Target, Topic
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.templates import Template, template
from headgate.tools.bench.rows.row import ProduceRow

ACKS_ALL = -1
_POLICIES: Mapping[bool, Mapping[str, str]] = {True: {"headgate.flush": "commit"}, False: {"flush.messages": "1"}}


@dataclass(frozen=True, slots=True)
class SyncedProduceRow(ProduceRow):
    """Producers of small batches with one request in flight on each connection."""

    def topic(self, target: Target) -> AbstractContextManager[Topic]:
        return target.topic(self.partitions, _POLICIES[target.name == HEADGATE])

    def templates(self, topic: Topic) -> list[Template]:
        data = self.batch.build()
        writers = [
            frames.produce(self.version, topic.name, number, data, topic.topic_id, acks=ACKS_ALL)
            for number in range(self.partitions)
        ]
        return [template(writer, load_bytes=len(data)) for writer in writers]
