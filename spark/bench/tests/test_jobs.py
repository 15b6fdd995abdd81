"""The table of jobs, and how each asks Spark."""

from pathlib import Path
from typing import Any

from headgate.spark.bench.jobs import JOBS, TOPIC, BenchSetup
from headgate.spark.option_checks import tuned_options
from headgate.spark.option_table import Use


class Recorder:
    """Stands for a session, its reader and its frames: notes the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    @property
    def read(self) -> "Recorder":
        return self

    @property
    def write(self) -> "Recorder":
        return self

    def format(self, name: str) -> "Recorder":
        self.calls.append(("format", name))
        return self

    def options(self, **given: str) -> "Recorder":
        self.calls.append(("options", given))
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self


def asked(name: str) -> tuple[list[str], dict[str, str]]:
    recorder = Recorder()
    JOBS[name].run(BenchSetup(recorder, "headgate:1", "kafka:2", Path("data"), Path("output")))
    (options,) = [given for call, given in recorder.calls if call == "options"]
    return [given for call, given in recorder.calls if call == "format"], options


def test_marks_name_other_jobs() -> None:
    for job in JOBS.values():
        for mark in job.marks:
            assert mark.other in JOBS
            assert mark.least < mark.aim


def test_jobs_ask_for_their_format_and_broker() -> None:
    assert asked("files")[0] == asked("wire")[0] == ["headgate", "noop"]
    assert asked("files")[1]["logDirs"] == "data"
    assert asked("wire")[1]["kafka.bootstrap.servers"] == "headgate:1"
    formats, options = asked("kafka")
    assert (formats, options["kafka.bootstrap.servers"], options["subscribe"]) == (["kafka", "noop"], "kafka:2", TOPIC)
    tuned = tuned_options("kafka", Use.BATCH)
    assert asked("kafka-from-headgate-tuned")[1] == {**asked("kafka-from-headgate")[1], **tuned}
    assert tuned


def test_each_job_counts_the_broker_that_works_for_it() -> None:
    of_kafka = {name for name, job in JOBS.items() if job.broker == "kafka"}
    assert of_kafka == {"kafka", "kafka-tuned", "parquet-tuned", "write", "sink", "write-kept", "sink-kept"}
