"""What other tools ask of a loaded folder: its positions and the ids of its topics. No Spark, no pyarrow."""

from __future__ import annotations

from pathlib import Path

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.documents import DamagedDocument, Manifest
from headgate.spark.load.output.folder import FolderError, OutputFolder
from headgate.spark.load.output.load_log import LoadLog
from headgate.tools.output import UsageError


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
