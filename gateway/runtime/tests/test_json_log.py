"""Log lines as JSON: their fields, tracebacks in one line, and errors that nobody handles."""

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.gateway.runtime import log_output
from headgate.gateway.runtime.json_log import JsonFormatter


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the log has, as JSON; all that `configure` changes is restored."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = list(root.handlers), root.level
    for owner, name in ((sys, "excepthook"), (threading, "excepthook")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    root.handlers.clear()
    log_output.configure("info", stream, log_output.JSON)
    yield stream
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().split("\n")[:-1]]


def record(message: str, *arguments: object, **attributes: object) -> logging.LogRecord:
    made = logging.LogRecord("headgate.server", logging.WARNING, "server.py", 1, message, arguments, None)
    made.__dict__.update(created=1795858148.0009, **attributes)
    return made


def test_a_line_has_time_level_logger_and_message() -> None:
    line = JsonFormatter().format(record("refused %s", "a\nb\u2028c \udcff"))
    assert json.loads(line) == {
        "time": "2026-11-28T09:29:08.000Z",
        "level": "WARNING",
        "logger": "headgate.server",
        "message": "refused a\nb\u2028c \udcff",
    }
    assert line.isascii(), "no text of a client ends a line for any reader"
    assert "\n" not in line


def test_fields_follow_the_message(log: io.StringIO) -> None:
    logging.getLogger("headgate.request").info("slow", extra={"fields": {"api": "Fetch", "topics": ["a"]}})
    [line] = lines(log)
    assert list(line)[4:] == ["api", "topics"]
    assert (line["api"], line["topics"]) == ("Fetch", ["a"])


def test_a_traceback_is_one_string(log: io.StringIO) -> None:
    try:
        int("no such thing")
    except ValueError:
        logging.getLogger("headgate.broker").exception("it failed")
    [line] = lines(log)
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert line["exception"].endswith("ValueError: invalid literal for int() with base 10: 'no such thing'")


def test_errors_that_nobody_handles_are_lines_too(log: io.StringIO) -> None:
    error = RuntimeError("lost")
    sys.excepthook(RuntimeError, error, None)
    threading.excepthook(threading.ExceptHookArgs((RuntimeError, error, None, threading.current_thread())))
    assert [(line["level"], line["exception"]) for line in lines(log)] == [("CRITICAL", "RuntimeError: lost")] * 2


def test_a_failed_command_is_a_line(log: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    log_output.print_failure("cannot listen on 127.0.0.1:9092")
    assert [(line["logger"], line["message"]) for line in lines(log)] == [
        ("headgate", "cannot listen on 127.0.0.1:9092")
    ]
    assert capsys.readouterr().err == ""
