"""Topics of the modelled cluster with messages of every kind, and searches in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headgate.protocol.records import batch, control
from headgate.protocol.records.batch import Record
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.messages.filters import Filters
from headgate.tools.console.messages.query import MessageQuery
from headgate.tools.console.messages.rows import MessageDecoder
from headgate.tools.console.messages.search import MessageSearch, SearchClock
from headgate.tools.console.messages.values.decoder import ValueDecoder
from headgate.tools.tests.model_cluster import Log, ModelCluster

BOOTSTRAP = "127.0.0.1:9092"


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.now = 0.0
        self.step_s = step_s
        self.slept: list[float] = []

    def now_s(self) -> float:
        self.now += self.step_s
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    @property
    def time(self) -> SearchClock:
        return SearchClock(self.now_s, self.sleep)


def append(log: Log, records: Iterable[Record], **options: Any) -> None:
    """A batch at the end of a log."""
    wanted = [record._replace(offset=log.end + number) for number, record in enumerate(records)]
    log.batches.append(bytes(batch.build(wanted, base_offset=log.end, **options)))
    log.end += len(wanted)


def append_marker(log: Log, producer_id: int, timestamp: int, *, is_commit: bool) -> None:
    made = control.build(control.Marker(is_commit, 4), producer_id=producer_id, producer_epoch=0, timestamp=timestamp)
    batch.patch(made, log.end, 3)
    log.batches.append(bytes(made))
    log.end += 1


def text(timestamp: int, value: str | None, key: str | None = None, **headers: str) -> Record:
    return Record(
        -1,
        timestamp,
        None if key is None else key.encode(),
        None if value is None else value.encode(),
        [(name, each.encode()) for name, each in headers.items()],
    )


def fill(model: ModelCluster, topic: str = "t", partitions: int = 3, each: int = 20) -> None:
    """Partitions led by different brokers, with messages whose times are those of all others in between."""
    for number in range(partitions):
        log = Log(leader=number % len(model.nodes))
        model.topics[topic].append(log)
        for start in range(0, each, 5):
            append(log, [text((start + at) * partitions + number, f"{number}/{start + at}") for at in range(5)])


def decoder_of(query: MessageQuery) -> MessageDecoder:
    return MessageDecoder(
        query.topic, ValueDecoder(query.key_format), ValueDecoder(query.value_format), query.filters.compile()
    )


def query_of(topic: str = "t", *, filters: dict[str, str] | None = None, **options: Any) -> MessageQuery:
    return MessageQuery(topic, filters=Filters(**(filters or {})), **options)


def run(query: MessageQuery, clock: Clock | None = None) -> list[dict[str, Any]]:
    """The events of a search."""
    with Cluster(BOOTSTRAP) as cluster:
        return list(MessageSearch(cluster, query, decoder_of(query), (clock or Clock()).time).run())


def rows_of(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for event in events if event["event"] == "rows" for row in event["rows"]]


def values_of(events: Iterable[dict[str, Any]]) -> list[str | None]:
    return [None if row["value"] is None else row["value"]["text"] for row in rows_of(events)]
