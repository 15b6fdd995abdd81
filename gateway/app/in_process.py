"""A broker in a thread of this process, with a clock that a test moves: `Headgate(in_process=True)`.

Sockets are real, so any client may connect. Time passes as usual, and `advance` adds any amount at once: session
timeouts, retention and expirations come without a wait.
"""

from __future__ import annotations

import contextlib
import io
import logging
import threading
from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue

import trio
import trio.testing

from headgate.gateway.app.broker import Broker
from headgate.gateway.app.child_process import HeadgateError
from headgate.gateway.app.composition import Seams
from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.network.addresses import Addresses
from headgate.gateway.runtime.clock import SystemClock
from headgate.gateway.runtime.scheduler import TrioClock

_DISCARD_DEADLINE_S = 5.0


class MovableClock(trio.abc.Clock):
    """Real time plus an offset."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._offset_s = 0.0

    def start_clock(self) -> None:
        """No preparation is needed."""

    def current_time(self) -> float:
        return self._system.monotonic_ms() / 1000.0 + self._offset_s

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return deadline - self.current_time()

    def advance(self, seconds: float) -> None:
        """Add time to the clock. Call this on the loop's thread, which then checks its deadlines again."""
        self._offset_s += seconds


class InProcess:
    """Runs a broker on a trio loop of its own, in a thread."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.http_endpoints: Sequence[str] = ()
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._clock = MovableClock()
        self._stopping = trio.Event()
        self._failure: BaseException | None = None
        self._log = io.StringIO()

    def start(self, overrides: Mapping[str, str], deadline_s: float) -> Sequence[str]:
        try:
            config = BrokerConfig.load("", overrides)
        except ConfigError as error:
            raise HeadgateError(f"the configuration of the broker is wrong:\n{error}") from None
        ready: SimpleQueue[Sequence[str]] = SimpleQueue()
        self._failure = None
        self._thread = threading.Thread(target=self._run, args=(config, ready), name="headgate", daemon=True)
        self._thread.start()
        try:
            endpoints = ready.get(timeout=deadline_s)
        except Empty:
            raise HeadgateError(f"the broker's thread was not listening within {deadline_s:g} s") from None
        if self._failure is not None:
            self._join(deadline_s)
            raise HeadgateError(f"the broker did not start: {self._failure!r}") from self._failure
        return endpoints

    def _run(self, config: BrokerConfig, ready: SimpleQueue[Sequence[str]]) -> None:
        handler = logging.StreamHandler(self._log)
        logger = logging.getLogger("headgate")
        logger.addHandler(handler)
        try:
            trio.run(self._serve, config, ready, clock=self._clock)
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it again
            self._failure = error
        finally:
            logger.removeHandler(handler)
            self._token = None
            ready.put(())

    async def _serve(self, config: BrokerConfig, ready: SimpleQueue[Sequence[str]]) -> None:
        broker = Broker(config, Seams(clock=TrioClock(SystemClock().now_ms())), Addresses.of(config))
        self._stopping = trio.Event()
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            self._token = trio.lowlevel.current_trio_token()
            self.http_endpoints = list(broker.state.http_endpoints)
            ready.put(list(broker.endpoints))
            await self._stopping.wait()
            await broker.stop()

    def stop(self, deadline_s: float) -> None:
        if self._token is not None:
            self._token.run_sync_soon(self._stopping.set)
        self._join(deadline_s)
        if self._failure is not None:
            raise HeadgateError(f"the broker failed: {self._failure!r}") from self._failure

    def _join(self, deadline_s: float) -> None:
        thread = self._thread
        if thread is None:
            return
        thread.join(deadline_s)
        if thread.is_alive():
            raise HeadgateError(f"the broker's thread did not end within {deadline_s:g} s")
        self._thread = None

    def kill(self) -> None:
        raise HeadgateError("a broker in this process cannot be killed alone; use Headgate() for that")

    def discard(self) -> None:
        with contextlib.suppress(HeadgateError):
            self.stop(_DISCARD_DEADLINE_S)

    def is_running(self) -> bool:
        return self._token is not None

    def log(self) -> str:
        return self._log.getvalue()

    def advance(self, milliseconds: float) -> None:
        """Advance the clock. Returns when every task has done all due work and waits again. Raises HeadgateError."""
        if self._token is None:
            raise HeadgateError("the broker does not run; start it before you advance its clock")

        async def advance() -> None:
            self._clock.advance(milliseconds / 1000.0)
            await trio.testing.wait_all_tasks_blocked()

        trio.from_thread.run(advance, trio_token=self._token)
