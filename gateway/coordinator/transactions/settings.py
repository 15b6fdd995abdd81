"""The settings of the transaction coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from headgate.gateway.config import BrokerConfig


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The settings of a shard; times in milliseconds.

    max_timeout_ms     the longest timeout that a producer may request
    abort_interval_ms  how often overdue transactions are aborted
    """

    max_timeout_ms: int = 900_000
    abort_interval_ms: int = 10_000

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        return cls(
            config.transaction_max_timeout_ms,
            config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        )
