"""The `.snapshot` files of a partition: producers' states, each at the offset in its name."""

from __future__ import annotations

import logging

from storage import checkpoint
from storage.errors import BadFile
from storage.files import Files
from storage.producers import SNAPSHOT_SUFFIX, Producers

logger = logging.getLogger("headgate.storage")


def save(files: Files, directory: str, offset: int, producers: Producers) -> None:
    """Write the state before `offset`. Not synced: it has a checksum, and can be made again."""
    checkpoint.replace(files, _path(directory, offset), producers.to_snapshot(), sync=False)


def load_latest(files: Files, directory: str, end_offset: int) -> tuple[Producers, int]:
    """The newest state that is not behind `end_offset`, and its offset; an empty one and -1 if there is none."""
    for offset in sorted(_offsets(files, directory), reverse=True):
        if offset <= end_offset:
            path = _path(directory, offset)
            try:
                return Producers.from_snapshot(files.read(path)), offset
            except BadFile as error:
                logger.warning("%s is not used: %s; the producers' state is taken from the log", path, error)
                files.remove(path)
    return Producers(), -1


def remove(files: Files, directory: str, after: int) -> None:
    """Delete the snapshots of states behind an offset, for good.

    One that came back would speak of batches that are not there.
    """
    stale = [offset for offset in _offsets(files, directory) if offset > after]
    for offset in stale:
        files.remove(_path(directory, offset))
    if stale:
        files.sync_directory(directory)


def _path(directory: str, offset: int) -> str:
    return f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"


def _offsets(files: Files, directory: str) -> list[int]:
    return [int(name[:20]) for name in files.list(directory) if name.endswith(SNAPSHOT_SUFFIX) and name[:20].isdigit()]
