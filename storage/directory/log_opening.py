"""The opening of one log: begun and ended by its log directory on the loop, run in between by any thread.

The thread touches the files of this one partition and nothing else: files that it opens belong to a pool of their own.
A log of a gigabyte that a crash left takes seconds, an idle one a fraction of a millisecond.

The steps of an opening stand in `storage.recovery.open_log`; what the result means for the partition, in
`log_directory.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

from headgate.protocol.errors import KafkaError
from headgate.protocol.steps import Steps, finish
from headgate.storage.config import LogConfig
from headgate.storage.disk import layout
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import BadFile, NotALog, StorageError
from headgate.storage.files import Files
from headgate.storage.log.log import Log
from headgate.storage.recovery import open_log
from headgate.storage.recovery.recovery_input import RecoveryInput

logger = logging.getLogger("headgate.storage")

# An opening looks at one segment after another, and never at two at once.
_OPEN_SEGMENTS, _INDEX_BYTES = 4, 1 << 20


class LogOpening:
    """One log that is being opened. Afterwards `log` or `error` is set; before the end neither is."""

    __slots__ = ("_config", "_files", "_now_ms", "_random", "error", "found", "has_begun", "log")

    def __init__(self, files: Files, found: RecoveryInput, config: LogConfig, random: Random, now_ms: int) -> None:
        """Use `LogDirectory.begin_opening`."""
        self.found = found
        self._files = files
        self._config = config
        self._random = random
        self._now_ms = now_ms
        self.log: Log | None = None
        self.error: StorageError | None = None
        self.has_begun = False

    @property
    def may_lack_records(self) -> bool:
        """Whether records may be missing that clients could read before the last stop.

        After a clean stop none are. After any other stop nobody knows: a power cut may have taken the end of the log,
        which leaves no trace. So this holds after a kill too, which takes nothing.
        """
        return not self.found.is_clean

    def __repr__(self) -> str:
        return f"Opening({self.found})"

    def run(self) -> None:
        """Open the log, at once."""
        finish(self.steps())

    def steps(self) -> Steps[None]:
        """Open the log, in slices. `error` says what went wrong."""
        self.has_begun = True
        found = self.found
        pool = Pool(self._files, _OPEN_SEGMENTS, _INDEX_BYTES)
        try:
            found.topic_id = self._topic_id()
            self.log = yield from open_log.open_log_steps(pool, found, self._config, self._random, self._now_ms)
            self._log_loss(self.log.end_offset)
        except NotALog as error:
            self.error = error
            logger.warning("%s; left alone", error)
        except (StorageError, OSError, KafkaError) as error:
            self.error = _told(found, error)
            logger.error("partition %s stays closed: %s", found, str(error).removeprefix(f"{found}: "))

    def _log_loss(self, end_offset: int) -> None:
        """Some losses are certain: clients could read everything below the high watermark of the last checkpoint."""
        high_watermark = self.found.high_watermark
        if self.may_lack_records and end_offset < high_watermark:
            lost = "%s: records from offset %d to %d are lost, which clients may have read"
            logger.warning(lost, self.found, end_offset, high_watermark - 1)

    def _topic_id(self) -> bytes | None:
        try:
            return layout.read_topic_id(self._files, self.found.directory)
        except BadFile as error:
            logger.warning("%s; the topic of this partition is known by its name alone", error)
            return None


def _told(found: RecoveryInput, error: Exception) -> StorageError:
    """The error in terms of the store. An error of the system is its cause, and may be over in a moment."""
    if isinstance(error, StorageError):
        return error
    told = StorageError(f"{found}: {error}")
    told.__cause__ = error.__cause__ if isinstance(error.__cause__, OSError) else error
    return told


ConfigOf = Callable[[str], LogConfig]
"""The settings of a topic, by its name."""
