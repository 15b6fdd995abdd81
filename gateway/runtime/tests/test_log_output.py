"""The ready line, and log lines that a peer causes."""

import io
import logging
from collections.abc import Iterator

import pytest

from headgate.gateway.runtime import log_output


class StillClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 0.0

    def now_ms(self) -> int:
        return int(self.ms)

    def monotonic_ms(self) -> float:
        return self.ms


@pytest.fixture
def root_handlers() -> Iterator[None]:
    """Give the root logger back as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    root.handlers.clear()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_log_lines_have_time_level_and_name(root_handlers: None) -> None:
    stream = io.StringIO()
    log_output.configure("warning", stream)
    logging.getLogger("headgate.server").warning("refused %s", "someone")
    logging.getLogger("headgate.server").info("not shown")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("WARNING headgate.server: refused someone")


def test_a_peer_causes_only_so_many_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = StillClock()
    limited = log_output.LimitedLog(logging.getLogger("headgate.test"), clock, lines=2, interval_ms=100)
    for number in range(5):
        limited.warning("bad frame", "frame %d", number)
    limited.warning("other", "another kind")
    assert caplog.messages == ["frame 0", "frame 1", "another kind"]
    clock.ms = 100
    limited.warning("bad frame", "later")
    assert caplog.messages[3:] == ["bad frame: 3 more of such lines were left out", "later"]


def test_only_so_many_kinds_are_remembered(caplog: pytest.LogCaptureFixture) -> None:
    limited = log_output.LimitedLog(logging.getLogger("headgate.test"), StillClock(), lines=1, kinds=2)
    for kind in ("a", "a", "b", "c"):
        limited.warning(kind, kind)
    assert caplog.messages == ["a", "b", "a: 1 more of such lines were left out", "c"]


def test_what_was_left_out_is_told_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    clock = StillClock()
    limited = log_output.LimitedLog(logging.getLogger("headgate.test"), clock, lines=1, interval_ms=100)
    for _ in range(4):
        limited.warning("flood", "one of many")
    limited.warning("single", "one alone")
    limited.report_suppressed()
    assert caplog.messages == ["one of many", "one alone"]
    clock.ms = 100
    limited.report_suppressed()
    limited.report_suppressed()
    assert caplog.messages[2:] == ["flood: 3 more of such lines were left out"]


def test_faults_are_limited_too_and_keep_their_traceback(caplog: pytest.LogCaptureFixture) -> None:
    limited = log_output.LimitedLog(logging.getLogger("headgate.test"), StillClock(), lines=2)
    for _ in range(10):
        limited.error("serving", "serving %s failed", "one", exc_info=ZeroDivisionError("ours"))
    assert caplog.messages == ["serving one failed"] * 2
    assert caplog.text.count("ZeroDivisionError: ours") == 2
    assert {record.levelname for record in caplog.records} == {"ERROR"}


def test_an_error_that_comes_again_and_again_is_told_in_few_lines(root_handlers: None) -> None:
    stream = io.StringIO()
    log_output.configure("info", stream)
    log = logging.getLogger("headgate.dispatch")
    for number in range(100):
        log.error("%s failed", f"Fetch {number}", exc_info=ZeroDivisionError("ours"))
        log.info("still told %d", number)
    log.error("something else failed")
    lines = stream.getvalue().splitlines()
    assert sum(line.endswith("ZeroDivisionError: ours") for line in lines) == 20
    assert sum("still told" in line for line in lines) == 100
    assert lines[-1].endswith("something else failed")


def test_how_many_errors_were_left_out_is_told_with_the_next() -> None:
    repeated = log_output.RepeatedErrorFilter(lines=2, interval_s=10.0)

    assert [told(repeated, 100.0 + number, number) for number in range(5)] == ["0 failed", "1 failed", None, None, None]
    assert told(repeated, 110.0, 5) == "5 failed (3 more of such lines were left out)"
    assert told(repeated, 110.5, 6) == "6 failed"
    assert told(repeated, 130.0, 7) == "7 failed"


def test_one_line_that_tells_of_two_faults_is_told_of_each() -> None:
    repeated = log_output.RepeatedErrorFilter()
    faults = [ValueError("one"), KeyError("two"), ValueError("one"), OSError(5, "three")]
    assert [told(repeated, 100.0, "it", fault) is not None for fault in faults] == [True, True, False, True]


def told(
    repeated: log_output.RepeatedErrorFilter, at_s: float, what: object, fault: Exception | None = None
) -> str | None:
    exc_info = None if fault is None else (type(fault), fault, None)
    record = logging.LogRecord("headgate", logging.ERROR, "", 0, "%s failed", (what,), exc_info)
    record.created = at_s
    return record.getMessage() if repeated.filter(record) else None


def test_the_same_error_is_told_twice_a_minute() -> None:
    """As for a producer that comes again as long as a disk is full."""
    repeated = log_output.RepeatedErrorFilter(places=3)
    assert [told(repeated, 100.0 + second, "it") for second in range(30)] == ["it failed"] + [None] * 29
    assert told(repeated, 100.0, "another") == "another failed"
    assert told(repeated, 130.0, "it") == "it failed (29 more of such lines were left out)"
    assert told(repeated, 160.0, "it") == "it failed"
    for number in range(10):
        told(repeated, 161.0, number)
    assert [told(repeated, 162.0, number) for number in (9, 8, 7)] == [None] * 3, "three are remembered"
    assert told(repeated, 162.0, 6) == "6 failed"
