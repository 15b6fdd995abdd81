"""A client, an audit log in memory, and its lines."""

from __future__ import annotations

import errno
import json
from typing import Any

from headgate.gateway.audit.audit_file import AuditFile
from headgate.gateway.audit.audit_log import AuditLog
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.protocol.security.acls.tests.made import Somebody
from headgate.storage.files import Files

PATH = "/audit.log"
PEER = Somebody("User:alice", "10.0.0.1", "CLIENTS", "app")


class MemoryFiles(Files):
    """Files that are appended to; a write leaves `room` bytes, and fails for the rest."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.room: int | None = None

    def append(self, path: str, data: bytes | bytearray) -> None:
        if not path.startswith(PATH):
            raise OSError(errno.ENOENT, "No such file or directory", path)
        fits = bytes(data) if self.room is None else bytes(data)[: self.room]
        self.content[path] = self.content.get(path, b"") + fits
        if len(fits) < len(data):
            raise OSError(errno.ENOSPC, "No space left on device", path)


class Audited:
    """An audit log over a clock that stands still."""

    def __init__(self) -> None:
        self.time = ManualTime()
        self.files = MemoryFiles()
        self.file = AuditFile(PATH, self.files, self.time.scheduler)
        self.log = AuditLog(self.file, self.time.clock, self.time.scheduler)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """All lines that can be read."""
        return [json.loads(line) for line in self.files.content[PATH].splitlines() if line.endswith(b"}")]
