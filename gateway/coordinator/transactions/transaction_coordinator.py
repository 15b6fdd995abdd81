"""The transaction coordinator of a broker: the runtime over `__transaction_state`, and its ties to the broker."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from headgate.gateway.config import BrokerConfig
from headgate.gateway.coordinator.broker_requests import BrokerRequests, OtherBrokers
from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Ticket
from headgate.gateway.coordinator.internal_topic import InternalTopic, partition_of
from headgate.gateway.coordinator.producer_ids import ProducerIds
from headgate.gateway.coordinator.runtime import CoordinatorRuntime
from headgate.gateway.coordinator.shard_loader import CoordinatorServices
from headgate.gateway.coordinator.transactions import expiration
from headgate.gateway.coordinator.transactions import partitions as partition_requests
from headgate.gateway.coordinator.transactions.effects import MarkerWriter, PartitionsByTopic, WriteMarkers
from headgate.gateway.coordinator.transactions.settings import TransactionSettings
from headgate.gateway.coordinator.transactions.transaction import (
    EPOCH_PER_TRANSACTION,
    Transaction,
    TransactionState,
    encode,
)
from headgate.gateway.coordinator.transactions.transaction_shard import OVERDUE, REPLACED, TransactionShard
from headgate.gateway.coordinator.transactions.verification_requests import TransactionQuestion, VerificationRequests
from headgate.gateway.metadata import features
from headgate.gateway.metadata.image import TRANSACTION_STATE
from headgate.gateway.metadata.store import MetadataStore
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.tasks import Outcome, Running, Task, next_turn
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.transactions import encode_key
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResult
from headgate.protocol.records.compression import NONE

logger = logging.getLogger("headgate.transactions")

_ABORTS = {OVERDUE: "it is open for longer than its timeout", REPLACED: "another producer begins with the id"}
WRITE_TIMEOUT_MS = 5_000
"""The longest wait of a reply for the high watermark, as for groups by default. Kafka: the transaction's timeout."""


_YES, _NO = AddPartitionsToTxnResult(), AddPartitionsToTxnResult()
"""The answers for a leader that needs no row for each partition."""


def _word(code: ErrorCode) -> AddPartitionsToTxnResult:
    return _YES if code is ErrorCode.NONE else _NO


