"""A request that waits for ZooKeeper and the log, and the errors after which clients ask again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from headgate.gateway.runtime.purgatory import Waiting, WaitList
from headgate.gateway.zookeeper.session import KeeperError
from headgate.protocol.errors import ErrorCode, KafkaError


class Parking(Protocol):
    """What is used of a `Purgatory`."""

    def park(self, waiting: Waiting, done: Callable[[Any], None]) -> None: ...

    def touch(self, wait_list: WaitList) -> None: ...


class Request:
    """A request that waits for ZooKeeper and the log."""

    __slots__ = ("_purgatory", "_wait_list", "_waiting", "is_ended", "reply")

    def __init__(self, purgatory: Parking) -> None:
        self.reply: Any = None
        self.is_ended = False
        self._purgatory = purgatory
        self._wait_list = WaitList()
        self._waiting: Waiting | None = None

    @property
    def is_over(self) -> bool:
        """Whether nobody awaits the reply any more."""
        waiting = self._waiting
        return self.is_ended or (waiting is not None and waiting.is_gone)

    def answer(self, reply: Any) -> None:
        """The reply: a response or a KafkaError."""
        if not self.is_ended:
            self.is_ended, self.reply = True, reply
            self._purgatory.touch(self._wait_list)

    def park(self, deadline_ms: float) -> Waiting:
        """Wait for the reply; at the deadline the client is told to ask again."""
        self._waiting = Waiting((self._wait_list,), deadline_ms, lambda _: self._result(), self._expire)
        if self.is_ended:
            self._waiting.is_complete = True
        return self._waiting

    def _result(self) -> Any:
        if isinstance(self.reply, KafkaError):
            raise self.reply
        return self.reply

    def _expire(self) -> Any:
        if not self.is_ended:
            self.is_ended, self.reply = True, ask_again("ZooKeeper has not answered in time")
        return self._result()


def ask_again(message: str) -> KafkaError:
    """The error after which clients of every age send the request again, without a look for the coordinator."""
    return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message)


def leaving() -> KafkaError:
    """The error of a request that waited while the group left one of the stores."""
    return ask_again("the offsets of the group go to another store now")


def refusal(error: KeeperError) -> KafkaError:
    """The client's error for one of ZooKeeper."""
    return ask_again(f"ZooKeeper: {error.name}")
