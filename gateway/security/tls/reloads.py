"""Reloads: the TLS of all listeners follows its files and its settings, and no connection is lost.

A check of the files every few seconds, a change of the broker's settings and SIGHUP begin the same work: a thread reads
what has changed, one listener after the other. New connections have the new stores. Stores that cannot be used are
logged in one sentence, and the old ones stay; the next attempt follows when a file or a setting has changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from headgate.gateway.config import BrokerConfig
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.runtime.tasks import SingleTask, Task, at_most
from headgate.gateway.security.tls.listener_tls import ListenerTls
from headgate.gateway.security.tls.settings import of_listener
from headgate.protocol.security.tls.settings import TlsProblem, TlsSettings

if TYPE_CHECKING:
    from headgate.gateway.runtime.scheduler import Scheduler

logger = logging.getLogger("headgate.tls")

CHECK_INTERVAL_MS = 5_000.0
"""A check costs a `stat` of each store."""


class _Reason(Enum):
    """Why the stores are looked at."""

    CHANGE = auto()
    """A setting may have changed."""
    REQUEST = auto()
    """A person asks for it: everything is read."""


class TlsReloads:
    """The reloads of one broker. Its methods are called on the loop."""

    def __init__(self, tls: Mapping[str, ListenerTls], config: BrokerConfig, scheduler: Scheduler) -> None:
        """`tls`: by the name of the listener. Nothing happens before the scheduler runs."""
        self._tls = tls
        self._config = config
        self._scheduler = scheduler
        self._tried = {name: one.settings for name, one in tls.items()}
        self._work = SingleTask()
        self._wake: Callable[[], None] = _nothing
        self._asked: list[_Reason] = []
        self._when_done: list[Callable[[], None]] = []
        self._dynamic = config.dynamic()
        self._is_started = False

    def start(self) -> None:
        """Check the files from now on. The scheduler runs.

        Settings from an earlier run count before the first client connects: the constructor of `ListenerTls` had those
        of the file.
        """
        self._reload_each({name: of_listener(self._config, name) for name in self._tls}, is_forced=False)
        self._is_started = True
        self._refresh(_Reason.CHANGE)

    def follow(self, *_change: object) -> None:
        """Take over the settings, if some of this broker have changed: a listener of the metadata."""
        before, self._dynamic = self._dynamic, self._config.dynamic()
        if self._is_started and self._dynamic is not before:
            self._refresh(_Reason.CHANGE)

    def reload_all(self, resume: Callable[[], None] | None = None) -> None:
        """Read all stores again, whether they have changed or not; then call `resume`."""
        if self._is_started:
            self._when_done.append(resume or _nothing)
            self._refresh(_Reason.REQUEST)
        elif resume is not None:
            resume()

    def _refresh(self, reason: _Reason) -> None:
        """Reload what has changed, now or once the work in progress has ended."""
        self._asked.append(reason)
        self._wake()
        self._work.start(self._run)

    def _run(self) -> Task[None]:
        while not self._scheduler.is_over:
            asked, self._asked = self._asked, []
            when_done, self._when_done = self._when_done, []
            wanted = {name: of_listener(self._config, name) for name in self._tls}
            try:
                yield partial(self._scheduler.in_thread, partial(self._reload_each, wanted, _Reason.REQUEST in asked))
            finally:
                for resume in when_done:
                    resume()
            if not self._asked:
                yield at_most(self._scheduler, CHECK_INTERVAL_MS, self._until_asked)

    def _until_asked(self, resume: Callable[[None], None]) -> None:
        self._wake = partial(resume, None)

    def _reload_each(self, wanted: Mapping[str, TlsSettings], is_forced: bool) -> None:
        for name, settings in wanted.items():
            tls = self._tls[name]
            if is_forced or settings != self._tried[name] or tls.is_reload_due():
                self._tried[name] = settings
                _reload_one(name, tls, settings)

    def check(self, config: BrokerConfig, changed: Mapping[str, object]) -> Callable[[], str | None] | None:
        """Work for a thread that tries settings before they are stored; None if they change nothing of TLS.

        `config` has the settings, `changed` the names that change. The result of the work is the problem, if any.
        """
        settings = {name: of_listener(config, name) for name in self._tls}
        concerned = {
            name: one
            for name, one in settings.items()
            if one != self._tls[name].settings or any(text.startswith(f"{one.prefix}ssl.") for text in changed)
        }
        return partial(self._problem, concerned) if concerned else None

    def _problem(self, settings: Mapping[str, TlsSettings]) -> str | None:
        try:
            for name, one in settings.items():
                self._tls[name].check(one)
        except TlsProblem as error:
            return str(error)
        return None

    def measure(self, metrics: Metrics) -> None:
        """Register the days to expiry of each listener's certificate."""
        metrics.labelled(
            "tls.certificate.expiry.days",
            ("listener",),
            lambda: [((name,), round(one.days_to_expiry(), 3)) for name, one in self._tls.items()],
        )


def _nothing() -> None:
    """There is no wait to end, or no caller waits for the end."""


def _reload_one(name: str, tls: ListenerTls, settings: TlsSettings) -> None:
    try:
        tls.reload(settings)
    except TlsProblem as error:
        logger.error("%s; the stores from before stay in use", error)
    else:
        logger.info(
            "listener %s: new stores are in use; the certificate expires in %.1f days", name, tls.days_to_expiry()
        )