class TransactionCoordinator(CoordinatorRuntime[TransactionShard]):
    """The transactional ids of this broker."""

    def __init__(
        self,
        config: BrokerConfig,
        services: CoordinatorServices,
        metadata: MetadataStore,
        partitions: ReplicaManager,
        producer_ids: ProducerIds,
        markers: MarkerWriter,
        brokers: OtherBrokers,
    ) -> None:
        super().__init__(
            self._transaction_state(config),
            self._new_shard,
            services,
            metadata,
            partitions,
            config.node_id,
            self._end_transactions,
        )
        self._config = config
        self._settings = TransactionSettings.of(config)
        self._clock = services.clock
        self._scheduler = services.scheduler
        self._producer_ids = producer_ids
        self._markers = markers
        self.requests = BrokerRequests("transaction-verification", VerificationRequests(), brokers)
        self._ending: dict[str, Running[None]] = {}
        """Transactional id -> the task that ends its transaction."""
        self._aborts: Counter[str] = Counter()
        self._log = LimitedLog(logger, services.clock, lines=100)

    def _transaction_state(self, config: BrokerConfig) -> InternalTopic:
        """`__transaction_state`, with the broker's `transaction.state.log.*` settings."""
        return InternalTopic(
            name=TRANSACTION_STATE,
            key_name="transactional id",
            invalid_key=ErrorCode.INVALID_REQUEST,
            encode_key=encode_key,
            encode_value=self._encode,
            partitions=config.transaction_state_log_num_partitions,
            replication_factor=config.transaction_state_log_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
            compression_codec=NONE,
            load_buffer_bytes=config.transaction_state_log_load_buffer_size,
            write_timeout_ms=WRITE_TIMEOUT_MS,
            logger=logger,
        )

    def _encode(self, transaction: Transaction) -> bytes:
        return encode(transaction, self.transaction_version())

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(
            self._settings,
            self._clock.now_ms,
            self._clock.monotonic_ms,
            self._producer_ids.next_settled,
            self.transaction_version,
            self._note_abort,
        )

    def _note_abort(self, transactional_id: str, reason: str) -> None:
        self._aborts[reason] += 1
        message = "the transaction of %r is aborted by the coordinator: %s"
        self._log.log(logging.INFO, reason, message, transactional_id, _ABORTS[reason])

    def count_aborts(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """The metric of transactions that the coordinator has aborted, by reason."""
        for reason in _ABORTS:
            yield (reason,), self._aborts[reason]

    def transaction_version(self) -> int:
        """The finalized level of transaction.version."""
        return features.level(features.TRANSACTION_VERSION, self._metadata.image)

    @property
    def ending_count(self) -> int:
        """How many decided transactions do not have all their markers yet."""
        return len(self._ending)

    # Requests of leaders

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: PartitionsByTopic,
        *,
        adds: bool,
    ) -> Outcome[AddPartitionsToTxnResult]:
        """Whether the open transaction of the producer has these partitions; with `adds`, add them (KIP-890).

        The result has an error code for each partition, all of them 0 if the partitions may be written to. With `adds`
        one error refuses all. The wait ends when the new record is below the high watermark.

        | code | meaning |
        |---|---|
        | 0 | the transaction has the partition |
        | INVALID_PRODUCER_ID_MAPPING | the transactional id is unknown, or has another producer id |
        | PRODUCER_FENCED | another epoch |
        | CONCURRENT_TRANSACTIONS | the last transaction is being ended; retry |
        | TRANSACTION_ABORTABLE | not `adds`: the transaction does not have the partition |

        The coordinator may be on another broker. Raises KafkaError, as may the task: NOT_COORDINATOR,
        COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NETWORK_EXCEPTION, INVALID_REQUEST for an empty id.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional batch has a transactional id")
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        coordinator_id = self.leader_of(transactional_id)
        if coordinator_id != self._node_id:
            return self._ask_other(coordinator_id, transactional_id, producer, partitions, adds=adds)

        def decide(shard: TransactionShard, ticket: Ticket) -> Decision:
            if not adds:
                return partition_requests.verify(shard, transactional_id, producer, partitions, ticket)
            return partition_requests.add(shard, transactional_id, producer, partitions, EPOCH_PER_TRANSACTION, ticket)

        return self._ask(transactional_id, decide)

    def _ask_other(
        self,
        coordinator_id: int,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: PartitionsByTopic,
        *,
        adds: bool,
    ) -> Task[AddPartitionsToTxnResult]:
        def ask(resume: Callable[[AddPartitionsToTxnResult | KafkaError], None]) -> None:
            self.requests.add(coordinator_id, TransactionQuestion(transactional_id, producer, partitions, adds, resume))

        result: AddPartitionsToTxnResult = yield ask
        return result

    def _ask(
        self, transactional_id: str, decide: Callable[[TransactionShard, Ticket], Decision]
    ) -> Outcome[AddPartitionsToTxnResult]:
        """`submit` for a leader, which must not write records for a transaction that may be lost."""
        index = self.index_of(transactional_id)
        coordinator = self._coordinators.get(index) or self._open_late(index)
        if coordinator.replica.log.staged is not None:
            self._services.batcher.write_all()
        return coordinator.submit(transactional_id, decide)

    def confirm(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: PartitionsByTopic, *, adds: bool
    ) -> bool:
        """Whether `verify` would succeed for all partitions at once. If false, call `verify`.

        Raises KafkaError as `verify` does.
        """
        if not adds:
            return self.has_committed(transactional_id, producer, partitions)
        if not transactional_id:
            return False

        def decide(shard: TransactionShard, ticket: Ticket) -> Decision:
            return partition_requests.add(
                shard, transactional_id, producer, partitions, EPOCH_PER_TRANSACTION, ticket, respond=_word
            )

        return self._ask(transactional_id, decide) is _YES

    def has_committed(self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: PartitionsByTopic) -> bool:
        """Whether the records below the high watermark say that the producer's open transaction has these partitions.

        False if anything about the id's shard is still to be written. Raises KafkaError as `index_of`.
        """
        coordinator = self._coordinators.get(self.index_of(transactional_id))
        shard = None if coordinator is None else coordinator.committed_shard
        transaction = None if shard is None else shard.transactions.get(transactional_id)
        return (
            transaction is not None
            and transaction.state is TransactionState.ONGOING
            and transaction.producer_id == producer.producer_id
            and transaction.producer_epoch == producer.producer_epoch
            and transaction.has_all(partitions)
        )

    # Markers

    def _end_transactions(self, effects: Sequence[object], leader_epoch: int) -> None:
        """End decided transactions. A shard that was loaded again has the same effect again: the earlier task ends."""
        for effect in effects:
            assert isinstance(effect, WriteMarkers)
            earlier = self._ending.get(effect.transactional_id)
            if earlier is not None:
                earlier.cancel()
            task = self._end_transaction(effect, leader_epoch)
            self._ending[effect.transactional_id] = self._services.tasks.start(task)

    def _end_transaction(self, effect: WriteMarkers, leader_epoch: int) -> Task[None]:
        """Have the markers written into all partitions, then write the Complete record, in a turn of its own."""
        transactional_id = effect.transactional_id
        if not (yield from self._markers.write(effect, leader_epoch)):
            return
        yield next_turn(self._scheduler)
        del self._ending[transactional_id]
        coordinator = self._coordinators.get(partition_of(transactional_id, self._count)) if self._count else None
        if coordinator is not None:
            coordinator.decide_alone(transactional_id, lambda shard, _: shard.complete(effect))

    # Expiration

    def start(self) -> None:
        """Load the transactions, and look for expired ids regularly."""
        super().start()
        self._expire_later()

    def _expire_later(self) -> None:
        interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._scheduler.call_after(interval_ms, self._expire)

    def _expire(self) -> None:
        self._expire_later()
        expired_ms = self._clock.now_ms() - self._config.transactional_id_expiration_ms
        for coordinator in self._coordinators.values():
            shard = coordinator.shard
            if shard is not None:
                coordinator.run_each(shard, expiration.expire(shard, expired_ms))
