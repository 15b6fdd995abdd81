"""Configs of adopted topics whose source is out of reach: ZooKeeper, or a metadata log that was lost.

Such topics get the defaults, unless Kafka's files contradict the defaults: a wrong retention deletes records for good.

- A topic in `cleaner-offset-checkpoint` was compacted, and must not be deleted by age instead.
- A topic with records that the defaults would have deleted while Kafka still ran had a retention of its own. The topic
  keeps everything until an operator sets the retention.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from headgate.storage.config import LogConfig
from headgate.storage.directory.kafka_directory import Survey
from headgate.storage.directory.log_directory import CLEAN_SHUTDOWN
from headgate.storage.disk import checkpoint
from headgate.storage.disk.checkpoint import CLEANED_OFFSETS, RECOVERY_POINTS
from headgate.storage.disk.layout import base_of
from headgate.storage.errors import BadFile
from headgate.storage.files import Files, parent
from headgate.storage.segment.index import TimeIndex
from headgate.storage.segment.segment_file import LOG_SUFFIX

GRACE_MS = 3_600_000
"""The tolerance for deletions that were due: Kafka looks for them every five minutes by default."""

KEPT_BY_TIME = {"retention.ms": "-1"}
KEPT_BY_SIZE = {"retention.bytes": "-1"}
COMPACTED = {"cleanup.policy": "compact"}


def contradicting(
    files: Files, survey: Survey, defaults: LogConfig, known: Collection[str]
) -> Mapping[str, Mapping[str, str]]:
    """Configs of topics that are not `known` and contradict the defaults: topic -> configs. Raises OSError."""
    directories = sorted({parent(found.path) for found in survey.partitions.values()})
    compacted = {topic for path in directories for topic in _compacted(files, path)}
    stopped_ms = {path: _stopped_ms(files, path) for path in directories}
    configs: dict[str, dict[str, str]] = {}
    for (topic, _), found in survey.partitions.items():
        if topic in known:
            continue
        if topic in compacted:
            configs[topic] = COMPACTED
        elif defaults.is_deleted:
            for kept in _kept(files, found.path, defaults, stopped_ms[parent(found.path)] - GRACE_MS):
                configs.setdefault(topic, {}).update(kept)
    return configs


def _compacted(files: Files, path: str) -> Iterator[str]:
    with suppress(BadFile):
        if files.exists(f"{path}/{CLEANED_OFFSETS}"):
            yield from (topic for topic, _ in checkpoint.read_offsets(files, f"{path}/{CLEANED_OFFSETS}"))


def _stopped_ms(files: Files, path: str) -> int:
    """The time of Kafka's last write: one file each minute, one at a stop. Without both files, the far future."""
    names = [f"{path}/{name}" for name in (CLEAN_SHUTDOWN, RECOVERY_POINTS) if files.exists(f"{path}/{name}")]
    return max(map(files.modified_ms, names), default=1 << 62)


def _kept(files: Files, directory: str, defaults: LogConfig, until_ms: int) -> Iterator[Mapping[str, str]]:
    """Configs that keep the records that the defaults would have deleted before that time, but Kafka has not."""
    names = files.list(directory)
    logs = sorted(name for name in names if name.endswith(LOG_SUFFIX) and base_of(name) is not None)
    if not logs:
        return
    oldest = f"{directory}/{logs[0]}"
    if 0 <= defaults.retention_ms < until_ms - _highest_timestamp(files, oldest):
        yield KEPT_BY_TIME
    if defaults.retention_bytes >= 0 and _settled_bytes(files, directory, logs, until_ms) >= defaults.retention_bytes:
        yield KEPT_BY_SIZE


def _settled_bytes(files: Files, directory: str, logs: Sequence[str], until_ms: int) -> int:
    """The bytes of all segments but the oldest that were complete by then."""
    paths = [f"{directory}/{name}" for name in logs[1:]]
    return sum(files.size(path) for path in paths if files.modified_ms(path) < until_ms)


def _highest_timestamp(files: Files, path: str) -> int:
    """The last timestamp of the segment's time index; without an index, the time of the last write."""
    index = path.removesuffix(LOG_SUFFIX) + TimeIndex.SUFFIX
    size = TimeIndex.ENTRY.size
    if files.exists(index) and files.size(index) >= size:
        file = files.open(index)
        try:
            last = file.read_at(size, files.size(index) // size * size - size)
        finally:
            file.release()
        timestamp: int = TimeIndex.ENTRY.unpack(last)[0]
        if timestamp > 0:  # zeros: room that Kafka had reserved, and had not truncated when it was killed
            return timestamp
    return files.modified_ms(path)
