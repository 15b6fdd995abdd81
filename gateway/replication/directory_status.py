"""One log directory as the broker sees it: its health, its free space, and the pace of its disk.

    offline   the disk is gone: nothing is written
    full      hardly any room is left: clients produce nothing, the broker itself still writes
    hung      the disk does not answer: new partitions go elsewhere
    online    none of these

Several of them may hold at a time. Who finds out stands in `gateway.maintenance` (`directory_health`, `disk_space`);
what follows for partitions is done by `ReplicaManager`. Here is no file and no thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from headgate.gateway.metadata.image import INTERNAL_TOPICS

if TYPE_CHECKING:
    from headgate.gateway.replication.append_queue import DiskMonitor
    from headgate.protocol.errors import KafkaError


class DirectorySpace(NamedTuple):
    """Bytes of the volume that holds a directory, and those of them that may still be written."""

    total: int
    free: int


class DirectoryStatus:
    """The state of one log directory."""

    __slots__ = ("_changed", "disk", "full_error", "is_hung", "offline_error", "path", "space")

    def __init__(self, path: str, disk: DiskMonitor, changed: Callable[[DirectoryStatus], None]) -> None:
        """`changed(status)` is called after each change of the health."""
        self.path = path
        self.disk = disk
        self._changed = changed
        self.offline_error: KafkaError | None = None
        """Why nothing is written; None while the disk is there."""
        self.full_error: KafkaError | None = None
        """Why clients produce nothing; None while there is room."""
        self.is_hung = False
        self.space: DirectorySpace | None = None
        """The last answer of the disk to the question for its space; None if it could not tell."""

    @property
    def is_offline(self) -> bool:
        """Whether the disk is gone."""
        return self.offline_error is not None

    @property
    def is_full(self) -> bool:
        """Whether hardly any room is left."""
        return self.full_error is not None

    @property
    def is_avoided(self) -> bool:
        """Whether new partitions go elsewhere, as long as there is another directory."""
        return self.is_hung or self.is_full or self.is_offline

    def refusal(self, topic: str) -> KafkaError | None:
        """Why clients cannot produce to partitions of a topic here; None if they can."""
        return self.offline_error or (None if topic in INTERNAL_TOPICS else self.full_error)

    def set_offline(self, error: KafkaError | None) -> None:
        """The disk is gone, for this reason; without one it is back."""
        self.offline_error = error
        self._changed(self)

    def set_full(self, error: KafkaError | None) -> None:
        """Hardly any room is left, for this reason; without one there is room again."""
        self.full_error = error
        self._changed(self)

    def set_hung(self, *, is_hung: bool) -> None:
        """The disk does not answer, or answers again."""
        self.is_hung = is_hung
        self._changed(self)
