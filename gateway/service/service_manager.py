"""The service manager of the broker, and its notifications: sd_notify(3), sd_watchdog_enabled(3).

    STATUS=starting                                        before anything is opened
    EXTEND_TIMEOUT_USEC=...                                while a start or a stop goes on, and the loop turns
    READY=1                                                the listeners are open, and clients find the broker
    STATUS=opening logs: 693 of 1500 partitions, 3 s left  then `serving ...`
    WATCHDOG=1                                             by a timer of the loop: a loop that stands still sends none
    RELOADING=1, READY=1                                   around a reload of TLS stores
    STOPPING=1                                             the first SIGTERM or SIGINT

With `WatchdogSec` in its unit, the service manager kills and restarts a broker whose loop stands still.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Final

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.service.notify_socket import NotifySocket

if TYPE_CHECKING:
    from headgate.gateway.runtime.scheduler import Scheduler

STATUS_INTERVAL_MS: Final = 1_000.0
"""How often a status is looked at while it changes; a steady one costs as few timers as the watchdog needs."""
STEADY_INTERVAL_MS: Final = 10_000.0
BEATS: Final = 3
"""A loop that turns answers the watchdog so many times within its limit."""
EXTENSION_MS: Final = 30_000
"""A start or a stop has so long until the loop turns again."""
LONG_STEP_MS: Final = 60_000
"""The start has so long before the loop turns at all, in addition to the limits of its waits."""
CLOSE_MS: Final = 600_000
"""The logs have so long to be flushed and closed, after the end of the loop."""

DescribeState = Callable[[], tuple[str, bool]]
"""() -> a line about the state of the broker, and whether it may change within seconds."""


class ServiceManager:
    """The service manager of one broker, from its start to its stop."""

    def __init__(self, notify: NotifySocket, watchdog_ms: float | None, clock: Clock) -> None:
        """`watchdog_ms`: the limit of the watchdog; None without one."""
        self._notify = notify
        self.watchdog_ms = watchdog_ms
        self._clock = clock
        self._scheduler: Scheduler | None = None
        self._describe: DescribeState = lambda: ("", False)
        self._status = ""
        self._is_extending = True
        self._is_stopping = False
        self._unsent: list[str] = []

    @classmethod
    def take(cls, environment: MutableMapping[str, str], process_id: int, clock: Clock) -> ServiceManager | None:
        """The service manager that the environment names; its variables go. None without one. Raises OSError."""
        notify = NotifySocket.take(environment)
        limit, meant_for = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", str(process_id))
        if notify is None:
            return None
        has_watchdog = limit.isascii() and limit.isdecimal() and int(limit) > 0 and meant_for == str(process_id)
        return cls(notify, int(limit) / 1000 if has_watchdog else None, clock)

    def starting(self, wait_ms: float) -> None:
        """The process begins its start, in which it may wait for `wait_ms`, and does nothing else meanwhile."""
        self._send(f"EXTEND_TIMEOUT_USEC={round(wait_ms + LONG_STEP_MS) * 1000}", self._changed_status("starting"))

    def follow(self, scheduler: Scheduler, describe: DescribeState) -> None:
        """Send notifications of the broker's state, by timers of its loop."""
        self._scheduler, self._describe = scheduler, describe
        self._beat()

    def ready(self) -> None:
        """The broker serves clients."""
        if not self._is_stopping:
            self._is_extending = False
            self._send_surely("READY=1")

    def reloading(self) -> None:
        """The broker reads its stores again; `ready` ends that."""
        self._send_surely(f"RELOADING=1\nMONOTONIC_USEC={round(self._clock.monotonic_ms() * 1000)}")

    def stopping(self, reason: str) -> None:
        """The broker stops."""
        self._is_extending = self._is_stopping = True
        self._describe = lambda: (f"stopping: {reason}", True)
        self._send_surely("STOPPING=1")

    def closing(self) -> None:
        """The loop ends, and the logs are flushed and closed."""
        lines = [f"EXTEND_TIMEOUT_USEC={CLOSE_MS * 1000}", self._changed_status("closing the logs")]
        self._send(*lines, *([] if self.watchdog_ms is None else ["WATCHDOG=1", f"WATCHDOG_USEC={CLOSE_MS * 1000}"]))

    def close(self) -> None:
        """Send nothing more."""
        self._notify.close()

    def _beat(self) -> None:
        assert self._scheduler is not None, "`follow` sets it"
        is_changing = self._send_due()
        delay_ms = STATUS_INTERVAL_MS if is_changing or self._unsent else STEADY_INTERVAL_MS
        if self.watchdog_ms is not None:
            delay_ms = min(delay_ms, self.watchdog_ms / BEATS)
        self._scheduler.call_after(delay_ms, self._beat)

    def _send_due(self) -> bool:
        """Send what is due. True if there may be more within seconds."""
        text, is_changing = self._describe()
        lines, self._unsent = self._unsent, []
        if lines and not self._notify.send(*lines):
            self._unsent = lines
        due = [] if self.watchdog_ms is None else ["WATCHDOG=1"]
        if self._is_extending:
            due.append(f"EXTEND_TIMEOUT_USEC={EXTENSION_MS * 1000}")
        if text and text != self._status:
            due.append(self._changed_status(text))
        if due:
            self._send(*due)
        return is_changing or self._is_extending

    def _changed_status(self, text: str) -> str:
        self._status = text
        return f"STATUS={text}".replace("\n", " ")

    def _send(self, *lines: str) -> None:
        if not self._notify.send(*lines):
            self._status = ""  # a later beat sends it again

    def _send_surely(self, lines: str) -> None:
        """Send now, in the order of the calls; or else with a later beat."""
        text = self._describe()[0]
        if text:
            lines = f"{lines}\n{self._changed_status(text)}"
        if self._unsent or not self._notify.send(lines):
            self._unsent.append(lines)
