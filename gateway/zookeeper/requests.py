"""Requests to ZooKeeper as tasks (`gateway.runtime.tasks`): what comes next depends on the answer.

    def read(session: Session) -> Task[int]:
        found = yield from get(session, "/a")           # NodeData, or None without the node
        ...

An error of ZooKeeper that a task has no use for is raised as `Failed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, TypeVar

from headgate.gateway.runtime.tasks import Task, gather
from headgate.gateway.zookeeper.session import (
    READ_AT_ONCE,
    Create,
    KeeperError,
    NodeData,
    Operation,
    Refused,
    Results,
    Session,
    Stat,
    Watch,
)

T = TypeVar("T")

CONNECTION_ENDED: Final = {KeeperError.NOT_CONNECTED, KeeperError.CONNECTION_LOSS, KeeperError.SESSION_EXPIRED}


_FINAL: Final = {
    KeeperError.NO_AUTH,
    KeeperError.BAD_ARGUMENTS,
    KeeperError.TOO_LARGE,
    KeeperError.NOT_EMPTY,
    KeeperError.NO_CHILDREN_FOR_EPHEMERALS,
}


class Failed(Exception):
    """A request failed with an error that its task has no use for."""

    def __init__(self, path: str, error: KeeperError) -> None:
        super().__init__(f"ZooKeeper's {path}: {error.name}")
        self.path = path
        self.error = error

    @property
    def is_final(self) -> bool:
        """Whether the same request fails again, because of what the node is."""
        return self.error in _FINAL


class Lost(Failed):
    """The connection ended before the answer; after CONNECTION_LOSS the request may have taken effect."""


def get(session: Session, path: str, watch: Watch | None = None) -> Task[NodeData | None]:
    """A node; None if it does not exist, and then there is no watch. Raises Failed."""
    found = yield partial(session.get, path, watch=watch)
    return None if found is KeeperError.NO_NODE else checked(path, found)


def get_many(session: Session, paths: Sequence[str]) -> Task[list[NodeData | None]]:
    """Many nodes without watches, in order; None for one that does not exist. Raises Failed."""
    pieces = [paths[first : first + READ_AT_ONCE] for first in range(0, len(paths), READ_AT_ONCE)]
    answers = yield from gather([_get_piece(session, piece) for piece in pieces])
    return [one for answer in answers for one in answer]


def _get_piece(session: Session, paths: Sequence[str]) -> Task[list[NodeData | None]]:
    found = checked(paths[0], (yield partial(session.get_many, paths)))
    pairs = zip(paths, found, strict=True)
    return [None if one is KeeperError.NO_NODE else checked(path, one) for path, one in pairs]


def exists(session: Session, path: str, watch: Watch | None = None) -> Task[Stat | None]:
    """Whether a node exists; the watch is set in any case. Raises Failed."""
    found = yield partial(session.exists, path, watch=watch)
    return None if found is KeeperError.NO_NODE else checked(path, found)


def children(session: Session, path: str, watch: Watch | None = None) -> Task[tuple[str, ...]]:
    """The names of a node's children; none if it does not exist, and then there is no watch. Raises Failed."""
    found = yield partial(session.children, path, watch=watch)
    return () if found is KeeperError.NO_NODE else checked(path, found).names


def multi(session: Session, operations: Sequence[Operation]) -> Task[Results | Refused]:
    """Do all operations, or none. Raises Failed."""
    results: Results | Refused = checked(operations[0].path, (yield partial(session.multi, operations)))
    return results


def delete(session: Session, path: str, version: int = -1) -> Task[bool]:
    """Delete a node; false if it is gone already, or has another version. Raises Failed."""
    found = yield partial(session.delete, path, version)
    if found in {KeeperError.NO_NODE, KeeperError.BAD_VERSION}:
        return False
    checked(path, found)
    return True


def remove(session: Session, path: str, version: int = -1) -> Task[bool]:
    """Delete a node with everything below it, as Kafka does; returns and raises as `delete`."""
    paths = [path]
    while True:
        try:
            is_deleted = yield from delete(session, paths[-1], version if len(paths) == 1 else -1)
        except Failed as error:
            if error.error is not KeeperError.NOT_EMPTY:
                raise
            top = paths[-1]
            paths += [f"{top}/{name}" for name in (yield from children(session, top))]
        else:
            paths.pop()
            if not paths:
                return is_deleted


def ensure(session: Session, path: str) -> Task[None]:
    """Create a persistent node without data, and its parents, unless they exist. Raises Failed."""
    names = path.split("/")[1:]
    for count in range(1, len(names) + 1):
        above = "/" + "/".join(names[:count])
        found = yield partial(session.create, Create(above))
        if found is not KeeperError.NODE_EXISTS:
            checked(above, found)


def checked(path: str, answer: T | KeeperError) -> T:
    """An answer that is no error. Raises Failed."""
    if isinstance(answer, KeeperError):
        raise (Lost if answer in CONNECTION_ENDED else Failed)(path, answer)
    return answer
