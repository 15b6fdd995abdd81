"""Room on the disks of the data directories: below `log.min.free.bytes` nothing is produced.

A full disk fails in the middle of things, and fails what has nothing to do with the writer. So producers are refused a
little earlier, with a reason, while all else goes on: fetches, deletions, retention, topics, and what the broker itself
has to write, as committed offsets. Producers are served again once the limit and a quarter more is free, so that the
state does not come and go.

A thread for each disk asks for the room once a second; more often, up to twenty times, while the disk fills so quickly
that the limit is near. A disk that does not answer is reported, and its last answer stays valid.

The answers stand in `gateway.replication.directory_status`; here is when to ask, and what is too little.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from headgate.gateway.config import BrokerConfig
from headgate.gateway.replication.directory_status import DirectorySpace, DirectoryStatus
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler, Timer
from headgate.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger("headgate.space")

LOOK_MS, QUICK_LOOK_MS = 1_000.0, 50.0
# After so long without an answer a disk is said to hang.
HUNG_MS = 10_000.0
# What has to be free beyond the least, for producers to be served again: a quarter of it.
MARGIN = 4
# The default is for disks of a usual size. Of a small one it is a tenth.
SMALL_DISK = 10
_MIB = 1 << 20

SETTING = "log.min.free.bytes"


def least_free(configured: int, is_given: bool, total: int) -> int:
    """How many bytes are to stay free."""
    return configured if is_given else min(configured, total // SMALL_DISK)


def is_low(free: int, least: int, was_low: bool) -> bool:
    """Whether producers are refused."""
    return free < (least + least // MARGIN if was_low else least)


def next_look_ms(free: int, least: int, taken: int, elapsed_ms: float) -> float:
    """When to look next, if so many bytes were taken since the last look: when half of what is left may be gone."""
    if taken <= 0 or elapsed_ms <= 0 or free <= least:
        return LOOK_MS
    return min(LOOK_MS, max(QUICK_LOOK_MS, (free - least) / 2 / taken * elapsed_ms))


class DiskSpace:
    """Asks for the room of each log directory."""

    def __init__(
        self,
        partitions: ReplicaManager,
        config: BrokerConfig,
        clock: Clock,
        scheduler: Scheduler,
        changed: Callable[[str, bool], None],
    ) -> None:
        """`changed(directory, is_low)` is called on the loop."""
        self._partitions = partitions
        self._config = config
        self._clock = clock
        self._scheduler = scheduler
        self._changed = changed
        self._looked: dict[str, tuple[float, int]] = {}  # when, and what was free
        self._unknown: set[str] = set()  # whose error was logged

    @property
    def least(self) -> int:
        """Bytes that are free on the fullest disk; 0 before the first look."""
        return min((free for _, free in self._looked.values()), default=0)

    def look(self) -> None:
        """Ask the disks, now and again and again."""
        for status in self._partitions.directories.values():
            self._ask(status)

    def _ask(self, status: DirectoryStatus) -> None:
        timer = self._scheduler.call_after(HUNG_MS, lambda: self._note_hung(status))

        def space() -> tuple[int, int]:
            return self._partitions.space(status.path)

        self._scheduler.in_thread(space, lambda found: self._seen(status, timer, found))

    def _note_hung(self, status: DirectoryStatus) -> None:
        status.set_hung(is_hung=True)
        logger.error("the disk of %s has not told its room for %d s: it hangs", status.path, HUNG_MS / 1000)

    def _seen(self, status: DirectoryStatus, timer: Timer, found: tuple[int, int] | BaseException) -> None:
        wait_ms = LOOK_MS
        timer.cancel()
        if status.is_hung:
            status.set_hung(is_hung=False)
            logger.warning("the disk of %s answers again", status.path)
        try:
            if isinstance(found, BaseException):
                status.space = None
                self._note_unknown(status.path, found)
            else:
                status.space = DirectorySpace(*found)
                self._unknown.discard(status.path)
                wait_ms = self._note(status, status.space)
        finally:  # else what is refused now would be refused for good
            self._scheduler.call_after(wait_ms, lambda: self._ask(status))

    def _note_unknown(self, directory: str, error: BaseException) -> None:
        if directory not in self._unknown:
            logger.error("%s cannot be asked for its room: %s", directory, error)
        self._unknown.add(directory)

    def _note(self, status: DirectoryStatus, room: DirectorySpace) -> float:
        is_given = any(text is not None for text in self._config.texts(SETTING))
        least = least_free(self._config.log_min_free_bytes, is_given, room.total)
        now_low = is_low(room.free, least, status.is_full)
        if now_low != status.is_full:
            self._change(status, room, least, now_low)
        now_ms = self._clock.monotonic_ms()
        before_ms, before = self._looked.get(status.path, (now_ms, room.free))
        self._looked[status.path] = now_ms, room.free
        return next_look_ms(room.free, least, before - room.free, now_ms - before_ms)

    def _change(self, status: DirectoryStatus, room: DirectorySpace, least: int, now_low: bool) -> None:
        if now_low:
            enough = least + least // MARGIN
            why = (
                f"the disk of {status.path} is nearly full: less than {SETTING}={least} bytes are free; records are"
                f" taken again once {enough} are: delete topics or records, or lower retention.ms or retention.bytes"
            )
            logger.error("%d MiB are free, and nothing is produced: %s", room.free // _MIB, why)
            status.set_full(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why))
        else:
            taken = "%d MiB are free on the disk of %s: records are taken again"
            logger.warning(taken, room.free // _MIB, status.path)
            status.set_full(None)
        self._changed(status.path, now_low)
