"""Log lines on stderr through the standard `logging`: their format, and limits on repeated lines."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from headgate.gateway.runtime.clock import Clock

SERVING_FAILED = "serving %s failed; only this connection is closed"
TEXT, JSON = "text", "json"
FORMAT_SETTING: Final = "headgate.log.format"


def configure(level: str = "info", stream: TextIO | None = None, form: str = TEXT) -> None:
    """Send all log lines to `stream` (default: stderr) with time, level and name. A second call replaces the first."""
    handler = logging.StreamHandler(stream)
    handler.addFilter(RepeatedErrorFilter())
    handler.setFormatter(_json_formatter() if form == JSON else _text_formatter())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def _text_formatter() -> logging.Formatter:
    return logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")


def _json_formatter() -> logging.Formatter:
    from headgate.gateway.runtime import json_log

    json_log.log_crashes()
    return json_log.JsonFormatter()


def print_failure(sentence: str) -> None:
    """Print the reason of a command's failure; where log lines are JSON, as one of these lines."""
    formatters = [handler.formatter for handler in logging.getLogger().handlers]
    if any(type(formatter).__name__ == "JsonFormatter" for formatter in formatters):
        logging.getLogger("headgate").error("%s", sentence)
    else:
        print(f"headgate: {sentence}", file=sys.stderr)  # noqa: T201 - as all commands do


class RepeatedErrorFilter(logging.Filter):
    """Limits repeated errors: at most `lines` from one place in `interval_s`, then the number of suppressed lines.

    An identical line is logged once in `same_s`. An error of ours has a traceback, and a client that can cause the
    error can cause it as often as it likes; a producer that a full disk refuses retries twice a second, for hours.
    """

    def __init__(self, lines: int = 20, interval_s: float = 10.0, places: int = 1000, *, same_s: float = 30.0) -> None:
        super().__init__()
        self._lines = lines
        self._interval_s = interval_s
        self._places = places
        self._same_s = same_s
        self._windows: dict[tuple[str, str], tuple[float, int]] = {}
        self._same: dict[tuple[str, str], tuple[float, int]] = {}  # when the line was logged; suppressions since

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.ERROR:
            return True
        error = repr(record.exc_info[1]) if record.exc_info else ""
        place, line = (record.name, str(record.msg)), (record.name, f"{record.msg} {record.args} {error}")
        logged_s, suppressed = self._same.get(line, (record.created, -1))
        if suppressed >= 0 and record.created - logged_s < self._same_s:
            self._same[line] = logged_s, suppressed + 1
            return False
        begun_s, count = self._windows.get(place, (record.created, 0))
        if record.created - begun_s >= self._interval_s:
            suppressed = max(suppressed, 0) + max(count - self._lines, 0)
            begun_s, count = record.created, 0
        self._remember(self._windows, place, (begun_s, count + 1))
        if count >= self._lines:
            return False
        self._remember(self._same, line, (record.created, 0))
        if suppressed > 0:
            record.msg = f"{record.msg} ({suppressed} more of such lines were left out)"
        return True

    def _remember(
        self, known: dict[tuple[str, str], tuple[float, int]], key: tuple[str, str], value: tuple[float, int]
    ) -> None:
        if len(known) >= self._places:  # a message that contains values makes a new place each time
            known.clear()
        known[key] = value


class LimitedLog:
    """Limits log lines that a peer causes: at most `lines` of a kind in `interval_ms`, then the number suppressed.

    A kind is any short text. Only a count is kept for each kind, and at most `kinds` kinds, so that memory is bounded.
    """

    def __init__(
        self, logger: logging.Logger, clock: Clock, *, lines: int = 5, interval_ms: float = 10_000, kinds: int = 1000
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._lines = lines
        self._interval_ms = interval_ms
        self._kinds = kinds
        self._windows: dict[str, tuple[float, int]] = {}

    def warning(self, kind: str, message: str, *arguments: object) -> None:
        """Log a warning of this kind, unless there were too many recently."""
        self.log(logging.WARNING, kind, message, *arguments)

    def error(self, kind: str, message: str, *arguments: object, exc_info: BaseException | None = None) -> None:
        """Log an error of this kind, unless there were too many recently."""
        self.log(logging.ERROR, kind, message, *arguments, exc_info=exc_info)

    def log(
        self,
        level: int,
        kind: str,
        message: str,
        *arguments: object,
        exc_info: BaseException | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """Log a line of this kind, unless there were too many recently. `fields`: those of a line in JSON."""
        now_ms = self._clock.monotonic_ms()
        begun_ms, count = self._windows.get(kind, (now_ms, 0))
        if now_ms - begun_ms >= self._interval_ms:
            self._report_suppressed(kind, count)
            begun_ms, count = now_ms, 0
        self._remember(kind, begun_ms, count + 1)
        if count < self._lines:
            extra = None if fields is None else {"fields": fields}
            self._logger.log(level, message, *arguments, exc_info=exc_info, extra=extra)

    def report_suppressed(self) -> None:
        """Log the number of suppressed lines of each kind whose interval has ended. Called regularly."""
        now_ms = self._clock.monotonic_ms()
        ended = [kind for kind, (begun_ms, _) in self._windows.items() if now_ms - begun_ms >= self._interval_ms]
        for kind in ended:
            self._report_suppressed(kind, self._windows.pop(kind)[1])

    def _report_suppressed(self, kind: str, count: int) -> None:
        if count > self._lines:
            self._logger.warning("%s: %d more of such lines were left out", kind, count - self._lines)

    def _remember(self, kind: str, begun_ms: float, count: int) -> None:
        if kind not in self._windows and len(self._windows) >= self._kinds:
            oldest = next(iter(self._windows))
            self._report_suppressed(oldest, self._windows.pop(oldest)[1])
        self._windows[kind] = (begun_ms, count)
