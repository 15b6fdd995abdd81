"""The opening of one log: its log directory begins and ends it on the loop, any thread runs it in between.

The thread uses only the files of this one partition, through a pool of its own. After a crash a log of a gigabyte takes
seconds; an idle log takes a fraction of a millisecond.

`storage.recovery.recovery_steps` has the steps; `log_directory.py` applies the result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

from headgate.protocol.errors import KafkaError, without_frames
from headgate.protocol.steps import Steps, finish
from headgate.storage.config import LogConfig
from headgate.storage.disk import layout
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import BadFile, NotALog, StorageError
from headgate.storage.files import Files
from headgate.storage.log.log import Log
from headgate.storage.recovery import recovery_steps
from headgate.storage.recovery.recovery_input import RecoveryInput

logger = logging.getLogger("headgate.storage")

# An opening reads one segment after another, so that a few open files are enough.
_OPEN_SEGMENTS, _INDEX_BYTES = 4, 1 << 20


class LogOpening:
    """One log that is being opened. At the end `log` or `error` is set, before that neither."""

    __slots__ = ("_config", "_files", "_now_ms", "_random", "error", "has_begun", "log", "recovery")

    def __init__(self, files: Files, recovery: RecoveryInput, config: LogConfig, random: Random, now_ms: int) -> None:
        """Use `LogDirectory.begin_opening`."""
        self.recovery = recovery
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

        False after a clean stop. True after any other stop: a power cut may have taken the end of the log without a
        trace, and a kill, which takes nothing, looks the same.
        """
        return not self.recovery.is_clean

    def __repr__(self) -> str:
        return f"Opening({self.recovery})"

    def run(self) -> None:
        """Open the log, at once."""
        finish(self.steps())

    def steps(self) -> Steps[None]:
        """Open the log, in slices. `error` is set if that fails."""
        self.has_begun = True
        recovery = self.recovery
        pool = Pool(self._files, _OPEN_SEGMENTS, _INDEX_BYTES)
        try:
            recovery.topic_id = self._topic_id()
            self.log = yield from recovery_steps.open_log_steps(
                pool, recovery, self._config, self._random, self._now_ms
            )
            self._log_loss(self.log.end_offset)
        except NotALog as error:
            self.error = without_frames(error)
            logger.warning("%s; the directory stays unchanged", error)
        except (StorageError, OSError, KafkaError) as error:
            self.error = _storage_error(recovery, error)
            logger.error("partition %s stays closed: %s", recovery, str(error).removeprefix(f"{recovery}: "))

    def _log_loss(self, end_offset: int) -> None:
        """Log a certain loss: clients could read everything below the high watermark of the last checkpoint."""
        high_watermark = self.recovery.high_watermark
        if self.may_lack_records and end_offset < high_watermark:
            lost = "%s: records from offset %d to %d are lost; clients may have read them"
            logger.warning(lost, self.recovery, end_offset, high_watermark - 1)

    def _topic_id(self) -> bytes | None:
        try:
            return layout.read_topic_id(self._files, self.recovery.directory)
        except BadFile as error:
            logger.warning("%s; the topic of this partition is known by its name alone", error)
            return None


def _storage_error(recovery: RecoveryInput, error: Exception) -> StorageError:
    """The error as a StorageError. Its cause is an error of the system, if any, which may soon be over."""
    if isinstance(error, StorageError):
        return without_frames(error)
    result = StorageError(f"{recovery}: {error}")
    result.__cause__ = error.__cause__ if isinstance(error.__cause__, OSError) else error
    return without_frames(result)


ConfigOf = Callable[[str], LogConfig]
"""Topic name -> settings of the topic."""
