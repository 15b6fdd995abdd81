"""A session whose server of ZooKeeper lags behind: reads have an old tree, and watches are told later.

A server has caught up when it answers a sync or a write of the session, as these go through the leader.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from headgate.gateway.zookeeper.offsets.tests.broker_parts import SlowNetwork
from headgate.gateway.zookeeper.session import Operation, Refused, Results, SessionEvent
from headgate.gateway.zookeeper.tests.model import ModelSession


class LaggingSession(ModelSession):
    """`fall_behind` begins it; `behind` is the old tree."""

    behind: Any = None
    _is_read = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.missed: list[tuple[str, str]] = []

    def fall_behind(self) -> None:
        """From now on the server hears nothing of the others."""
        if self.is_connected and self.behind is None:
            self.behind = copy.copy(self._keeper.tree)
            self.behind.nodes = {path: node.copy() for path, node in self._keeper.tree.nodes.items()}

    def catch_up(self) -> None:
        """The server has everything, and tells of what has changed."""
        self.behind, missed = None, list(self.missed)
        self.missed.clear()
        for kind, path in missed:
            for watch in self.watches.pop((kind, path), ()):
                self._keeper.put(self.events, partial(watch, self.relative(path)))

    def get(self, *arguments: Any, **named: Any) -> None:
        self._read(super().get, *arguments, **named)

    def get_many(self, *arguments: Any) -> None:
        self._read(super().get_many, *arguments)

    def children(self, *arguments: Any, **named: Any) -> None:
        self._read(super().children, *arguments, **named)

    def exists(self, *arguments: Any, **named: Any) -> None:
        self._read(super().exists, *arguments, **named)

    def lost(self, event: SessionEvent) -> None:
        self.behind = None
        self.missed.clear()
        super().lost(event)

    def _read(self, request: Callable[..., None], *arguments: Any, **named: Any) -> None:
        self._is_read = True
        request(*arguments, **named)
        self._is_read = False

    def _ask(self, operations: Sequence[Operation], work: Callable[[], Any], done: Any) -> None:
        super()._ask(operations, partial(self._behind if self._is_read else self._ahead, work), done)

    def _behind(self, work: Callable[[], Any]) -> Any:
        tree = self._keeper.tree
        self._keeper.tree = self.behind or tree
        try:
            return work()
        finally:
            self._keeper.tree = tree

    def _ahead(self, work: Callable[[], Any]) -> Any:
        self.catch_up()
        return work()


class _Missed(dict[Any, Any]):
    """Instead of the watches of a session that is behind."""

    def __init__(self, missed: list[tuple[str, str]]) -> None:
        super().__init__()
        self._missed = missed

    def pop(self, key: Any, *_: Any) -> Any:
        self._missed.append(key)
        return ()


class LaggingServers(SlowNetwork):
    """A ZooKeeper of several servers."""

    def session(self, *arguments: Any) -> ModelSession:
        on_event = arguments[0] if arguments else lambda _: None
        self.sessions.append(LaggingSession(self, on_event, ""))
        return self.sessions[-1]

    def transact(self, session_id: int, operations: Sequence[Operation]) -> Results | Refused:
        behind: list[Any] = [one for one in self.sessions if getattr(one, "behind", None) is not None]
        watches = [one.watches for one in behind]
        for one in behind:
            one.watches = _Missed(one.missed)
        results = super().transact(session_id, operations)
        for one, before in zip(behind, watches, strict=True):
            one.watches = before
        return results
