"""Notifications: sequential nodes by which a writer of configs, ACLs or tokens names the changed node to other brokers.

Every broker deletes old ones, as Kafka's `ZkNodeChangeNotificationListener` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from headgate.gateway.runtime.tasks import Task, gather
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.metadata.reading import StoreParts
from headgate.gateway.zookeeper.requests import children, get, remove

T = TypeVar("T")

NOTIFICATION_MS: Final = 15 * 60 * 1000
"""The age at which a notification is deleted."""


class Notifications:
    """The notifications below some directories that this broker has read."""

    def __init__(self, parts: StoreParts) -> None:
        self._session = parts.session
        self._watches = parts.watches
        self._nodes = parts.nodes
        self._clock = parts.clock
        self._known: dict[str, int] = {}  # path -> when it was created, in ms

    def know(self, path: str) -> None:
        """Skip a notification that this broker has written: it knows the change."""
        self._known[path] = self._clock.now_ms()

    def read(self, directory: str, decode: Callable[[str, bytes | None], T]) -> Task[list[T]]:
        """The subjects of new notifications, by `decode(path, data)`. A further notification fires a watch.

        `decode` raises InvalidNode: such a notification is logged once. Raises Failed.
        """
        names = yield from children(self._session, directory, self._watches.note)
        paths = {f"{directory}/{name}" for name in names}
        new, attempt = sorted(paths.difference(self._known)), self._nodes.unreadable.attempt
        found = yield from gather([attempt(path, self._read(path, decode)) for path in new])
        self._known = {
            path: created_ms
            for path, created_ms in self._known.items()
            if path in paths or not path.startswith(f"{directory}/")
        }
        yield from self._purge()
        return [subject for subject in found if subject is not None]

    def _read(self, path: str, decode: Callable[[str, bytes | None], T]) -> Task[T | None]:
        found = yield from get(self._session, path)
        if found is None:
            return None
        self._known[path] = found.stat.ctime_ms
        try:
            return decode(path, found.data)
        except InvalidNode as error:
            self._nodes.unreadable.name(error.path, error.reason)
            return None

    def _purge(self) -> Task[None]:
        """Delete old notifications, as every broker does."""
        before_ms = self._clock.now_ms() - NOTIFICATION_MS
        old = [path for path, created_ms in self._known.items() if created_ms < before_ms]
        yield from gather([self._nodes.unreadable.attempt(path, remove(self._session, path)) for path in old])
        for path in old:
            del self._known[path]
