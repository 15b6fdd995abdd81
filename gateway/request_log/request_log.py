"""The request log: `headgate.request.log.slow.ms` and `headgate.request.log.one.of`, as Kafka's `kafka.request.logger`.

While the log is off, no request has a trace, and no route a step for it: `is_on` is asked when a setting changes. While
the log is on, every request is traced, as a request is known to be slow at its end alone.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headgate.gateway.config import BrokerConfig
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.scheduler import Scheduler

if TYPE_CHECKING:  # a broker whose log is off imports neither
    from headgate.gateway.request_log.request_trace import ConnectionTrace, RequestTrace, TracedClient

logger = logging.getLogger("headgate.request")

MAX_SLOW_LINES: Final = 200
SLOW_INTERVAL_MS: Final = 10_000
"""Slow requests have so many lines in this time; then their number. A broker whose disk hangs has many at once."""
OFF: Final = -1
SLOW, SAMPLED = "slow", "one of many"


class RequestLog:
    """The settings of the log, and the decision about each traced request."""

    def __init__(self, config: BrokerConfig, clock: Clock, scheduler: Scheduler) -> None:
        self.monotonic_ms = clock.monotonic_ms
        self.scheduler = scheduler
        self.slow_ms = OFF
        self.is_on = False
        self._one_of = 0
        self._count = 0
        self._config = config
        self._slow = LimitedLog(logger, clock, lines=MAX_SLOW_LINES, interval_ms=SLOW_INTERVAL_MS)
        self.follow()

    def follow(self) -> bool:
        """Take over the settings. Returns whether the log is on now and was off, or the reverse."""
        was_on = self.is_on
        self.slow_ms = self._config.headgate_request_log_slow_ms
        self._one_of = self._config.headgate_request_log_one_of
        self.is_on = self.slow_ms != OFF or self._one_of > 0
        return was_on != self.is_on

    def trace(self, client: TracedClient) -> ConnectionTrace | None:
        """The trace of a connection; None while the log is off."""
        if not self.is_on:
            return None
        from headgate.gateway.request_log.request_trace import ConnectionTrace

        return ConnectionTrace(self, client)

    def is_sampled(self) -> bool:
        """Whether the request that begins now is one of so many."""
        self._count += 1
        return self._one_of > 0 and self._count % self._one_of == 0

    def is_slow(self, took_ms: float) -> bool:
        """Whether a request that has taken so long, apart from what its client has asked for, is slow."""
        return OFF < self.slow_ms <= took_ms

    def log(self, request: RequestTrace) -> None:
        """Log a request that has ended, if it is slow or sampled."""
        is_slow = self.is_slow(request.total_ms - request.asked_ms)
        if not (is_slow or request.is_sampled) or not logger.isEnabledFor(logging.INFO):
            return
        from headgate.gateway.request_log import request_line

        fields = request_line.fields_of(request, SLOW if is_slow else SAMPLED)
        text = request_line.text_of(fields)
        if request.is_sampled:
            logger.info("%s", text, extra={"fields": fields})
        else:
            self._slow.log(logging.INFO, "slow requests", "%s", text, fields=fields)
