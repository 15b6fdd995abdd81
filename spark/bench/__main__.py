"""`make bench-spark`: records a second of Spark's ways to topics, in turns, on this machine.

    python -m headgate.spark.bench [--records N] [--size BYTES] [--codec NAME] [--rounds N] [job ...]

It starts Apache Kafka (build/jars/broker) and Headgate, fills both with the same batches, runs each job once to warm
up, then all in turns. Needs the connector's jars (`make jars`). All files are below build/bench-spark.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headgate.spark.bench.jobs import JOBS, TOPIC, BenchJob, BenchSetup
from headgate.spark.bench.report import Run, lines
from headgate.spark.bench.topics import fill
from headgate.tools.bench.measuring.brokers import Broker, HeadgateLauncher, KafkaLauncher
from headgate.tools.bench.measuring.machine import cpu_since, tree_cpu, tree_cpu_seconds

BUILD: Final = Path("build/bench-spark")
JARS: Final = Path("build/jars/broker")


class _Stopped(SystemExit):
    """SIGTERM came. The brokers end with this process."""


def _stop(*_: object) -> None:
    raise _Stopped(1)


def main(arguments: Sequence[str]) -> None:
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _stop)
    names = options.jobs or list(JOBS)
    unknown = sorted(set(names) - set(JOBS))
    if unknown:
        raise SystemExit(f"there is no job {', '.join(unknown)}; there are {', '.join(JOBS)}")
    folder = BUILD.resolve()
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
    with _brokers(folder) as (headgate, kafka):
        records = 0
        for broker in (headgate, kafka):
            broker.client.create_topic(TOPIC, options.partitions, {"retention.ms": "-1"})  # records of 2023
            began = time.perf_counter()
            address = f"127.0.0.1:{broker.port}"
            records = fill(address, TOPIC, options.partitions, options.records, options.size, options.codec)
            _say(f"{broker.name}: {records} records in {time.perf_counter() - began:.1f} s")
        with _scene(folder, headgate, kafka) as scene:
            runs = _measure({name: JOBS[name] for name in names}, scene, (headgate, kafka), options.rounds)
    of_size = f"{records} records of {options.size} bytes, {options.codec}, {options.partitions} partitions"
    print(f"{of_size}, local[2]")
    print("\n".join(lines(runs, records)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make bench-spark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jobs", nargs="*", help=" ".join(JOBS))
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    return parser


@contextmanager
def _brokers(folder: Path) -> Iterator[tuple[Broker, Broker]]:
    headgate = HeadgateLauncher().start(folder / "headgate")
    try:
        kafka = KafkaLauncher(JARS).start(folder / "kafka")
        try:
            yield headgate, kafka
        finally:
            kafka.stop()
    finally:
        headgate.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _scene(folder: Path, headgate: Broker, kafka: Broker) -> Iterator[BenchSetup]:
    from headgate.spark.session import session

    # In 1g the consumers that Spark keeps between jobs and the buffers of Parquet leave the second round no room
    spark = session("bench", settings={"spark.driver.memory": "4g", "spark.ui.showConsoleProgress": "false"})
    spark.sparkContext.setLogLevel("ERROR")
    output = folder / "output"
    output.mkdir()
    try:
        yield BenchSetup(spark, f"127.0.0.1:{headgate.port}", f"127.0.0.1:{kafka.port}", headgate.data, output)
    finally:
        spark.stop()


def _measure(
    jobs: dict[str, BenchJob], scene: BenchSetup, brokers: tuple[Broker, Broker], rounds: int
) -> dict[str, list[Run]]:
    """The runs of each job; the first round warms up and does not count. SIGTERM ends them after a whole round."""
    runs: dict[str, list[Run]] = {name: [] for name in jobs}
    try:
        for number in range(rounds + 1):
            of_round = {}
            for name, job in jobs.items():
                of_round[name] = _run(job, scene, brokers)
                _say(json.dumps({"round": number, "job": name, **of_round[name]._asdict()}))
            if number:
                for name, run in of_round.items():
                    runs[name].append(run)
    except _Stopped:
        _say("stopped: the table has the rounds so far")
    return {name: of_job for name, of_job in runs.items() if of_job}


def _run(job: BenchJob, scene: BenchSetup, brokers: tuple[Broker, Broker]) -> Run:
    """Only the job's own broker counts: an idle Kafka takes 20 to 60 ms of CPU a second beside the other one."""
    before, own_before = _cpu_seconds(brokers), tree_cpu(os.getpid())
    began = time.perf_counter()
    job.run(scene)
    seconds, after = time.perf_counter() - began, _cpu_seconds(brokers)
    used = {name: after[name] - before[name] for name in after}
    # The brokers are children of this process too
    return Run(seconds, used[job.broker], cpu_since(own_before, tree_cpu(os.getpid())) - sum(used.values()))


def _cpu_seconds(brokers: tuple[Broker, Broker]) -> dict[str, float]:
    return {broker.name: tree_cpu_seconds(broker.process.pid) for broker in brokers}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
