"""Requests to ZooKeeper in sequence, written as generators: what comes next depends on the answer.

    def steps() -> Steps[int]:
        found = yield from get(session, "/a")           # NodeData, or None without the node
        ...
        return 5

    run(steps(), done)                                  # `done` gets 5, or the exception that ended the steps

A generator yields an `Ask`, a function that takes `done`, and is continued with the answer; an answer that is an
exception is raised there. `gather` runs many generators side by side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from headgate.gateway.zookeeper.session import (
    READ_AT_ONCE,
    Create,
    Done,
    KeeperError,
    NodeData,
    Operation,
    Refused,
    Results,
    Session,
    Stat,
    Watch,
)
from headgate.protocol.errors import without_frames

T = TypeVar("T")

Ask = Callable[[Callable[[Any], None]], None]
Steps = Generator[Ask, Any, T]

AT_ONCE: Final = 32
_CONNECTION_ENDED: Final = {KeeperError.NOT_CONNECTED, KeeperError.CONNECTION_LOSS, KeeperError.SESSION_EXPIRED}


_FINAL: Final = {
    KeeperError.NO_AUTH,
    KeeperError.BAD_ARGUMENTS,
    KeeperError.TOO_LARGE,
    KeeperError.NOT_EMPTY,
    KeeperError.NO_CHILDREN_FOR_EPHEMERALS,
}


class Failed(Exception):
    """A request failed with an error that the steps have no answer to."""

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


def run(steps: Steps[T], done: Callable[[T | Exception], None]) -> None:
    """Run steps to their end. `done` gets the returned value, or the raised exception."""
    _Run(steps, done).advance(None)


class _Run(Generic[T]):
    """One run. An answer that comes before its `Ask` has returned waits for the loop: so the stack stays flat."""

    __slots__ = ("_answers", "_done", "_is_asking", "_steps")

    def __init__(self, steps: Steps[T], done: Callable[[T | Exception], None]) -> None:
        self._steps = steps
        self._done = done
        self._answers: list[Any] = []
        self._is_asking = False

    def advance(self, answer: Any) -> None:
        """Go on with an answer."""
        self._answers.append(answer)
        while self._answers and not self._is_asking:
            answer = self._answers.pop()
            try:
                ask = self._steps.throw(answer) if isinstance(answer, Exception) else self._steps.send(answer)
            except StopIteration as end:
                self._done(end.value)
            except Exception as error:  # noqa: BLE001  the caller decides what a failure means
                self._done(without_frames(error))
            else:
                self._ask(ask)

    def _ask(self, ask: Ask) -> None:
        self._is_asking = True
        try:
            ask(self.advance)
        except Exception as error:  # noqa: BLE001  the steps decide what a failure means
            self._answers.append(error)
        finally:
            self._is_asking = False


def gather(many: Iterable[Steps[T]], at_once: int = AT_ONCE) -> Steps[list[T]]:
    """Run steps side by side, `at_once` at most; their results in order.

    After an exception no more of them begin; it is raised once the others have ended.
    """
    results: list[T] = yield _Gathering(many, at_once).begin
    return results


class _Gathering:
    def __init__(self, many: Iterable[Steps[Any]], at_once: int) -> None:
        self._waiting = deque(enumerate(many))
        self._results: list[Any] = [None] * len(self._waiting)
        self._running = 0
        self._is_beginning = False
        self._at_once = at_once
        self._error: Exception | None = None

    def begin(self, done: Callable[[Any], None]) -> None:
        self._done = done
        self._begin_more()

    def _begin_more(self) -> None:
        """Begin as many as may run. Steps that end at once come back here: the loop below goes on then."""
        if self._is_beginning:
            return
        self._is_beginning = True
        while self._waiting and self._running < self._at_once:
            place, steps = self._waiting.popleft()
            self._running += 1
            run(steps, partial(self._ended, place))
        self._is_beginning = False
        if not self._running:
            self._done(self._error or self._results)

    def _ended(self, place: int, result: Any) -> None:
        self._running -= 1
        self._results[place] = result
        if isinstance(result, Exception):
            self._error = self._error or result
            self._waiting.clear()
        self._begin_more()


def get(session: Session, path: str, watch: Watch | None = None) -> Steps[NodeData | None]:
    """A node; None if it does not exist, and then there is no watch. Raises Failed."""
    found = yield partial(session.get, path, watch=watch)
    return None if found is KeeperError.NO_NODE else checked(path, found)


def get_many(session: Session, paths: Sequence[str]) -> Steps[list[NodeData | None]]:
    """Many nodes without watches, in order; None for one that does not exist. Raises Failed."""
    pieces = [paths[first : first + READ_AT_ONCE] for first in range(0, len(paths), READ_AT_ONCE)]
    answers = yield from gather([_get_piece(session, piece) for piece in pieces])
    return [one for answer in answers for one in answer]


def _get_piece(session: Session, paths: Sequence[str]) -> Steps[list[NodeData | None]]:
    found = checked(paths[0], (yield partial(session.get_many, paths)))
    pairs = zip(paths, found, strict=True)
    return [None if one is KeeperError.NO_NODE else checked(path, one) for path, one in pairs]


def exists(session: Session, path: str, watch: Watch | None = None) -> Steps[Stat | None]:
    """Whether a node exists; the watch is set in any case. Raises Failed."""
    found = yield partial(session.exists, path, watch=watch)
    return None if found is KeeperError.NO_NODE else checked(path, found)


def children(session: Session, path: str, watch: Watch | None = None) -> Steps[tuple[str, ...]]:
    """The names of a node's children; none if it does not exist, and then there is no watch. Raises Failed."""
    found = yield partial(session.children, path, watch=watch)
    return () if found is KeeperError.NO_NODE else checked(path, found).names


def multi(session: Session, operations: Sequence[Operation]) -> Steps[Results | Refused]:
    """Do all operations, or none. Raises Failed."""

    def ask(done: Done[Results | Refused]) -> None:
        session.multi(operations, done)

    results: Results | Refused = checked(operations[0].path, (yield ask))
    return results


def delete(session: Session, path: str, version: int = -1) -> Steps[bool]:
    """Delete a node; false if it is gone already, or has another version. Raises Failed."""
    found = yield partial(session.delete, path, version)
    if found in {KeeperError.NO_NODE, KeeperError.BAD_VERSION}:
        return False
    checked(path, found)
    return True


def remove(session: Session, path: str, version: int = -1) -> Steps[bool]:
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


def ensure(session: Session, path: str) -> Steps[None]:
    """Create a persistent node without data, and its parents, unless they exist. Raises Failed."""
    names = path.split("/")[1:]
    for count in range(1, len(names) + 1):
        above = "/" + "/".join(names[:count])
        found = yield partial(session.create, Create(above))
        if found is not KeeperError.NODE_EXISTS:
            checked(above, found)


def checked(path: str, answer: Any) -> Any:
    """An answer that is no error. Raises Failed."""
    if isinstance(answer, KeeperError):
        raise (Lost if answer in _CONNECTION_ENDED else Failed)(path, answer)
    return answer
