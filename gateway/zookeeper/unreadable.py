"""The nodes that this broker cannot read, each logged once.

A node is logged again if the reason changes, or after the node was readable in between. Any client can write any number
of such nodes, so the memory for them is bounded: further nodes are not logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, TypeVar

from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.requests import Failed
from headgate.protocol.errors import KafkaError

logger = logging.getLogger("headgate.zookeeper")

T = TypeVar("T")

MAX_NAMED: Final = 10_000
MAX_SHOWN: Final = 1_000


class UnreadableNodes:
    """Reasons by path."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def note(self, read: Iterable[str], invalid: Iterable[InvalidNode]) -> None:
        """Note a read of the paths `read`, of which `invalid` are unreadable."""
        reasons = {error.path: error.reason for error in invalid}
        for path in [path for path in read if path in self._reasons and path not in reasons] if self._reasons else ():
            del self._reasons[path]
        for path, reason in reasons.items():
            self.name(path, reason)

    def name(self, path: str, reason: str, *, error: BaseException | None = None) -> None:
        """Log that this broker ignores the data of a node. `error`: log its traceback too."""
        if self._is_new(path, reason):
            logger.error(
                "ZooKeeper's %s: %s; the broker goes on without it, or with what it knew: correct or delete the node",
                _short(path), reason, exc_info=error,
            )  # fmt: skip

    def name_failed(self, error: Failed) -> None:
        """Log that ZooKeeper denies this broker access to a node."""
        self.name(error.path, f"ZooKeeper answers {error.error.name}")

    def attempt(self, path: str, steps: Task[T]) -> Task[T | None]:
        """Run steps about one path. A final failure or a fault is logged and gives None, so that the rest goes on."""
        try:
            return (yield from steps)
        except Failed as error:
            if not error.is_final:
                raise
            self.name_failed(error)
        except KafkaError:
            raise
        except Exception as error:  # noqa: BLE001  a fault of one subject must not stop the others
            self.name(path, f"{type(error).__name__}: {error}", error=error)
        return None

    def log_once(self, key: str, sentence: str) -> None:
        """Log a sentence about a part of a node, unless it is equal to the last one with this key."""
        if self._is_new(key, sentence):
            logger.error("%s", _short(sentence))

    def _is_new(self, key: str, reason: str) -> bool:
        if self._reasons.get(key) == reason or (key not in self._reasons and len(self._reasons) >= MAX_NAMED):
            return False
        self._reasons[key] = reason
        return True


def _short(text: str) -> str:
    """Shorten a text for the log: ZooKeeper allows names of a million characters."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
