"""The table of measured jobs: rates, and ratios of rates of the same round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from headgate.spark.bench.jobs import JOBS, Goal


class Run(NamedTuple):
    """One run of a job: seconds, and CPU seconds of the job's broker and of Spark, its JVM and Python workers."""

    seconds: float
    broker_cpu_seconds: float
    spark_cpu_seconds: float


def lines(runs: Mapping[str, Sequence[Run]], records: int) -> Iterator[str]:
    """A line for each job, in the order of the table. `runs`: by job, in rounds."""
    yield f"{'job':28}{'M records/s':>12}{'broker CPU s':>14}{'Spark CPU s':>13}   ratios (least; aim)"
    for name, of_job in runs.items():
        rate = records / median(run.seconds for run in of_job) / 1e6
        cpu = median(run.broker_cpu_seconds for run in of_job)
        spark_cpu = median(run.spark_cpu_seconds for run in of_job)
        ratios = [text for mark in JOBS[name].marks if mark.other in runs for text in _marks(mark, runs, of_job)]
        yield f"{name:28}{rate:12.2f}{cpu:14.2f}{spark_cpu:13.2f}   {', '.join(ratios)}".rstrip()


def _marks(mark: Goal, runs: Mapping[str, Sequence[Run]], of_job: Sequence[Run]) -> Iterator[str]:
    other = runs[mark.other]
    yield f"{_ratio(other, of_job):.2f} of {mark.other} ({mark.least:g}; {mark.aim:g})"
    if mark.cpu_most is not None:
        cpu = median(
            ours.broker_cpu_seconds / theirs.broker_cpu_seconds for theirs, ours in zip(other, of_job, strict=True)
        )
        yield f"broker's CPU {cpu:.2f} (at most {mark.cpu_most:g}; {mark.cpu_aim:g})"


def _ratio(other: Sequence[Run], own: Sequence[Run]) -> float:
    """The median of the ratios of rates, round by round: what slows the machine slows both."""
    return median(theirs.seconds / ours.seconds for theirs, ours in zip(other, own, strict=True))
