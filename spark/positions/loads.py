"""The output of `headgate spark load` as a reader: its offsets, the ids of its topics, and its rate.

Apart from the other locations, as a load has more to import than a checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.documents import DamagedDocument, Manifest
from headgate.spark.load.output.folder import FolderError, OutputFolder
from headgate.spark.load.output.load_log import LoadLog
from headgate.spark.load.positions import positions, topic_ids

__all__ = ["positions", "rates", "topic_ids"]

LOADS_FOR_RATE: Final = 10
"""The last loads that the rate is measured over."""


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
