"""Log lines as JSON, one object a line, for collectors of logs: `headgate.log.format=json`.

    {"time": "2026-11-28T09:29:01.123Z", "level": "INFO", "logger": "headgate.broker", "message": "stopping: SIGTERM"}

A line may have further fields, those of its `fields`; `exception` is a traceback as one string.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType

_CRASH = logging.getLogger("headgate")


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON. Other characters than ASCII are escaped, so that no text ends the line."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": time.removesuffix("+00:00") + "Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(line, default=str)


def log_crashes() -> None:
    """Log unhandled errors, and Python's warnings, where Python would print lines of its own."""
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_crash
    threading.excepthook = _log_crash_of_thread


def _log_crash(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    _CRASH.critical("the process ends by an error that was not expected", exc_info=(kind, error, traceback))


def _log_crash_of_thread(crash: threading.ExceptHookArgs) -> None:
    if crash.exc_value is not None and not isinstance(crash.exc_value, SystemExit):
        name = "a thread" if crash.thread is None else crash.thread.name
        crashed = (crash.exc_type, crash.exc_value, crash.exc_traceback)
        _CRASH.critical("the thread %s ended by an error that was not expected", name, exc_info=crashed)
