"""The gauge: what is made of its durations, which turns count, and the program itself."""

import io
import math
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.tools.bench.measuring import gauge
from headgate.tools.bench.measuring.figures import Sample
from headgate.tools.bench.measuring.gauge import Conditions, Turn, running_gauge
from headgate.tools.bench.report import Journal, Progress
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.rows.row import Run
from headgate.tools.bench.rows.table import ROWS
from headgate.tools.bench.run import Bench, Settings

FAST, SLOW = 60.0, 105.0
LEG = Sample(100, 0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)


def test_a_gear_is_the_mean_of_the_time_and_of_the_cpus() -> None:
    """One CPU was slow half of the time, the other never."""
    assert gauge.mean_microseconds([[60_000, 120_000], [60_000]]) == pytest.approx(75)


def test_a_preempted_cpu_is_not_taken_for_a_slow_one() -> None:
    assert gauge.mean_microseconds([[60_000, 60_000, 60_000, 9_000_000]]) == pytest.approx(90)


@pytest.mark.parametrize("durations_ns", [[], [[]], [[60_000], []]])
def test_without_samples_of_every_cpu_there_is_no_gear(durations_ns: list[list[int]]) -> None:
    assert gauge.mean_microseconds(durations_ns) is None


def met(*gauges_us: float | None, others: Sequence[float] = (0.0, 0.0)) -> Turn:
    return [Conditions(gauge_us, share) for gauge_us, share in zip(gauges_us, others, strict=False)]


@pytest.mark.parametrize(
    "turn, expected",
    [
        (met(FAST, SLOW), 0.75),
        (met(SLOW, FAST), 0.75),
        (met(SLOW), 0.0),
        (met(None, None), 0.0),
        (met(None, FAST), math.inf),
        (met(FAST, FAST, others=(0.1, 0.6)), 0.5),
        (met(FAST, FAST, others=(0.6, 0.1)), 0.5),
        (met(FAST, SLOW, others=(0.6, 0.1)), 0.75),
        (met(None, None, others=(0.1, 0.6)), 0.5),
    ],
)
def test_the_difference_of_legs_has_no_side(turn: Turn, expected: float) -> None:
    assert gauge.difference(turn) == pytest.approx(expected)


def test_all_comparable_turns_count() -> None:
    same = [met(FAST, FAST), met(SLOW, SLOW, others=(0.9, 0.85)), met(FAST, 1.09 * FAST)]
    other = [met(FAST, SLOW), met(SLOW, FAST), met(FAST, FAST, others=(0.0, 0.2))]
    assert gauge.count_comparable([*same, *other]) == 3
    assert gauge.select_comparable([*other[:2], *same, *other[2:]], wanted=2) == [2, 3, 4]


def test_too_few_comparable_turns_are_filled_up() -> None:
    turns = [met(FAST, 1.6 * FAST), met(FAST, FAST, others=(0.0, 0.2)), met(FAST, FAST), met(1.3 * FAST, FAST)]
    assert gauge.select_comparable(turns, wanted=3) == [1, 2, 3]


def in_gears(*gauges_us: float) -> Run:
    """A broker whose legs meet these gears, the last one for ever."""
    left = list(gauges_us)
    return lambda _: replace(LEG, gauge_us=left.pop(0) if len(left) > 1 else left[0])


@pytest.mark.parametrize(
    "ours, theirs, made, alike, counted",
    [
        (in_gears(FAST), in_gears(FAST), 4, 4, [0, 1, 2, 3]),
        (in_gears(FAST), in_gears(FAST, SLOW, FAST), 5, 4, [0, 2, 3, 4]),
        (in_gears(SLOW), in_gears(FAST, SLOW, FAST), 6, 1, [0, 1, 2, 3]),
    ],
)
def test_incomparable_turns_are_repeated_within_a_bound(
    tmp_path: Path, ours: Run, theirs: Run, made: int, alike: int, counted: list[int]
) -> None:
    journal = Journal(tmp_path / "run.json")
    bench = Bench(
        Settings((), repetitions=2, seconds=0.2, turn_seconds=0.1), [], tmp_path, journal, Progress(1, io.StringIO())
    )
    row = ROWS["metadata"]
    bench._report(row, bench.turns(row, {"headgate": ours, "kafka": theirs}), 4)
    assert len(journal.path.read_text().splitlines()) == 2 * made + len(row.figures)
    assert journal.lines[0].turns == (made, alike, counted)


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on the path")
def test_the_gauge_times_its_work_on_every_cpu_since_a_read(tmp_path: Path) -> None:
    with running_gauge(tmp_path) as running:
        deadline = time.monotonic() + 20
        durations_ns = running.read()
        while not all(durations_ns):
            assert time.monotonic() < deadline
            durations_ns = [had + new for had, new in zip(durations_ns, running.read(), strict=True)]
    assert all(each > 1_000 for cpu in durations_ns for each in cpu)
    assert running.process.returncode == 0


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on the path")
def test_a_gauge_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with running_gauge(tmp_path) as running:
        running.process.kill()
        running.process.wait()
        with pytest.raises(BenchError, match="the gauge ended with -9"):
            running.read()
