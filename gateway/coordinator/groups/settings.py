"""The settings of groups and offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig

# The limit of a member's stored data: protocols with their metadata, or its assignment. Kafka limits only the record.
MAX_MEMBER_BYTES = 1 << 20
# A string of a classic group's record has at most 32,767 bytes; an id of 36 characters is appended to some of them.
MAX_NAME_BYTES = 0x7FFF - 37


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Kafka's settings without `group.`, with Kafka's defaults: of the broker or, by `with_group`, of one group."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 0x7FFF_FFFF
    max_member_bytes: int = MAX_MEMBER_BYTES
    consumer_session_timeout_ms: int = 45_000
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_min_heartbeat_interval_ms: int = 5_000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_max_size: int = 0x7FFF_FFFF
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: str = "bidirectional"
    rebalance_protocols: tuple[str, ...] = ("classic", "consumer")
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """The settings of a broker."""
        return cls(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=config.group_max_size,
            consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
            consumer_min_session_timeout_ms=config.group_consumer_min_session_timeout_ms,
            consumer_max_session_timeout_ms=config.group_consumer_max_session_timeout_ms,
            consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            consumer_min_heartbeat_interval_ms=config.group_consumer_min_heartbeat_interval_ms,
            consumer_max_heartbeat_interval_ms=config.group_consumer_max_heartbeat_interval_ms,
            consumer_max_size=config.group_consumer_max_size,
            consumer_assignors=config.group_consumer_assignors,
            consumer_migration_policy=config.group_consumer_migration_policy,
            rebalance_protocols=config.group_coordinator_rebalance_protocols,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        )

    def with_group(self, configs: Mapping[str, str]) -> GroupSettings:
        """The settings of one group: its own configs (`consumer.session.timeout.ms` ...) within the broker's bounds."""
        if not configs:
            return self
        session = int(configs.get("consumer.session.timeout.ms", self.consumer_session_timeout_ms))
        interval = int(configs.get("consumer.heartbeat.interval.ms", self.consumer_heartbeat_interval_ms))
        return replace(
            self,
            consumer_session_timeout_ms=_within(
                session, self.consumer_min_session_timeout_ms, self.consumer_max_session_timeout_ms
            ),
            consumer_heartbeat_interval_ms=_within(
                interval, self.consumer_min_heartbeat_interval_ms, self.consumer_max_heartbeat_interval_ms
            ),
        )


def _within(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)
