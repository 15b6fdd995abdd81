"""Settings of a log, and what they mean for the way of a batch."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from headgate.storage.config import LogConfig


def test_by_default_batches_are_kept_as_they_come() -> None:
    config = LogConfig()
    assert config.allows_verbatim
    assert config.is_deleted
    assert not config.is_compacted
    with pytest.raises(FrozenInstanceError):
        config.segment_bytes = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    "change",
    [
        {"cleanup_policy": ("compact", "delete")},
        {"compression_type": "zstd"},
        {"message_timestamp_type": "LogAppendTime"},
    ],
)
def test_what_makes_a_broker_look_into_batches(change: dict[str, object]) -> None:
    assert not replace(LogConfig(), **change).allows_verbatim  # type: ignore[arg-type]


def test_policies_are_told_apart() -> None:
    both = LogConfig(cleanup_policy=("compact", "delete"))
    assert (both.is_compacted, both.is_deleted) == (True, True)
    assert not LogConfig(cleanup_policy=("compact",)).is_deleted


@pytest.mark.parametrize("codec,level", [("gzip", None), ("lz4", 9), ("zstd", 3), ("snappy", None), ("none", None)])
def test_compression_levels(codec: str, level: int | None) -> None:
    assert LogConfig().compression_level(codec) == level
