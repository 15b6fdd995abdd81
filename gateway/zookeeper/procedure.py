"""Procedures: generators that ask ZooKeeper one thing after another, without a thread and without nested callbacks.

    def read(session: Session) -> Procedure[NodeData]:
        [found] = yield [partial(session.get, "/controller")]
        ...
        return found

A procedure yields a list of asks, all of which are in flight together, and gets the list of their answers. The answers
include errors (`KeeperError`) as values. A lost connection is the exception: it raises `Interrupted` at the `yield`, as
the rest of the procedure has no session to talk to.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from headgate.gateway.zookeeper.session import Done, KeeperError

T = TypeVar("T")

Ask = Callable[[Done[Any]], None]
"""A request without its `done`."""
Procedure = Generator[Sequence[Ask], list[Any], T]

AT_ONCE: Final = 256
"""Enough requests for one `yield`: to ask each costs some microseconds of the loop."""
_LOST: Final = frozenset((KeeperError.NOT_CONNECTED, KeeperError.CONNECTION_LOSS, KeeperError.SESSION_EXPIRED))


class Interrupted(Exception):
    """The connection was lost. The last requests may have taken effect, or may still do so."""


def run(procedure: Procedure[T], done: Callable[[T | Exception], None]) -> None:
    """Run a procedure; `done` gets its result, or the exception that ended it. Begins at once, on the loop."""
    _Run(procedure, done).resume(procedure.__next__)


class _Run:
    """A procedure that runs, and the answers to what it asked last."""

    def __init__(self, procedure: Procedure[Any], done: Callable[[Any], None]) -> None:
        self._procedure = procedure
        self._done = done
        self._answers: list[Any] = []
        self._missing = 0

    def resume(self, go_on: Callable[[], Sequence[Ask]]) -> None:
        """Run up to the next `yield` that asks something. `go_on` resumes the procedure."""
        while True:
            try:
                asks = go_on()
            except StopIteration as end:
                self._done(end.value)
                return
            except Exception as error:  # noqa: BLE001  the caller decides what a failure means
                self._done(error)
                return
            if asks:
                self._ask(asks)
                return
            go_on = partial(self._procedure.send, [])

    def _ask(self, asks: Sequence[Ask]) -> None:
        self._answers = [None] * len(asks)
        self._missing = len(asks)
        for place, ask in enumerate(asks):
            ask(partial(self._answered, place))

    def _answered(self, place: int, answer: Any) -> None:
        self._answers[place] = answer
        self._missing -= 1
        if self._missing:
            return
        answers = self._answers
        lost = next((one for one in answers if isinstance(one, KeeperError) and one in _LOST), None)
        if lost is None:
            self.resume(partial(self._procedure.send, answers))
        else:
            self.resume(partial(self._procedure.throw, Interrupted(lost.name)))
