"""A client of a simulated cluster that transforms one partition into another, exactly once.

Each transaction has the transformed records and the offset up to which the client has read. Some transactions are
aborted; now and then the client begins anew in the middle of one, as after a crash. A client that was fenced, since its
transaction took too long, begins anew as well: where it goes on is the committed offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from headgate.gateway.runtime.tasks import Task, sleep
from headgate.gateway.tests.requests import produce_request
from headgate.gateway.tests.simulation.clients import READ_UNCOMMITTED, ClientHost, CoordinatorKey, produce_codes
from headgate.gateway.tests.simulation.cluster import TOPIC
from headgate.gateway.tests.simulation.world import EPOCH_MS
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages import find_coordinator
from headgate.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headgate.protocol.messages.end_txn import EndTxnRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headgate.protocol.records.batch import Record, build, iterate, split
from headgate.protocol.schema import Message

TRANSACTIONAL_ID: Final = "transformer"
TRANSFORMER_GROUP: Final = "transformers"
SOURCE, TARGET = 0, 1
PAUSE_MS: Final = 400.0
"""The mean pause between two transactions."""
MOST: Final = 12
"""The records of a transaction."""
_coordinator: Final = CoordinatorKey(TRANSACTIONAL_ID, find_coordinator.TRANSACTION)
_FENCED: Final = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH))


class Fenced(Exception):
    """The coordinator has ended the transaction of this client."""


def transformed(value: bytes) -> bytes:
    """The record that is made of a record."""
    return b"of " + value


class Transformer(ClientHost):
    """The client."""

    timeout_ms = 60_000
    _producer_id = _epoch = -1
    _sequence = _position = 0

    def transform(self, records: int) -> Task[None]:
        """Transform all records of the first partition."""
        while self._position < records:
            try:
                yield from self._begin()
                is_alive = True
                while is_alive and self._position < records:
                    is_alive = yield from self._transact()
                    yield sleep(self.scheduler, PAUSE_MS * self.random.random() * 2)
            except Fenced:
                self.world.note(f"{self} is fenced")

    def check(self, codes: Iterable[int], what: str) -> bool:
        """As `ClientHost.check`. Raises Fenced."""
        found = list(codes)
        if not _FENCED.isdisjoint(found) and self._may_be_fenced:
            raise Fenced
        return super().check(found, what)

    @property
    def _may_be_fenced(self) -> bool:
        """Whether a transaction of this client may have taken too long, by the clock of some broker."""
        return self.timeout_ms < 60_000 or self.cluster.has_jumped

    def _begin(self) -> Task[None]:
        request = InitProducerIdRequest(TRANSACTIONAL_ID, self.timeout_ms)
        made = yield from self.insist(_coordinator, request, 4, _code)
        self._producer_id, self._epoch, self._sequence = made.producer_id, made.producer_epoch, 0
        self._position = max(0, (yield from self.committed_offset(TRANSFORMER_GROUP, SOURCE)))

    def _transact(self) -> Task[bool]:
        """One transaction. Returns whether this process lives on."""
        values, end = yield from self._read()
        if not values:
            return True
        topics = [AddPartitionsToTxnTopic(TOPIC, [TARGET])]
        yield from self._ask(AddPartitionsToTxnRequest([], *self._identity, topics), 3, _partition_codes)
        yield from self._produce(values)
        yield from self._ask(AddOffsetsToTxnRequest(*self._identity, TRANSFORMER_GROUP), 3, _code)
        yield from self._commit_offset(end)
        if self.random.random() < 0.1:
            return False
        is_commit = self.random.random() < 0.75
        yield from self._ask(EndTxnRequest(*self._identity, committed=is_commit), 3, _code)
        if is_commit:
            self.history.committed[TRANSFORMER_GROUP, SOURCE] = self._position = end
        return True

    @property
    def _identity(self) -> tuple[str, int, int]:
        return TRANSACTIONAL_ID, self._producer_id, self._epoch

    def _ask(self, request: Message, version: int, codes: Callable[[Any], Iterable[int]]) -> Task[Any]:
        return self.insist(_coordinator, request, version, codes)

    def _read(self) -> Task[tuple[list[bytes], int]]:
        """Values of the source, and the offset after the last one."""
        row = yield from self.fetch(SOURCE, self._position, READ_UNCOMMITTED)
        batches = split(memoryview(bytearray(cast("bytes", row.records or b""))))
        records = [record for _, batch in batches for record in iterate(batch) if record.offset >= self._position]
        records = records[:MOST]
        return [record.value or b"" for record in records], self._position + len(records)

    def _produce(self, values: list[bytes]) -> Task[None]:
        data = build(
            [Record(timestamp=EPOCH_MS, value=transformed(value)) for value in values],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            is_transactional=True,
        )
        self._sequence += len(values)
        request = produce_request(data, TOPIC, TARGET, timeout_ms=2_000, transactional_id=TRANSACTIONAL_ID)
        yield from self.insist(TARGET, request, 9, produce_codes)

    def _commit_offset(self, offset: int) -> Task[None]:
        rows = [TxnOffsetCommitRequestPartition(SOURCE, offset, -1, "")]
        topics = [TxnOffsetCommitRequestTopic(TOPIC, partitions=rows)]
        request = TxnOffsetCommitRequest(
            TRANSACTIONAL_ID, TRANSFORMER_GROUP, self._producer_id, self._epoch, topics=topics
        )
        yield from self.insist(CoordinatorKey(TRANSFORMER_GROUP), request, 3, _offset_codes)


def _code(answer: Any) -> list[int]:
    return [answer.error_code]


def _partition_codes(answer: Any) -> list[int]:
    rows = answer.results_by_topic_v3_and_below
    return [row.partition_error_code for topic in rows for row in topic.results_by_partition]


def _offset_codes(answer: Any) -> list[int]:
    return [row.error_code for topic in answer.topics for row in topic.partitions]
