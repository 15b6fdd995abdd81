"""The `.snapshot` files of a partition: producers' states, each at the offset in its name."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from headgate.protocol.steps import Steps
from headgate.storage.disk.checkpoint import removed_on_error
from headgate.storage.disk.layout import base_of
from headgate.storage.errors import BadFile
from headgate.storage.files import Files
from headgate.storage.log.producers import SNAPSHOT_SUFFIX, Producers
from headgate.storage.log.segments import Segments

logger = logging.getLogger("headgate.storage")


def save(files: Files, directory: str, offset: int, producers: Producers) -> None:
    """Write the state before `offset`, neither atomically nor synced: it has a checksum, and can be rebuilt.

    Raises OSError, and then there is no file.
    """
    path = _path(directory, offset)
    with removed_on_error(files, path):
        files.write(path, producers.to_snapshot())


def offsets(names: Iterable[str]) -> list[int]:
    """The offsets of the snapshots among the files of a directory."""
    bases = (base_of(name) for name in names if name.endswith(SNAPSHOT_SUFFIX))
    return [base for base in bases if base is not None]


def load_latest(
    files: Files, directory: str, known: Iterable[int], start_offset: int, end_offset: int
) -> tuple[Producers, int]:
    """The newest state from `start_offset` to `end_offset`, and its offset; an empty state and -1 without one.

    A state from before the first segment is useless, as the batches between are unknown: a transaction that is open in
    the state may have ended, and would stay open for ever.
    """
    for offset in sorted(known, reverse=True):
        if start_offset <= offset <= end_offset:
            path = _path(directory, offset)
            try:
                return Producers.from_snapshot(files.read(path)), offset
            except FileNotFoundError:
                continue  # removed together with a truncated segment
            except BadFile as error:
                logger.warning("%s is not used: %s; the producers' state is rebuilt from the log", path, error)
                files.remove(path)
    return Producers(), -1


def replayed(
    files: Files, directory: str, known: Iterable[int], segments: Segments, end_offset: int
) -> Steps[Producers]:
    """The state at the end of a log, from the newest snapshot and later batches.

    After a power cut, a log that was restarted after its end may still have an empty segment in front, and a gap after
    that. Raises KafkaError(KAFKA_STORAGE_ERROR) at a damaged place.
    """
    start_offset = next((segment for segment in segments if segment.size), segments.active).base_offset
    producers, offset = load_latest(files, directory, known, start_offset, end_offset)
    producers.snapshot_offset = offset = max(offset, start_offset)
    if offset < end_offset:
        for header, marker in segments.batches(offset):
            producers.record(header, header.base_offset, marker)
            yield
    return producers


def remove_behind(files: Files, directory: str, known: Iterable[int], end_offset: int) -> list[int]:
    """Delete the snapshots after an offset, for good; returns the others.

    A snapshot that came back would have batches that do not exist.
    """
    stale = {offset for offset in known if offset > end_offset}
    for offset in stale:
        files.remove(_path(directory, offset))
    if stale:
        files.sync_directory(directory)
    return [offset for offset in known if offset not in stale]


def _path(directory: str, offset: int) -> str:
    return f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"
