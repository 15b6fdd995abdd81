"""The configuration of a log: Kafka's topic settings, with dots as underscores, and Kafka's defaults (4.1)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from headgate.protocol.records import compression

LONG_MAX = 2**63 - 1
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"
PRODUCER = "producer"
CACHE, COMMIT = "cache", "commit"
READ_UNCOMMITTED, READ_COMMITTED = ISOLATION_LEVELS = "read_uncommitted", "read_committed"
"""The isolation levels of readers, by their numbers in requests (KIP-98)."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of one topic. Times in milliseconds, sizes in bytes, -1 for no limit."""

    cleanup_policy: Collection[str] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = PRODUCER
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    headgate_fetch_isolation_default: str = READ_UNCOMMITTED
    headgate_flush: str = CACHE
    headgate_retention_hold_bytes: int = -1
    headgate_retention_hold_groups: tuple[str, ...] = ()
    headgate_retention_hold_ms: int = -1
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    is_compacted: bool = field(init=False, repr=False, default=False)
    allows_verbatim: bool = field(init=False, repr=False, default=True)
    """Whether batches are stored as received: no setting asks for other timestamps, another codec or a key check."""
    fsync_before_commit: bool = field(init=False, repr=False, default=False)
    """Whether the high watermark follows the synced end of the log. `flush.messages=1` asks for no less."""
    records_unsynced: int = field(init=False, repr=False, default=LONG_MAX)
    """A flush is due after this number of unsynced records."""
    default_isolation_level: int = field(init=False, repr=False, default=0)
    """The isolation level of readers that cannot ask for one: an index of `ISOLATION_LEVELS`."""
    max_segment_ms: int = field(init=False, repr=False, default=0)
    """The age at which the log rolls; in a compacted log at most max.compaction.lag.ms, as in Kafka."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_compacted", "compact" in self.cleanup_policy)
        plain = (
            not self.is_compacted and self.compression_type == PRODUCER and self.message_timestamp_type == CREATE_TIME
        )
        object.__setattr__(self, "allows_verbatim", plain)
        fsync_before_commit = self.headgate_flush == COMMIT or self.flush_messages == 1
        object.__setattr__(self, "fsync_before_commit", fsync_before_commit)
        object.__setattr__(self, "records_unsynced", 1 if fsync_before_commit else self.flush_messages)
        isolation_level = ISOLATION_LEVELS.index(self.headgate_fetch_isolation_default)
        object.__setattr__(self, "default_isolation_level", isolation_level)
        longest = min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms
        object.__setattr__(self, "max_segment_ms", longest)

    @property
    def is_deleted(self) -> bool:
        """Whether retention deletes old segments by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def compression_codec(self) -> int | None:
        """The codec of every stored batch, by its number; None to keep the codec of the producer."""
        if self.compression_type == PRODUCER:
            return None
        return compression.CODEC_NAMES.index(
            "none" if self.compression_type == "uncompressed" else self.compression_type
        )

    def compression_level(self, codec_name: str) -> int | None:
        """The configured level of a codec; None for the codec's own default."""
        level = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }.get(codec_name)
        return None if level == -1 else level
