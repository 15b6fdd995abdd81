"""One shard of transactional ids with a log of bytes, a clock that tests move, and clients that hear answers at once.

desk = Desk()
producer = desk.init("a")
desk.add("a", producer, {"t": [0]})
desk.end("a", producer, commit=True)      # the Prepare record, and its effect
desk.write_markers()                      # the Complete record
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Reply, Ticket
from headgate.gateway.coordinator.transactions import ending, initialization, partitions
from headgate.gateway.coordinator.transactions.effects import WriteMarkers
from headgate.gateway.coordinator.transactions.settings import TransactionSettings
from headgate.gateway.coordinator.transactions.transaction import Transaction, encode
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.transactions import TransactionLogValue, decode_value, encode_key
from headgate.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

TIMEOUT_MS = 60_000
SETTINGS = TransactionSettings(max_timeout_ms=900_000, abort_interval_ms=10_000)
FIRST_ID = 1_000
"""The first producer id."""
NOW_MS = 1_700_000_000_000
OLD, NEW = 4, 5
"""Versions of EndTxn: the last of the old protocol, and the first of the new one."""


class Desk:
    """A shard and its surroundings; `version` is the level of transaction.version."""

    def __init__(self, version: int = 2) -> None:
        self.version = version
        self.now_ms = 0.0
        self.ids = itertools.count(FIRST_ID)
        self.lacks_ids = False
        self.log: list[tuple[bytes, bytes | None]] = []
        self.effects: list[WriteMarkers] = []
        """Those that are not performed yet."""
        self.loses_writes = False
        self.written: list[TransactionLogValue | None] = []
        self.shard = self.new_shard()

    def new_shard(self) -> TransactionShard:
        return TransactionShard(
            SETTINGS,
            lambda: NOW_MS + int(self.now_ms),
            lambda: self.now_ms,
            self._next_id,
            lambda: self.version,
        )

    def _next_id(self) -> int:
        if self.lacks_ids:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return next(self.ids)

    # The runtime

    def ask(self, decide: Callable[[TransactionShard, Ticket], Decision], key: str) -> Any:
        """The reply of a decision, or its error code. Its records are written and replayed first."""
        ticket = Ticket()
        try:
            decision = decide(self.shard, ticket)
        except KafkaError as error:
            return error.code
        (reply,) = self.carry_out(decision, key)
        return reply.code if isinstance(reply, KafkaError) else reply

    def carry_out(self, decision: Decision, key: str) -> list[Reply]:
        """What the runtime does with a decision about a key. Returns the replies."""
        if decision.records and self.loses_writes:
            self.shard.note_due(key)
            return [KafkaError(ErrorCode.NOT_COORDINATOR) for _ in decision.replies]
        for record_key, value in decision.records:
            assert value is None or isinstance(value, Transaction)
            encoded = None if value is None else encode(value, self.version)
            self.log.append((encode_key(record_key), encoded))  # type: ignore[arg-type]
            self.written.append(None if encoded is None else decode_value(encoded))
            self.shard.replay(record_key, value, 0)
        self.effects += decision.effects  # type: ignore[arg-type]
        self.shard.note_due(key)
        return [reply for _, reply in decision.replies]

    def rebuilt(self) -> TransactionShard:
        """The shard that a load gives."""
        shard = self.new_shard()
        load = shard.record_loader()
        for key, value in self.log:
            assert load(key, value, 0, None)
        return shard

    def restart(self) -> None:
        """Load the shard; effects that were not performed are forgotten."""
        self.shard = self.rebuilt()
        self.effects.clear()
        for _ in self.shard.start_clocks(self.now_ms):
            pass

    def pass_time(self, milliseconds: float) -> None:
        """Let time pass, with a tick for each timer that is due."""
        self.now_ms += milliseconds
        while (key := self.shard.take_due(self.now_ms)) is not None:
            assert not self.carry_out(self.shard.tick(key, self.now_ms), key)

    def write_markers(self) -> None:
        """Perform all effects, as if every marker was written."""
        effects, self.effects = self.effects, []
        for effect in effects:
            self.complete(effect)

    def complete(self, effect: WriteMarkers) -> None:
        """The markers of one effect are written."""
        assert not self.carry_out(self.shard.complete(effect), effect.transactional_id)

    def state(self, key: str = "a") -> Transaction:
        return self.shard.transactions[key]

    # Requests

    def init(
        self, key: str = "a", held: ProducerIdAndEpoch | None = None, *, timeout_ms: int = TIMEOUT_MS, version: int = 5
    ) -> Any:
        """InitProducerId, with the id and epoch that the producer holds; returns the new ones, or an error code."""
        producer_id, epoch = held or (-1, -1)
        request = InitProducerIdRequest(key, timeout_ms, producer_id, epoch)
        reply = self.ask(
            lambda shard, ticket: initialization.init_producer_id(shard, key, request, version, ticket), key
        )
        if isinstance(reply, InitProducerIdResponse):
            return ProducerIdAndEpoch(reply.producer_id, reply.producer_epoch)
        return reply

    def add(
        self,
        key: str,
        producer: ProducerIdAndEpoch,
        added: Mapping[str, Sequence[int]],
        *,
        client_version: int = 0,
        knows_fenced: bool = True,
    ) -> Any:
        """AddPartitionsToTxn; returns the error code of each partition, or one code if all have the same."""
        return self._codes(
            lambda shard, ticket: partitions.add(
                shard, key, producer, added, client_version, ticket, knows_fenced=knows_fenced
            ),
            key,
        )

    def verify(self, key: str, producer: ProducerIdAndEpoch, asked: Mapping[str, Sequence[int]]) -> Any:
        """AddPartitionsToTxn that only asks."""
        return self._codes(lambda shard, ticket: partitions.verify(shard, key, producer, asked, ticket), key)

    def _codes(self, decide: Callable[[TransactionShard, Ticket], Decision], key: str) -> Any:
        reply = self.ask(decide, key)
        if isinstance(reply, ErrorCode):
            return reply
        codes = [row.partition_error_code for topic in reply.topic_results for row in topic.results_by_partition]
        return codes[0] if len(set(codes)) == 1 else codes

    def end(self, key: str, producer: ProducerIdAndEpoch, *, commit: bool = True, version: int = OLD) -> Any:
        """EndTxn; returns the producer of the next transaction, NONE in the old protocol, or an error code."""
        request = EndTxnRequest(key, *producer, commit)
        reply = self.ask(lambda shard, ticket: ending.end_txn(shard, key, request, version, ticket), key)
        if isinstance(reply, EndTxnResponse) and version >= NEW:
            return ProducerIdAndEpoch(reply.producer_id, reply.producer_epoch)
        return ErrorCode.NONE if isinstance(reply, EndTxnResponse) else reply
