"""Sessions with the model of ZooKeeper where a broker opens sessions, and a whole broker's seam to it."""

from __future__ import annotations

from collections.abc import Callable

from headgate.gateway.config import BrokerConfig
from headgate.gateway.runtime.clock import Clock, SystemClock
from headgate.gateway.runtime.tests.fake_scheduler import ManualClock
from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection
from headgate.gateway.zookeeper.membership.pump import Arrived, Pump
from headgate.gateway.zookeeper.session import SessionEvent
from headgate.gateway.zookeeper.shared_session import OpenSession, SessionScheduling
from headgate.gateway.zookeeper.tests.model import ModelSession, ZooKeeperModel


def opener(keeper: ZooKeeperModel) -> OpenSession:
    """Opens sessions with the model; whoever has opened the last one lets things arrive."""

    def step() -> None:
        keeper.step()

    def open_session(
        connect: str, _timeout_ms: int, scheduling: SessionScheduling, on_event: Callable[[SessionEvent], None]
    ) -> ModelSession:
        keeper.on_way = lambda: scheduling.call_soon(step)
        _, slash, chroot = connect.partition("/")
        return keeper.session(on_event, slash + chroot)

    return open_session


def connector(keeper: ZooKeeperModel) -> Callable[[BrokerConfig, Clock], ZooKeeperConnection | None]:
    """`Seams.connect` with the model. Nothing of the model waits for a clock: only a failure would."""

    def connect(config: BrokerConfig, _clock: Clock) -> ZooKeeperConnection | None:
        if config.zookeeper_connect is None:
            return None
        return ZooKeeperConnection(config, SystemClock(), opener(keeper))

    return connect


class MovingPump(Pump):
    """A pump whose clock moves where it would wait; `while_waiting` are called then, once each, in their order."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, self._move)
        self.clock = clock
        self.while_waiting: list[Callable[[], None]] = []

    def _move(self, arrived: Arrived, seconds: float) -> Callable[[], None] | None:
        if not arrived.empty():
            return arrived.get()
        if self.while_waiting:
            self.while_waiting.pop(0)()
        self.clock.elapsed_ms += max(seconds * 1000, 1)
        return None
