"""The transaction coordinator of a broker: the runtime over `__transaction_state`, and its ties to the broker."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from headgate.gateway.config import BrokerConfig
from headgate.gateway.coordinator.internal_topic import InternalTopic
from headgate.gateway.coordinator.loader import CoordinatorServices
from headgate.gateway.coordinator.producer_ids import ProducerIds
from headgate.gateway.coordinator.runtime import CoordinatorRuntime
from headgate.gateway.coordinator.transactions.effects import MarkerWriter, Partitions, WriteMarkers
from headgate.gateway.coordinator.transactions.settings import TransactionSettings
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.gateway.metadata.image import TRANSACTION_STATE
from headgate.gateway.metadata.store import MetadataStore
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.purgatory import Waiting
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.transactions import encode_key, encode_value
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResult
from headgate.protocol.records.compression import NONE

WRITE_TIMEOUT_MS = 5_000


def _transaction_state(config: BrokerConfig) -> InternalTopic:
    """`__transaction_state`, with the broker's `transaction.state.log.*` settings."""
    return InternalTopic(
        name=TRANSACTION_STATE,
        key_name="transactional id",
        invalid_key=ErrorCode.INVALID_REQUEST,
        encode_key=encode_key,
        encode_value=encode_value,
        partitions=config.transaction_state_log_num_partitions,
        replication_factor=config.transaction_state_log_replication_factor,
        segment_bytes=config.transaction_state_log_segment_bytes,
        compression_codec=NONE,
        load_buffer_bytes=config.transaction_state_log_load_buffer_size,
        write_timeout_ms=WRITE_TIMEOUT_MS,
        logger=logging.getLogger("headgate.transactions"),
    )


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
    ) -> None:
        super().__init__(
            _transaction_state(config),
            self._new_shard,
            services,
            metadata,
            partitions,
            config.node_id,
            self._perform_effects,
        )
        self._settings = TransactionSettings.of(config)
        self._clock = services.clock
        self._producer_ids = producer_ids
        self._markers = markers

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(
            self._settings, self._clock.now_ms, self._producer_ids.next_settled, self._transaction_version
        )

    def _transaction_version(self) -> int:
        return 0

    def _perform_effects(self, effects: Sequence[object], leader_epoch: int) -> None:
        for effect in effects:
            assert isinstance(effect, WriteMarkers)
            self._markers.write(effect, leader_epoch, partial(self.complete, effect, leader_epoch))

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
        *,
        adds: bool,
    ) -> AddPartitionsToTxnResult | Waiting:
        """Whether the open transaction of the producer has these partitions; with `adds`, add them (KIP-890).

        The result has an error code for each partition, all of them 0 if the partitions may be written to. With `adds`
        one error refuses all. The wait ends when the new record is below the high watermark.

        | code | meaning |
        |---|---|
        | 0 | the transaction has the partition |
        | INVALID_PRODUCER_ID_MAPPING | the transactional id is unknown, or has another producer id |
        | PRODUCER_FENCED | another epoch |
        | CONCURRENT_TRANSACTIONS | the last transaction is being ended; come again |
        | TRANSACTION_ABORTABLE | not `adds`: the transaction does not have the partition |

        Raises KafkaError, as may the `Waiting`: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
        COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST for an empty id.
        """
        raise NotImplementedError

    def complete(self, effect: WriteMarkers, coordinator_epoch: int) -> None:
        """All markers of the effect are written: write the Complete record. An effect of the past does nothing.

        `coordinator_epoch` is the leader epoch that the markers carried.
        """
        raise NotImplementedError

    def leader_epoch_of(self, index: int) -> int:
        """The coordinator's epoch of a partition of `__transaction_state`: its leader epoch; -1 if unknown."""
        raise NotImplementedError
