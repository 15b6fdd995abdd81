"""What other tools ask of a loaded folder: its positions, the ids of its topics, its rate. No Spark, no pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.documents import DamagedDocument, Manifest
from headgate.spark.load.output.folder import FolderError, OutputFolder
from headgate.spark.load.output.load_log import LoadLog
from headgate.tools.output import UsageError

LOADS_FOR_RATE: Final = 10
"""The last loads that the rate is measured over."""


def positions(out: str | Path) -> dict[TopicPartition, int]:
    """The next offset of each partition, of the newest published load. Raises UsageError."""
    return _latest(out).positions


def topic_ids(out: str | Path) -> dict[str, bytes]:
    """The ids of the loaded topics, as far as they are known. Raises UsageError."""
    return {name: bytes.fromhex(value) for name, value in _latest(out).topic_ids.items() if value is not None}


def _latest(out: str | Path) -> Manifest:
    try:
        found = LoadLog(OutputFolder(out)).latest()
    except (DamagedDocument, FolderError) as error:
        raise UsageError(str(error)) from None
    if found is None:
        raise UsageError(f"{out} has no published load of `headgate spark load`")
    return found


def rates(out: str) -> Mapping[TopicPartition, float]:
    """Records a second by partition over the last loads, the time between them included; empty after a first load."""
    try:
        log = LoadLog(OutputFolder(out))
        latest = log.latest()
        first = None if latest is None else log.manifest(max(1, latest.number - LOADS_FOR_RATE))
    except (DamagedDocument, FolderError):
        return {}
    return {} if first is None or latest is None else rates_between(first, latest)


def rates_between(first: Manifest, last: Manifest) -> Mapping[TopicPartition, float]:
    """Records a second by partition between the ends of two loads."""
    elapsed_s = (last.created_ms - first.created_ms) / 1000
    if elapsed_s <= 0:
        return {}
    before = first.positions
    return {
        partition: max(0, end - before.get(partition, end)) / elapsed_s for partition, end in last.positions.items()
    }
