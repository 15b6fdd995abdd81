"""The gauge: what is made of its durations, which turns count, and the program itself."""

import io
import math
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tools.bench import gauge
from tools.bench.client import BenchError
from tools.bench.figures import Sample
from tools.bench.gauge import running_gauge
from tools.bench.report import Journal, Progress
from tools.bench.rows import Run
from tools.bench.run import Bench, Settings
from tools.bench.table import ROWS

FAST, SLOW = 60.0, 105.0
LEG = Sample(100, 0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)


def test_a_gear_is_the_mean_of_the_time_and_of_the_cpus() -> None:
    """One CPU was slow half of the time, the other never."""
    assert gauge.mean_microseconds([[60_000, 120_000], [60_000]]) == pytest.approx(75)


def test_a_cpu_that_was_away_is_not_taken_for_a_slow_one() -> None:
    assert gauge.mean_microseconds([[60_000, 60_000, 60_000, 9_000_000]]) == pytest.approx(90)


@pytest.mark.parametrize("durations_ns", [[], [[]], [[60_000], []]])
def test_without_samples_of_every_cpu_there_is_no_gear(durations_ns: list[list[int]]) -> None:
    assert gauge.mean_microseconds(durations_ns) is None


@pytest.mark.parametrize(
    "legs_us, expected",
    [([FAST, SLOW], 1.75), ([SLOW, FAST], 1.75), ([SLOW], 1.0), ([None, None], 1.0), ([None, FAST], math.inf)],
)
def test_unlikeness_has_no_side(legs_us: list[float | None], expected: float) -> None:
    assert gauge.unlikeness(legs_us) == expected


def test_all_turns_in_like_gears_count_whatever_the_gear() -> None:
    turns = [[FAST, FAST], [FAST, SLOW], [SLOW, SLOW], [SLOW, FAST], [FAST, 1.09 * FAST]]
    assert gauge.count_alike(turns) == 3
    assert gauge.most_alike(turns, wanted=2) == [0, 2, 4]


def test_where_too_few_are_alike_the_likest_fill_up() -> None:
    turns = [[FAST, 1.6 * FAST], [FAST, 1.2 * FAST], [FAST, FAST], [1.3 * FAST, FAST]]
    assert gauge.most_alike(turns, wanted=3) == [1, 2, 3]


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
def test_turns_in_unlike_gears_are_repeated_within_a_bound(
    tmp_path: Path, ours: Run, theirs: Run, made: int, alike: int, counted: list[int]
) -> None:
    journal = Journal(tmp_path / "run.json")
    bench = Bench(
        Settings((), repetitions=2, seconds=0.2, turn_seconds=0.1), [], tmp_path, journal, Progress(1, io.StringIO())
    )
    row = ROWS["metadata"]
    bench._report(row, bench._turns(row, {"headgate": ours, "kafka": theirs}), 4)
    assert len(journal.path.read_text().splitlines()) == 2 * made + len(row.figures)
    assert journal.lines[0].turns == (made, alike, counted)


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on the path")
def test_the_program_times_its_work_on_every_cpu_since_it_was_read(tmp_path: Path) -> None:
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
