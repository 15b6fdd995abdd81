"""The jobs that are measured, each a whole query of Spark, and the marks that they are to reach."""

from __future__ import annotations

import contextlib
import io
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.spark.option_checks import tuned_options
from headgate.spark.option_table import Use
from headgate.tools.bench.measuring.brokers import HEADGATE, KAFKA
from headgate.tools.client.client import Client

TOPIC: Final = "bench"


class BenchSetup(NamedTuple):
    """What jobs work on: a session, both brokers with the same records in TOPIC, a folder for output."""

    spark: Any
    headgate: str
    kafka: str
    log_directory: Path
    output: Path


class Goal(NamedTuple):
    """`least` and `aim`: times the rate of another job. `cpu_most` and `cpu_aim`: times the CPU time of its broker."""

    other: str
    least: float
    aim: float
    cpu_most: float | None = None
    cpu_aim: float = 0.0


class BenchJob(NamedTuple):
    """A job by name; `run` reads all records of the topic. `broker`: the broker that works for it."""

    run: Callable[[BenchSetup], None]
    marks: tuple[Goal, ...] = ()
    broker: str = HEADGATE


def _read(scene: BenchSetup, name: str, options: Mapping[str, str]) -> Any:
    """All rows of the topic by a format, with all columns but headers, as `kafka` has them by default."""
    given = {"subscribe": TOPIC, "startingOffsets": "earliest", **options}
    return scene.spark.read.format(name).options(**given).load()


def _drop(frame: Any) -> None:
    """Make all rows, and write them nowhere."""
    frame.write.format("noop").mode("overwrite").save()


def _kafka(scene: BenchSetup, bootstrap: str, *, tuned: bool) -> Any:
    options = tuned_options("kafka", Use.BATCH) if tuned else {}
    return _read(scene, "kafka", {"kafka.bootstrap.servers": bootstrap, **options})


def _files(scene: BenchSetup) -> Any:
    """Batches by files, bounds by the broker beside them."""
    where = {"logDirs": str(scene.log_directory), "kafka.bootstrap.servers": scene.headgate}
    return _read(scene, "headgate", where)


def _files_alone(scene: BenchSetup) -> Any:
    """As where the broker is gone: planning finds by recovery what its next start would serve."""
    return _read(scene, "headgate", {"logDirs": str(scene.log_directory)})


def _wire(scene: BenchSetup) -> Any:
    return _read(scene, "headgate", {"kafka.bootstrap.servers": scene.headgate})


def _to_parquet(frame: Any, folder: Path) -> None:
    frame.write.option("compression", "zstd").mode("overwrite").parquet(str(folder))
    shutil.rmtree(folder)


def _load(scene: BenchSetup) -> None:
    """`headgate spark load` by files, within the session. Raises RuntimeError."""
    from headgate.spark.load.command import main_load

    folder = scene.output / "loaded"
    said = io.StringIO()
    arguments = [TOPIC, str(folder), "--log-dir", str(scene.log_directory)]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main_load(arguments)
    if code:
        raise RuntimeError(f"headgate spark load ended with {code}: {said.getvalue()}")
    shutil.rmtree(folder)


def _by_key(scene: BenchSetup) -> Any:
    return _kafka(scene, scene.kafka, tuned=True).select("key", "value")


def _with_partitions(scene: BenchSetup) -> Any:
    return _kafka(scene, scene.kafka, tuned=True).select("key", "value", "partition")


@contextlib.contextmanager
def _new_topic(bootstrap: str) -> Iterator[str]:
    """A topic with as many partitions as TOPIC, for one write; deleted afterwards. Raises ClientError."""
    with Client(bootstrap) as client:
        found = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])).topics[0]
        name = f"{TOPIC}-{time.time_ns()}"
        topic = CreatableTopic(name=name, num_partitions=len(found.partitions), replication_factor=1)
        client.ask(CreateTopicsRequest(topics=[topic]))
    try:
        yield name
    finally:
        with Client(bootstrap) as client:
            client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name]))


def _write(scene: BenchSetup, frame: Any) -> None:
    """Spark's own sink, at least once."""
    with _new_topic(scene.kafka) as topic:
        options = {"kafka.bootstrap.servers": scene.kafka, "topic": topic}
        frame.write.format("kafka").options(**options).save()


def _sink(scene: BenchSetup, frame: Any, *, keep_partitions: bool) -> None:
    """The exactly-once sink."""
    from headgate.spark.sink.sink import Sink

    with _new_topic(scene.kafka) as topic:
        Sink(scene.kafka, topic=topic, keep_partitions=keep_partitions).write(frame)


JOBS: Final[Mapping[str, BenchJob]] = {
    "kafka": BenchJob(lambda scene: _drop(_kafka(scene, scene.kafka, tuned=False)), broker=KAFKA),
    "kafka-tuned": BenchJob(lambda scene: _drop(_kafka(scene, scene.kafka, tuned=True)), broker=KAFKA),
    "kafka-from-headgate": BenchJob(
        lambda scene: _drop(_kafka(scene, scene.headgate, tuned=False)), (Goal("kafka", 0.95, 1.1, 0.95, 0.8),)
    ),
    "kafka-from-headgate-tuned": BenchJob(
        lambda scene: _drop(_kafka(scene, scene.headgate, tuned=True)), (Goal("kafka-tuned", 0.95, 1.1, 0.95, 0.8),)
    ),
    "files": BenchJob(lambda scene: _drop(_files(scene)), (Goal("kafka", 2.5, 3.5), Goal("kafka-tuned", 1.5, 2.0))),
    "files-alone": BenchJob(lambda scene: _drop(_files_alone(scene))),
    "wire": BenchJob(lambda scene: _drop(_wire(scene)), (Goal("kafka", 2.0, 3.0), Goal("kafka-tuned", 1.2, 1.6))),
    "parquet-tuned": BenchJob(
        lambda scene: _to_parquet(_kafka(scene, scene.kafka, tuned=True), scene.output / "plain"), broker=KAFKA
    ),
    "load": BenchJob(_load, (Goal("parquet-tuned", 2.0, 3.0),)),
    "write": BenchJob(lambda scene: _write(scene, _by_key(scene)), broker=KAFKA),
    "sink": BenchJob(
        lambda scene: _sink(scene, _by_key(scene), keep_partitions=False), (Goal("write", 0.7, 1.0),), broker=KAFKA
    ),
    "write-kept": BenchJob(lambda scene: _write(scene, _with_partitions(scene)), broker=KAFKA),
    "sink-kept": BenchJob(
        lambda scene: _sink(scene, _with_partitions(scene), keep_partitions=True),
        (Goal("write-kept", 1.0, 1.3),),
        broker=KAFKA,
    ),
}
