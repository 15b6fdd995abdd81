"""The status of one log directory: its health, its free space, and the speed of its disk.

    offline   the disk is gone: the broker writes nothing
    full      the disk is nearly full: clients cannot produce, the broker itself still writes
    exhausted the disk is full: it has refused a write, though other writes may fit
    hung      the disk does not respond: new partitions go to other directories
    online    none of these

Several states may hold at a time. `gateway.maintenance` (`directory_health`, `disk_space`) detects them;
`ReplicaManager` applies them to partitions. This module uses no file and no thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from headgate.gateway.metadata.image import COORDINATOR_TOPICS

if TYPE_CHECKING:
    from headgate.gateway.replication.append_queue import DiskMonitor
    from headgate.protocol.errors import KafkaError


class DirectorySpace(NamedTuple):
    """The size of the volume that holds a directory, and its free part, in bytes."""

    total: int
    free: int


class DirectoryStatus:
    """The state of one log directory."""

    __slots__ = ("_changed", "disk", "full_error", "is_exhausted", "is_hung", "offline_error", "path", "space")

    def __init__(self, path: str, disk: DiskMonitor, changed: Callable[[DirectoryStatus], None]) -> None:
        """`changed(status)` is called after each change of the health."""
        self.path = path
        self.disk = disk
        self._changed = changed
        self.offline_error: KafkaError | None = None
        """The reason to write nothing; None while the disk is available."""
        self.full_error: KafkaError | None = None
        """The reason to refuse clients; None while the disk has room."""
        self.is_exhausted = False
        self.is_hung = False
        self.space: DirectorySpace | None = None
        """The space of the last query; None if the query failed."""

    @property
    def is_offline(self) -> bool:
        """Whether the disk is gone."""
        return self.offline_error is not None

    @property
    def is_full(self) -> bool:
        """Whether the disk is nearly full."""
        return self.full_error is not None

    @property
    def is_failed(self) -> bool:
        """Whether other brokers of a cluster have to lead the partitions here: appends fail."""
        return self.is_offline or self.is_exhausted

    @property
    def is_avoided(self) -> bool:
        """Whether new partitions go to other directories, if there are any."""
        return self.is_hung or self.is_full or self.is_offline

    def refusal(self, topic: str) -> KafkaError | None:
        """The reason why clients cannot produce to a topic's partitions here; None if they can."""
        return self.offline_error or (None if topic in COORDINATOR_TOPICS else self.full_error)

    def set_offline(self, error: KafkaError | None) -> None:
        """Set or clear the reason to write nothing."""
        self.offline_error = error
        self._changed(self)

    def set_full(self, error: KafkaError | None) -> None:
        """Set or clear the reason to refuse clients: the disk is nearly full."""
        self.full_error = error
        self._changed(self)

    def set_exhausted(self, *, is_exhausted: bool) -> None:
        """Record that the disk has refused a write for lack of space, or has room again."""
        self.is_exhausted = is_exhausted
        self._changed(self)

    def set_hung(self, *, is_hung: bool) -> None:
        """Record that the disk hangs, or responds again."""
        self.is_hung = is_hung
        self._changed(self)
