"""Snapshots of the metadata log: their names, the one that a start uses, when another one is due (KIP-630).

    __headgate_metadata-0/
        00000000000000004711-0000000000.checkpoint    the image at offset 4711, of leader epoch 0
        00000000000000004711.log                      the changes from there on

A start reads the newest snapshot, and the log from the end of the snapshot on. The log before a snapshot is deleted
once the snapshot is on the disk (`snapshot_generator.py`). So a log that begins above 0 needs a snapshot that reaches
its beginning.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.metadata_log import LEADER_EPOCH, replay
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal import metadata_snapshot
from headgate.protocol.internal.metadata import MetadataRecord, RemoveTopicRecord
from headgate.storage.errors import StorageError
from headgate.storage.files import Files
from headgate.storage.log.log import Log

logger = logging.getLogger("headgate.metadata")

SNAPSHOT_SUFFIX = ".checkpoint"
_NAME = re.compile(r"([0-9]{20})-[0-9]{10}\.checkpoint")
MIN_BYTES = 1 << 20
"""A shorter log is never worth a snapshot: a start replays it in a tenth of a second."""


class Snapshot(NamedTuple):
    """A snapshot file that replaces all records before `end_offset`; `size` is in bytes."""

    name: str
    end_offset: int
    size: int


NO_SNAPSHOT = Snapshot("", 0, 0)


class LoadedMetadata(NamedTuple):
    """The content of the metadata log: the image, the ids of deleted topics, and the snapshot that was read."""

    image: Image
    removed: set[bytes]
    snapshot: Snapshot
    records_read: int

    @classmethod
    def nothing(cls) -> LoadedMetadata:
        """The content of a log that does not exist yet."""
        return cls(Image.empty(), set(), NO_SNAPSHOT, 0)


def name_of(end_offset: int) -> str:
    """The file name of a snapshot that replaces all records before an offset."""
    return f"{end_offset:020d}-{LEADER_EPOCH:010d}{SNAPSHOT_SUFFIX}"


def among(sizes: dict[str, int]) -> list[Snapshot]:
    """The snapshots in a directory, the newest first. `sizes` as `Files.list` gives them."""
    matches = ((_NAME.fullmatch(name), size) for name, size in sizes.items())
    found = [Snapshot(match[0], int(match[1]), size) for match, size in matches if match is not None]
    return sorted(found, key=lambda snapshot: snapshot.end_offset, reverse=True)


def is_due(bytes_since: int, snapshot_bytes: int) -> bool:
    """True if a log with that many bytes since the last snapshot is worth another one. Pure.

    So a start never reads much more than twice the size of the last snapshot, and the cost of snapshots stays in
    proportion to what is written to the log.
    """
    return bytes_since > max(MIN_BYTES, snapshot_bytes)


def load(log: Log) -> LoadedMetadata:
    """Read the newest snapshot, and the log from the snapshot's end on.

    A damaged snapshot is skipped only if the log still has everything since an older snapshot, or since offset 0.
    Raises StorageError for damaged or missing records.
    """
    reading = _Reading()
    snapshot, records = _newest(log)
    image = Image.empty().apply_all(reading.of_snapshot(records))
    image = image.apply_all(reading.of_log(replay(log, snapshot.end_offset)))
    return LoadedMetadata(image, reading.removed, snapshot, reading.count)


class _Reading:
    """Passes records on to an image, counts them, and collects the ids of deleted topics."""

    def __init__(self) -> None:
        self.count = 0
        self.removed: set[bytes] = set()

    def of_snapshot(self, records: Iterable[MetadataRecord]) -> Iterator[MetadataRecord]:
        """All records but deletions: the image never had those topics."""
        return (record for record in self.of_log(records) if not isinstance(record, RemoveTopicRecord))

    def of_log(self, records: Iterable[MetadataRecord]) -> Iterator[MetadataRecord]:
        for record in records:
            self.count += 1
            if isinstance(record, RemoveTopicRecord):
                self.removed.add(record.topic_id)
            yield record


def _newest(log: Log) -> tuple[Snapshot, list[MetadataRecord]]:
    """The newest readable snapshot. Raises StorageError if the log does not continue where the snapshot ends."""
    files = log.pool.files
    problems = []
    for found in among(files.list(log.directory)):
        try:
            records = _read(files, f"{log.directory}/{found.name}")
        except StorageError as error:
            problems.append(str(error))
            continue
        _check_reaches(log, found, problems)
        _warn(problems)
        return found, records
    if log.start_offset:
        problems = problems or [f"no snapshot ({name_of(log.start_offset)}) is in {log.directory}"]
        raise _lost(log, problems)
    _warn(problems)
    return NO_SNAPSHOT, []


def _read(files: Files, path: str) -> list[MetadataRecord]:
    try:
        return metadata_snapshot.decode_all(files.read(path))
    except (MalformedRequest, OSError) as error:
        raise StorageError(f"the metadata snapshot {path} cannot be read: {error}") from None


def _check_reaches(log: Log, found: Snapshot, problems: list[str]) -> None:
    if found.end_offset < log.start_offset:
        missing = f"{found.name} ends at offset {found.end_offset}"
        raise _lost(log, [*problems, missing])
    if found.end_offset > log.end_offset:
        raise StorageError(
            f"the metadata log in {log.directory} ends at offset {log.end_offset}, before the snapshot {found.name}: "
            "changes were lost that were on the disk; restore that directory from a copy"
        )


def _lost(log: Log, problems: list[str]) -> StorageError:
    return StorageError(
        f"{'; '.join(problems)}; the metadata log in {log.directory} begins at offset {log.start_offset}, and only a"
        " snapshot has what was before: restore that directory from a copy, or start the newer version of Headgate that"
        " wrote it"
    )


def _warn(problems: Iterable[str]) -> None:
    for problem in problems:
        logger.warning("%s; the log still has the same records and is read instead", problem)
