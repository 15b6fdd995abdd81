"""The file of the audit log: appended to by threads of the scheduler, off the event loop.

Every write opens the file, so that a file which was renamed or deleted is followed by a new one: rotation needs
no signal. A full disk loses the lines of the write, which are counted and reported; the broker goes on.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from headgate.gateway.audit.audit_events import AuditEvent
from headgate.gateway.runtime.tasks import SingleTask, Task
from headgate.storage.errors import StorageError
from headgate.storage.files import Files

if TYPE_CHECKING:
    from headgate.gateway.runtime.scheduler import Scheduler

logger = logging.getLogger("headgate.audit")

MAX_WAITING: Final = 10_000
"""Requests whose events wait for the disk; the events of further ones are lost."""
LAST_WRITE_S: Final = 5.0


class AuditFile:
    """Appends events to a file. `append` and `close` are called on the loop, or after its end."""

    def __init__(self, path: str, files: Files, scheduler: Scheduler) -> None:
        """Raises StorageError for a file that cannot be written."""
        self.path = path
        self.written = 0
        self.lost = 0
        """Lines that the disk refused, and events that waited for it in vain."""
        self._files = files
        self._scheduler = scheduler
        self._waiting: deque[Iterable[AuditEvent]] = deque()
        self.writing = threading.Lock()
        """Held by the thread that writes."""
        self._work = SingleTask()
        self._is_torn = self._is_failing = False
        try:
            files.append(path, b"")
        except OSError as error:
            raise StorageError(
                f"headgate.audit.log={path} cannot be written: {error.strerror}; name a file in a directory that exists"
                " and that this user may write to"
            ) from error

    def append(self, events: Iterable[AuditEvent]) -> None:
        """Have a thread compute the events, and append them."""
        if len(self._waiting) >= MAX_WAITING:
            self.lost += 1
            return
        self._waiting.append(events)
        self._work.start(self._run)

    def _run(self) -> Task[None]:
        """Have threads write all that waits. After the end of the scheduler `close` writes."""
        while self._waiting and not self._scheduler.is_over:
            yield partial(self._scheduler.in_thread, self._write_waiting)

    def _write_waiting(self) -> None:
        """Write all that waits, in any thread."""
        with self.writing:
            self._write()

    def _write(self) -> None:
        lines = []
        while self._waiting:
            lines += self._lines(self._waiting.popleft())
        if not lines:
            return
        try:
            self._files.append(self.path, (b"\n" if self._is_torn else b"") + b"".join(lines))
        except OSError as error:
            self.lost += len(lines)
            self._is_torn = True  # a part of a line may be there: the next one begins behind it
            if not self._is_failing:
                self._is_failing = True
                logger.error("the audit log %s cannot be written, and loses lines: %s", self.path, error.strerror)
            return
        self.written += len(lines)
        self._is_torn = False
        if self._is_failing:
            self._is_failing = False
            logger.warning("the audit log %s is written again; %d lines were lost", self.path, self.lost)

    def _lines(self, events: Iterable[AuditEvent]) -> list[bytes]:
        try:
            return [json.dumps(event).encode() + b"\n" for event in events]
        except Exception:  # a fault of ours must not take the other events along
            self.lost += 1
            logger.exception("the audit log %s loses a change that cannot be described", self.path)
            return []

    def close(self) -> None:
        """Write what waits, after the end of the scheduler. A disk that hangs is given up after some seconds."""
        if not self.writing.acquire(timeout=LAST_WRITE_S):
            logger.error("the audit log %s: the disk hangs, and %d events are lost", self.path, len(self._waiting))
            return
        try:
            self._write()
        finally:
            self.writing.release()
