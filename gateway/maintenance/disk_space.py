"""Disk space of the log directories: below `log.min.free.bytes` producers are refused.

A full disk fails operations halfway, even operations that no producer caused. So producers are refused a little
earlier, with a reason. Everything else goes on: fetches, deletions, retention, topics, and the broker's own writes such
as committed offsets. Producers are served again once a quarter more than the limit is free, so that the state does not
flap.

A disk may be full all the same, by other programs or by the broker's own writes. The first append without room shows
it: in a cluster, other brokers lead until there is room again.

A thread for each disk reads the free space once a second; up to twenty times a second while the disk fills so quickly
that the limit is near. A disk that does not answer is reported, and its last answer stays valid.

`gateway.replication.directory_status` has the answers; this module decides when to ask, and how little is too little.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from headgate.gateway.config import BrokerConfig
from headgate.gateway.maintenance.directory_health import error_number
from headgate.gateway.replication.directory_status import DirectorySpace, DirectoryStatus
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tasks import Task, run, sleep
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.files import NO_ROOM

logger = logging.getLogger("headgate.space")

CHECK_MS, QUICK_CHECK_MS = 1_000.0, 50.0
# A disk counts as hung after this time without an answer.
HUNG_MS = 10_000.0
# Producers are served again once the limit and a quarter of it (1 / MARGIN) is free.
MARGIN = 4
# The default limit is for disks of a usual size; on a small disk the limit is a tenth (1 / SMALL_DISK) of its size.
SMALL_DISK = 10
_MIB = 1 << 20
LEAST_ROOM = _MIB
"""The free space of a disk that has refused an append, before it takes records again, if the limit is smaller."""

SETTING = "log.min.free.bytes"


def least_free(configured: int, is_given: bool, total: int) -> int:
    """The limit: the number of bytes that must stay free. Pure."""
    return configured if is_given else min(configured, total // SMALL_DISK)


def is_low(free: int, least: int, was_low: bool) -> bool:
    """Whether producers are refused. Pure."""
    return free < (least + least // MARGIN if was_low else least)


def next_check_ms(free: int, least: int, taken: int, elapsed_ms: float) -> float:
    """The wait until the next check in ms: the time in which half of the space above the limit may be used. Pure.

    `taken` bytes were used in the last `elapsed_ms`.
    """
    if taken <= 0 or elapsed_ms <= 0 or free <= least:
        return CHECK_MS
    return min(CHECK_MS, max(QUICK_CHECK_MS, (free - least) / 2 / taken * elapsed_ms))


class DiskSpace:
    """Watches the free space of each log directory."""

    def __init__(
        self,
        partitions: ReplicaManager,
        config: BrokerConfig,
        clock: Clock,
        scheduler: Scheduler,
        changed: Callable[[str, bool], None],
    ) -> None:
        """`changed(directory, is_low)` is called on the loop at each change of `is_low`."""
        self._partitions = partitions
        self._config = config
        self._clock = clock
        self._scheduler = scheduler
        self._changed = changed
        self._measured: dict[str, tuple[float, int]] = {}  # directory -> time of the last check, free bytes
        self._unknown: set[str] = set()  # directories with a logged error

    @property
    def least(self) -> int:
        """The free bytes of the fullest disk; 0 before the first check."""
        return min((free for _, free in self._measured.values()), default=0)

    def refresh(self) -> None:
        """Begin to watch all disks."""
        for status in self._partitions.directories.values():
            run(self._watch(status))

    def note_error(self, status: DirectoryStatus, error: object) -> None:
        """Note an error of a write: the disk may be full."""
        if error_number(error) in NO_ROOM and not status.is_exhausted:
            self._scheduler.call_soon(partial(status.set_exhausted, is_exhausted=True))  # the write is under way

    def _watch(self, status: DirectoryStatus) -> Task[None]:
        """Read the free space of a disk, again and again."""
        while True:
            wait_ms, timer = CHECK_MS, self._scheduler.call_after(HUNG_MS, partial(self._note_hung, status))
            try:
                found = yield partial(self._scheduler.in_thread, partial(self._partitions.space, status.path))
                status.space = DirectorySpace(*found)
                self._unknown.discard(status.path)
            except Exception as error:  # noqa: BLE001  logged once
                status.space = None
                self._note_unknown(status.path, error)
            timer.cancel()
            if status.is_hung:
                status.set_hung(is_hung=False)
                logger.warning("the disk of %s answers again", status.path)
            if status.space is not None:
                try:
                    wait_ms = self._note(status, status.space)
                except Exception:  # without a further check producers would stay refused forever
                    logger.exception("the free space of %s is known, but a listener failed", status.path)
            yield sleep(self._scheduler, wait_ms)

    def _note_hung(self, status: DirectoryStatus) -> None:
        status.set_hung(is_hung=True)
        logger.error("the disk of %s hangs: no answer about its free space for %d s", status.path, HUNG_MS / 1000)

    def _note_unknown(self, directory: str, error: BaseException) -> None:
        if directory not in self._unknown:
            logger.error("cannot read the free space of %s: %s", directory, error)
        self._unknown.add(directory)

    def _note(self, status: DirectoryStatus, space: DirectorySpace) -> float:
        is_given = any(text is not None for text in self._config.texts(SETTING))
        least = least_free(self._config.log_min_free_bytes, is_given, space.total)
        now_low = is_low(space.free, least, status.is_full)
        if now_low != status.is_full:
            self._change(status, space, least, now_low)
        if status.is_exhausted and space.free >= max(least + least // MARGIN, LEAST_ROOM):
            status.set_exhausted(is_exhausted=False)
        now_ms = self._clock.monotonic_ms()
        before_ms, before = self._measured.get(status.path, (now_ms, space.free))
        self._measured[status.path] = now_ms, space.free
        return next_check_ms(space.free, least, before - space.free, now_ms - before_ms)

    def _change(self, status: DirectoryStatus, space: DirectorySpace, least: int, now_low: bool) -> None:
        if now_low:
            enough = least + least // MARGIN
            why = (
                f"the disk of {status.path} is nearly full: less than {SETTING}={least} bytes are free; producers are"
                f" served again once {enough} are: delete topics or records, or lower retention.ms or retention.bytes"
            )
            logger.error("%d MiB are free, and producers are refused: %s", space.free // _MIB, why)
            status.set_full(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why))
        else:
            sentence = "%d MiB are free on the disk of %s: producers are served again"
            logger.warning(sentence, space.free // _MIB, status.path)
            status.set_full(None)
        self._changed(status.path, now_low)
