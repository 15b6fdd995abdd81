"""Rows of transactions: many producers of small ones, and consumers of a log in which some were aborted."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from headgate.tools.bench.measuring.generator import Transactions
from headgate.tools.bench.measuring.target import FilledTopic, Target, Topic
from headgate.tools.bench.requests import frames, group_frames, transaction_frames
from headgate.tools.bench.requests.client import BenchError, Client
from headgate.tools.bench.requests.group_frames import TopicPartitions
from headgate.tools.bench.requests.transaction_frames import NEW, OLD, Producer, Protocol, transactional_batch
from headgate.tools.bench.rows.coordinators.groups import new_group, wait_until_served
from headgate.tools.bench.rows.row import FILLED_PARTITIONS, MEBIBYTE, BatchShape, FetchRow, Row, Run, run_of, verify

_SERVED_WITHIN_SECONDS: Final = 60.0
_NOT_YET: Final = {14, 15, 16}  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_VALUE: Final = bytes(100)
_PRODUCER_PARTITIONS: Final = 2
_FILLING_PRODUCERS: Final = 20
_ABORTS_EVERY: Final = 10
"""Each tenth of the producers aborts all of its transactions."""


def wait_until_coordinated(client: Client, transactional_ids: Sequence[str]) -> None:
    """Wait until every id has a coordinator: the first request creates `__transaction_state`."""
    deadline = time.monotonic() + _SERVED_WITHIN_SECONDS
    for transactional_id in transactional_ids:
        while error := _coordinator_error(client, transactional_id):
            if error not in _NOT_YET or time.monotonic() > deadline:
                raise BenchError(f"transactional id {transactional_id} has no coordinator: error code {error}")
            time.sleep(0.01)


def _coordinator_error(client: Client, transactional_id: str) -> int:
    reader = client.call(group_frames.find_coordinator(transactional_id, group_frames.OF_TRANSACTION))
    reader.number("i")
    return reader.number("h")


def partitions_of(producer: int, topic: Topic) -> TopicPartitions:
    """The two partitions of a producer; neighbours share one."""
    indexes = sorted({(producer + more) % topic.partitions for more in range(_PRODUCER_PARTITIONS)})
    return TopicPartitions(topic.name, indexes, topic.topic_id)


@dataclass(frozen=True, slots=True)
class TransactionRow(Row):
    """Producers of transactions: a record of 100 bytes to each of two partitions, an offset of a group, a commit.

    `version` of EndTxn: 4 is the old protocol, 5 the new one (KIP-890). `interval_us`: between the begins of two
    transactions of a producer; 0 if the next one follows at once.
    """

    least_seconds: float = 1.0
    interval_us: int = 0

    api = frames.END_TXN

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        with target.topic(self.partitions) as topic:
            groups = [new_group(self.name) for _ in range(self.connections)]
            wait_until_served(target.broker.client, groups)
            wait_until_coordinated(target.broker.client, groups)
            load = self.load(target, topic, groups)
            yield lambda seconds: target.sample(replace(load, seconds=seconds))

    def load(self, target: Target, topic: Topic, groups: Sequence[str]) -> Transactions:
        """Each producer has the name of its group as its transactional id."""
        batch = transactional_batch([_VALUE])
        producers = [
            Producer(group, partitions_of(number, topic), batch, group_id=group) for number, group in enumerate(groups)
        ]
        load = write_producers(target, self.name, producers, self.protocol)
        return replace(load, interval_us=self.interval_us)

    @property
    def protocol(self) -> Protocol:
        return NEW if self.version >= NEW.end_txn else OLD


def write_producers(target: Target, name: str, producers: Sequence[Producer], protocol: Protocol) -> Transactions:
    """The load of these producers, with its requests written to a file."""
    path = target.scratch_file(f"{name}.requests")
    requests = [producer.requests(protocol) for producer in producers]
    transaction_frames.write_requests(path, (request for each in requests for request in each))
    return Transactions(path, len(producers), steps=len(requests[0]) - 1)


@dataclass(frozen=True, slots=True)
class TransactionalBatchShape(BatchShape):
    """A batch of a transaction; with `is_commit` false another content, so that a reader can tell the two."""

    def build(self, *, is_commit: bool = True) -> bytes:
        value = bytes((i + (not is_commit)) % 251 for i in range(self.value_bytes))
        return transactional_batch([value] * self.records)


@dataclass(frozen=True, slots=True)
class CommittedFetchRow(FetchRow):
    """Consumers of committed records in a log of which a tenth was aborted. Bytes are those of committed batches.

    Each transaction has one batch in each of two partitions; twenty producers run side by side, two of them abort.
    """

    batch: TransactionalBatchShape = TransactionalBatchShape(15, 1024)
    resident_bytes: int = 64 * MEBIBYTE

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        topic, batch, batches = self.filled(target)
        templates = self.templates(topic, batches * (self.batch.records + 1))
        load = self.written(target, templates, wrap=True, committed=True)
        verify(target, replace(load, requests=self.requests_for(batches * len(batch), len(batch))), batch)
        yield run_of(target, load)

    def options(self) -> frames.FetchOptions:
        return replace(FetchRow.options(self), is_committed=True)

    def filled(self, target: Target) -> FilledTopic:
        """The topic with all its markers, the committed batch, and the number of batches of a partition."""
        key = self.batch, self.resident_bytes
        if key not in target.kept:
            topic, batch = target.new_topic(FILLED_PARTITIONS), self.batch.build()
            each = max(1, self.resident_bytes // (len(batch) * _PRODUCER_PARTITIONS * _FILLING_PRODUCERS))
            producers = [self._producer(number, topic) for number in range(_FILLING_PRODUCERS)]
            wait_until_coordinated(target.broker.client, [producer.transactional_id for producer in producers])
            target.run(replace(write_producers(target, self.name, producers, OLD), transactions=each))
            batches = each * _FILLING_PRODUCERS * _PRODUCER_PARTITIONS // topic.partitions
            _wait_for_end(target.broker.client, topic, batches * (self.batch.records + 1))
            target.kept[key] = FilledTopic(topic, batch, batches)
        return target.kept[key]

    def _producer(self, number: int, topic: Topic) -> Producer:
        is_commit, name = number % _ABORTS_EVERY != 0, f"{self.name}-{os.getpid()}-{number}"
        return Producer(name, partitions_of(number, topic), self.batch.build(is_commit=is_commit), is_commit=is_commit)


def _wait_for_end(client: Client, topic: Topic, end_offset: int) -> None:
    """Wait until the last markers are written, shortly after the answers to EndTxn."""
    deadline = time.monotonic() + _SERVED_WITHIN_SECONDS
    while ends := set(client.end_offsets(topic.name, topic.partitions)) - {end_offset}:
        if time.monotonic() > deadline:
            raise BenchError(f"{topic.name} ends at {ends}, not at {end_offset}: markers are missing")
        time.sleep(0.02)
