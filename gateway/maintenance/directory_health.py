"""Directory health: detects a failed disk of a log directory, logs it once, and notices when the disk is back.

A failed disk refuses every write and every sync of every log. So after the first error that may be the device's fault,
a thread probes the directory: it checks the identity, then creates, writes, syncs and removes a small file. If the
probe fails, the directory goes offline: its partitions refuse producers with one reason, and serve consumers as long as
reads work. The thread probes again after growing intervals. After a successful probe, everything that may not be on the
disk is repaired (`gateway.maintenance.sync_repair_queue`), and the partitions are served as before. Other directories
are not affected.

After an unmount a directory of the same path remains, on the parent disk. It takes files, but they would be hidden
under the right disk after the next mount. Only `meta.properties` distinguishes the two.

`gateway.replication.directory_status` has the result; this module only probes.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from functools import partial

from headgate.gateway.replication.directory_status import DirectoryStatus
from headgate.gateway.runtime.backoff import Backoff
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tasks import SingleTask, Task, sleep
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.disk.layout import Meta, check_same
from headgate.storage.files import NO_DESCRIPTORS, NO_ROOM, Files

logger = logging.getLogger("headgate.maintenance")

DEVICE_ERRORS = frozenset(
    getattr(errno, name)
    for name in (
        *("EIO", "ENODEV", "ENXIO", "EROFS", "ENOMEDIUM", "EREMOTEIO", "ESHUTDOWN", "EUCLEAN"),
        *("ENOENT", "ENOTCONN", "ESTALE"),  # an unmounted disk
    )
    if hasattr(errno, name)
)
"""The error numbers that may be the fault of the device, not of one file."""
PROBE_NAME = ".headgate-probe"
_PROBE = bytes(512)
# The wait before the next probe, doubled after each failure up to the maximum.
FIRST_WAIT_MS, MAX_WAIT_MS = 1_000.0, 60_000.0


def error_number(error: object) -> int | None:
    """The number of a system's error, also behind the error for clients; None for any other error."""
    if isinstance(error, KafkaError):
        error = error.__cause__
    return error.errno if isinstance(error, OSError) else None


def probe(files: Files, directory: str, meta: Meta) -> None:
    """Check that a directory has this identity and takes files.

    Raises OSError, except for a lack of disk space or descriptors, which is not the fault of the disk.
    """
    path = f"{directory}/{PROBE_NAME}"
    try:
        check_same(files, directory, meta)
        files.write(path, _PROBE, sync=True)
        files.remove(path)
        files.sync_directory(directory)
    except OSError as error:
        if error.errno not in (*NO_ROOM, *NO_DESCRIPTORS):
            raise


class DirectoryHealth:
    """Probes one log directory after errors."""

    def __init__(
        self,
        status: DirectoryStatus,
        files: Files,
        meta: Meta,
        changed: Callable[[KafkaError | None], None],
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        """`meta` is the identity of the directory.

        `changed(error)` is called when the directory goes offline, and with None when it is online again.
        """
        self._status = status
        self._files = files
        self._meta = meta
        self._changed = changed
        self._clock = clock
        self._scheduler = scheduler
        self._probe = SingleTask()
        self._backoff = Backoff(FIRST_WAIT_MS, MAX_WAIT_MS)
        self._is_healthy_until_ms = 0.0

    def note(self, error: object) -> None:
        """Note an error in the directory, and probe it if the device may be at fault."""
        if error_number(error) in DEVICE_ERRORS and self._clock.monotonic_ms() >= self._is_healthy_until_ms:
            self._probe.start(self._probe_until_healthy)

    def _probe_until_healthy(self) -> Task[None]:
        """Probe the directory until it takes files; after the first failure it is offline."""
        while True:
            try:
                yield partial(self._scheduler.in_thread, partial(probe, self._files, self._status.path, self._meta))
                break
            except Exception as error:  # noqa: BLE001  logged when the directory goes offline
                if not self._status.is_offline:
                    self._go_offline(error)
            yield sleep(self._scheduler, self._backoff.next_wait_ms())
        # One file may fail at each append; this must not cause a probe with a sync each time.
        self._is_healthy_until_ms = self._clock.monotonic_ms() + FIRST_WAIT_MS
        if self._status.is_offline:
            self._backoff.reset()
            logger.warning("the log directory %s takes files again; its partitions are repaired", self._status.path)
            self._changed(None)

    def _go_offline(self, error: BaseException) -> None:
        why = (
            f"the log directory {self._status.path} is offline, as its disk takes nothing ({error}); the broker"
            " tries again by itself, without a restart"
        )
        logger.error("%s", why)
        self._changed(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why))
