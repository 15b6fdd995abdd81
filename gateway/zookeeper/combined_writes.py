"""Writes of many parts as few multis: while two are under way, all that waits becomes the next one.

A request costs kazoo and ZooKeeper about the same with one write as with fifty, and each reaches ZooKeeper's disk by
itself. Each write stands for itself all the same: where one is refused, the others of its multi are sent again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from headgate.gateway.zookeeper.session import (
    OVERHEAD_BYTES,
    Create,
    KeeperError,
    Operation,
    Refused,
    Results,
    Resume,
    Session,
    SetData,
)

logger = logging.getLogger("headgate.zookeeper")

AT_A_TIME: Final = 2
MOST_OPERATIONS: Final = 128
MOST_BYTES: Final = 256 * 1024
_REFUSALS: Final = frozenset(
    (
        KeeperError.NO_NODE,
        KeeperError.NODE_EXISTS,
        KeeperError.BAD_VERSION,
        KeeperError.NOT_EMPTY,
        KeeperError.NO_CHILDREN_FOR_EPHEMERALS,
        KeeperError.NO_AUTH,
    )
)

Write = tuple[Sequence[Operation], Resume[Results | Refused]]


class CombinedWrites:
    """The writes that wait, and those under way."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: deque[Write] = deque()
        self._under_way = 0

    def write(self, operations: Sequence[Operation], resume: Resume[Results | Refused]) -> None:
        """As `Session.multi`: all of these operations or nothing. Any number of writes may wait."""
        self._waiting.append((operations, resume))
        self._send()

    def _send(self) -> None:
        while self._waiting and self._under_way < AT_A_TIME:
            writes = self._take()
            self._under_way += 1
            if len(writes) == len(writes[0][0]) == 1:
                self._send_one(writes[0][0][0], partial(self._answered, writes))
            else:
                self._session.multi([one for operations, _ in writes for one in operations],
                                    partial(self._answered, writes))  # fmt: skip

    def _take(self) -> list[Write]:
        """The writes of the next multi; a large one is alone."""
        writes = [self._waiting.popleft()]
        count, size = len(writes[0][0]), _bytes(writes[0][0])
        while self._waiting:
            operations = self._waiting[0][0]
            count, size = count + len(operations), size + _bytes(operations)
            if count > MOST_OPERATIONS or size > MOST_BYTES:
                break
            writes.append(self._waiting.popleft())
        return writes

    def _send_one(self, operation: Operation, resume: Resume[Results | Refused]) -> None:
        """One operation costs half of a multi."""

        def answered(answer: Any) -> None:
            if isinstance(answer, KeeperError):
                resume(Refused(0, answer) if answer in _REFUSALS else answer)
            else:
                resume((answer,))

        match operation:
            case Create():
                self._session.create(operation, answered)
            case SetData(path, data, version):
                self._session.set(path, data, version, answered)
            case _:
                self._session.delete(operation.path, operation.version, answered)

    def _answered(self, writes: list[Write], answer: Results | Refused | KeeperError) -> None:
        self._under_way -= 1
        try:
            if isinstance(answer, Refused):
                self._refused(writes, answer)
            else:
                first = 0
                for operations, resume in writes:
                    end = first + len(operations)
                    _tell(resume, answer if isinstance(answer, KeeperError) else answer[first:end])
                    first = end
        finally:
            self._send()

    def _refused(self, writes: list[Write], refused: Refused) -> None:
        """Send the others again, before all that came later."""
        first = 0
        for number, (operations, resume) in enumerate(writes):
            if refused.place < first + len(operations):
                others = writes[:number] + writes[number + 1 :]
                self._waiting.extendleft(reversed(others))
                _tell(resume, Refused(refused.place - first, refused.error))
                return
            first += len(operations)


def _tell(resume: Resume[Results | Refused], answer: Results | Refused | KeeperError) -> None:
    """A fault of one write must not keep the answers of others."""
    try:
        resume(answer)
    except Exception:
        logger.exception("what follows a write to ZooKeeper failed")


def _bytes(operations: Sequence[Operation]) -> int:
    """About the size: data are short, so paths count for most."""
    return sum(OVERHEAD_BYTES + 4 * len(operation.path) for operation in operations)
