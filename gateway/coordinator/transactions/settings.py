"""The settings of the transaction coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from headgate.gateway.config import BrokerConfig


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Kafka's settings, by Kafka's names; times in milliseconds."""

    max_timeout_ms: int = 900_000
    expiration_ms: int = 604_800_000

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """The settings of a broker."""
        return cls(
            max_timeout_ms=config.transaction_max_timeout_ms,
            expiration_ms=config.transactional_id_expiration_ms,
        )
