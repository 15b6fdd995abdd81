"""Spark in other places than one process: a standalone cluster, Spark Connect, Declarative Pipelines."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from compat_tests.families.confluent import Confluent
from compat_tests.groups.committed import committed_offsets
from compat_tests.harness import apache_kafka, toolchain
from compat_tests.harness.broker import Broker, installed_command
from compat_tests.harness.ports import HOST, reserve
from compat_tests.harness.records import Traits, generate
from compat_tests.harness.topics import create_topics
from compat_tests.harness.waiting import until
from compat_tests.transactions.copiers.committed_values import from_the_start, read_committed

COUNT, PARTITIONS = 2_000, 4
LIMIT_S = 180
pytestmark = pytest.mark.soak  # several JVMs each
RUN_BY_EVERY_VERSION = ("kafka_batch", "kafka_streaming", "kafka_format", "headgate_streaming")
CLIENT = apache_kafka.ROOT / "build" / "spark" / "client-4.1.1"
# Read by both formats over Spark Connect; prints one JSON line
THIN_CLIENT = """
import json, sys
import pyspark
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
assert not (Path(pyspark.__file__).parent / "jars").exists(), "this is a whole Spark"
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.addArtifacts(f"{sys.argv[4]}#environment", archive=True)
found = {}
for name in ("kafka", "headgate"):
    options = {"kafka.bootstrap.servers": sys.argv[2], "subscribe": sys.argv[3]}
    rows = spark.read.format(name).options(**options).load()
    text = lambda value: None if value is None else value.hex()
    found[name] = sorted([row.partition, row.offset, text(row.value)] for row in rows.collect())
python = udf(lambda number: sys.executable)
found["python"] = sorted({row[0] for row in spark.range(8, numPartitions=4).select(python("id")).collect()})
print(json.dumps(found))
"""

# A query with a listener over Spark Connect; prints the ends of its batches, as the listener has noted them
LISTENING_CLIENT = """
import json, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from headgate.spark.positions.listener import ProgressListener
address, bootstrap, topic, group, folder = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
history, checkpoint = Path(folder) / "history.jsonl", Path(folder) / "checkpoint"
listener = ProgressListener(bootstrap, group, checkpoint=str(checkpoint), history=str(history))
spark.streams.addListener(listener)
options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 500}
rows = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).options(**options).load()
writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
writer.start().awaitTermination()
deadline = time.monotonic() + 30
while time.monotonic() < deadline and (not history.exists() or len(history.read_text().splitlines()) < 4):
    time.sleep(0.1)  # events come after the end of the query
time.sleep(1)
noted = (checkpoint / "headgate-topics.json").exists()
print(json.dumps({"noted": noted, "batches": len(list(history.open()))}), flush=True)
spark.streams.removeListener(listener)  # its thread would keep the process
spark.stop()
"""

# A query by `foreachBatch` over Spark Connect; the server calls the sink in a worker of its own
SINK_CLIENT = """
import sys
from pyspark.sql import SparkSession
from headgate.spark.sink.sink import Sink
address, bootstrap, source, output, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
options = {"kafka.bootstrap.servers": bootstrap, "subscribe": source, "startingOffsets": "earliest"}
rows = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger="800").load().drop("topic", "partition")
sink = Sink(bootstrap, topic=output, name=output, checkpoint=checkpoint)
query = rows.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
if query.exception() is not None:
    raise query.exception()
"""

# A write by tasks of which one hangs at its first run; prints what became of the write
SPECULATIVE_WRITE = """
import json, sys, time
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession
from headgate.spark.sink.sink import Sink
bootstrap, topic, folder, count, partitions = *sys.argv[1:4], *map(int, sys.argv[4:])
def hang(batches):
    task, hung = TaskContext.get(), Path(folder) / "hung"
    for batch in batches:
        yield batch.slice(0, 1)
        if task.partitionId() == 0 and not hung.exists():
            hung.touch()
            time.sleep(20)
        yield batch.slice(1)
spark = SparkSession.builder.getOrCreate()
columns = ("CAST(CAST(id AS STRING) AS BINARY) AS value", "spark_partition_id() AS partition")
rows = spark.range(0, count, numPartitions=partitions).selectExpr(*columns)
outcome = Sink(bootstrap, topic=topic, keep_partitions=True).write(rows.mapInArrow(hang, rows.schema))
print(json.dumps(outcome._asdict()))
"""


class Processes:
    """Processes of Spark, each with a log; all end with the block, those that they started too."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *words: str, **more: str) -> None:
        with (self.directory / f"{name}.log").open("wb") as log:
            self.started.append(
                subprocess.Popen(
                    [str(spark_home() / "bin" / words[0]), *words[1:]],
                    cwd=self.directory,
                    env=environment(**more),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def wait_for(self, name: str, port: int) -> None:
        """Wait until the process that started last listens."""
        until(lambda: is_listening(port) or self.started[-1].poll() is not None, name, LIMIT_S)
        assert self.started[-1].poll() is None, self.log(name)[-4000:]

    def end(self) -> None:
        for process in reversed(self.started):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self.started:
            process.wait()


def spark_home() -> Path:
    package = find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent


def environment(**more: str) -> dict[str, str]:
    """Without an interpreter for workers: each process is told, or has an archive."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "LANG") if name in os.environ}
    return {**kept, "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "200m", **more}


def run(command: Sequence[str], cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command with Spark's environment to its end, whatever its exit status."""
    own = environment(**variables)
    return subprocess.run(command, check=False, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S, env=own)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    toolchain.module("pyspark", "pip install pyspark==4.1.1")
    toolchain.jars("spark")
    made = Processes(tmp_path)
    yield made
    made.end()


def told(text: str) -> str:
    """The end of the output of a JVM, without its frames."""
    return "\n".join([line for line in text.splitlines() if not line.startswith("\tat ")][-60:])[-6000:]


def is_listening(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def start_cluster(processes: Processes, hosts: Sequence[str] = (HOST, HOST)) -> str:
    """A master, and for each host a worker with one core; the address of the master."""
    port = reserve(processes)
    master = ("spark-class", "org.apache.spark.deploy.master.Master", "--port", str(port))
    processes.start("master", *master, "--host", HOST, "--webui-port", "0")
    processes.wait_for("master", port)
    address = f"spark://{HOST}:{port}"
    worker = ("spark-class", "org.apache.spark.deploy.worker.Worker", address, "--cores", "1", "--memory", "600m")
    for number, host in enumerate(hosts, 1):
        place = ("--work-dir", str(processes.directory / f"worker-{number}"), "--host", host, "--webui-port", "0")
        processes.start(f"worker-{number}", *worker, *place, SPARK_LOCAL_IP=host)
    return address


def start_connect(processes: Processes, settings: Mapping[str, str], variables: Mapping[str, str]) -> int:
    """A server of Spark Connect; its port."""
    port = reserve(processes)
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    jars = ",".join(map(str, sorted((apache_kafka.JARS / "spark").glob("*.jar"))))
    wanted = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": " ".join(apache_kafka.QUICK_START),
        "spark.sql.shuffle.partitions": "2",
        **settings,
    }
    words = [word for name, value in wanted.items() for word in ("--conf", f"{name}={value}")]
    options = ("--class", server, "--name", "connect", "--jars", jars, *words)
    own = {"SPARK_DAEMON_MEMORY": "1g", **variables}
    processes.start("connect", "spark-submit", *options, **own)
    processes.wait_for("connect", port)
    return port


def test_a_thin_client_of_a_cluster_with_a_packed_environment(
    processes: Processes, broker: Broker, topic: Callable[..., str]
) -> None:
    """Server and executors have no package but the archive's, which the client sends. Both formats have the same rows.

    Spark starts each Python of a session in the session's own directory, and unpacks there what the session adds.
    """
    if not CLIENT.exists():
        toolchain.missing(f"{CLIENT} is not there: run `make install`")
    name = topic(PARTITIONS)
    Confluent().produce(broker.bootstrap, name, generate(COUNT, PARTITIONS, Traits()), "lz4")
    archive = processes.directory / "environment.tar.gz"
    packed = subprocess.run(
        [*installed_command(), "spark", "pack", str(archive)], check=True, capture_output=True, text=True
    )
    python = dict(line.split() for line in packed.stdout.splitlines())["spark.pyspark.python"]
    settings = {
        "spark.master": start_cluster(processes),
        "spark.driver.host": HOST,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
    }
    # The server looks for the command in its own directory, before it asks this Python for the formats that it has
    shutil.unpack_archive(archive, processes.directory / "environment", filter="fully_trusted")
    port = start_connect(processes, settings, {"PYSPARK_PYTHON": python})
    words = [f"sc://{HOST}:{port}", broker.bootstrap, name, str(archive)]
    done = run([sys.executable, "-c", THIN_CLIENT, *words], PYTHONPATH=str(CLIENT))
    assert done.returncode == 0, f"{told(done.stderr)}\n{told(processes.log('connect'))}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert len(found["kafka"]) == COUNT
    assert found["headgate"] == found["kafka"]
    assert len(found["python"]) == 2, "one of each worker"
    assert all(path.endswith("/environment/bin/python") for path in found["python"])


def test_a_speculative_task_writes_nothing(processes: Processes, broker: Broker, topic: Callable[..., str]) -> None:
    """Spark starts copies of a task that hangs, on another host. The copies fail, and each row is written once."""
    name = topic(PARTITIONS)
    settings = {
        "spark.master": start_cluster(processes, (HOST, "127.0.0.2")),
        "spark.driver.host": HOST,
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "500ms",
    }
    words = [word for setting, value in settings.items() for word in ("--conf", f"{setting}={value}")]
    program = processes.directory / "write.py"
    program.write_text(SPECULATIVE_WRITE)
    options = [broker.bootstrap, name, str(processes.directory), str(COUNT), str(PARTITIONS)]
    command = [str(spark_home() / "bin" / "spark-submit"), *words, str(program), *options]
    done = run(command, PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 0, told(done.stdout)
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert "task 0 was started again (attempt 1)" in done.stderr, told(done.stderr)
    assert outcome["records"] == COUNT
    found = committed_rows(broker.bootstrap, [(name, number) for number in range(PARTITIONS)])
    values = [int(value or b"") for rows in found.values() for value in rows]
    assert sorted(values) == list(range(COUNT))


def test_doctor_dials_on_the_executors(processes: Processes, broker: Broker) -> None:
    """The broker answers there; an interpreter that is not there is named with its cure."""
    master = start_cluster(processes)
    for python, words in ((sys.executable, f"reaches {broker.bootstrap}"), ("/no/python", "/no/python")):
        settings = (f"spark.pyspark.python={python}", f"spark.driver.host={HOST}", "spark.executor.memory=512m")
        confs = [word for setting in settings for word in ("--conf", setting)]
        command = ["spark", "doctor", "--json", "--bootstrap-server", broker.bootstrap, "--master", master, *confs]
        done = run([*installed_command(), *command], PYSPARK_PYTHON=sys.executable)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        found = [row for row in rows if row["check"] == "executor"]
        assert any(words in row["found"] for row in found), f"{found}\n{done.stderr[-4000:]}"
        assert all((row["state"] == "ok") == (python == sys.executable) for row in found), found


def test_a_listener_over_spark_connect_commits_from_the_client(
    processes: Processes, broker: Broker, topic: Callable[..., str]
) -> None:
    """Spark sends the events of a query to the client of its session. The listener runs there, with Headgate."""
    if not CLIENT.exists():
        toolchain.missing(f"{CLIENT} is not there: run `make install`")
    name, group = topic(PARTITIONS), f"connect-{broker.bootstrap.rpartition(':')[2]}"
    Confluent().produce(broker.bootstrap, name, generate(COUNT, PARTITIONS, Traits()), "lz4")
    port = start_connect(processes, {"spark.master": "local[2]"}, {"PYSPARK_PYTHON": sys.executable})
    words = [f"sc://{HOST}:{port}", broker.bootstrap, name, group, str(processes.directory)]
    done = run([sys.executable, "-c", LISTENING_CLIENT, *words], PYTHONPATH=str(CLIENT))
    assert done.returncode == 0, f"{done.stderr[-4000:]}\n{processes.log('connect')[-4000:]}"
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["noted"]
    assert found["batches"] >= COUNT // 500
    committed = committed_offsets(broker.bootstrap, group, name)
    assert sum(committed.values()) == COUNT, "the group is where the query is"


def test_a_query_over_connect_writes_exactly_once(
    processes: Processes, broker: Broker, topic: Callable[..., str]
) -> None:
    """Connect does not tell the checkpoint, so the sink is given it. Last commits lost: the sink skips their batch."""
    source, output = topic(PARTITIONS), topic(PARTITIONS)
    checkpoint = processes.directory / "checkpoint"
    variables = {"PYSPARK_PYTHON": sys.executable}
    port = start_connect(processes, {"spark.master": "local[2]"}, variables)
    client = [sys.executable, "-c", SINK_CLIENT, f"sc://{HOST}:{port}", broker.bootstrap, source, output]
    places = [(output, number) for number in range(PARTITIONS)]
    for count in (1, 2):
        Confluent().produce(broker.bootstrap, source, generate(COUNT, PARTITIONS, Traits()), "lz4")
        for _ in range(count):
            done = run([*client, str(checkpoint)])
            # The `kafka` format of Spark 4.1.1 fails so, with `availableNow`, after a batch that is run again
            if "KafkaMicroBatchStream$.metrics" not in done.stderr:
                break
        assert done.returncode == 0, f"{done.stderr[-4000:]}\n{processes.log('connect')[-4000:]}"
        found = [rows for rows in committed_rows(broker.bootstrap, places).values() if rows]
        assert sum(map(len, found)) == COUNT * count
        last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def committed_rows(bootstrap: str, places: list[tuple[str, int]]) -> dict[tuple[str, int], list[bytes | None]]:
    """Values of committed records, of which some are null."""
    found: dict[tuple[str, int], list[bytes | None]] = {place: [] for place in places}
    ended: set[tuple[str, int]] = set()
    consumer = read_committed(bootstrap)
    consumer.assign(from_the_start(places))
    while len(ended) < len(places):
        for message in consumer.consume(1_000, 0.1):
            place = (str(message.topic()), message.partition() or 0)
            if message.error() is None:
                found[place].append(message.value())
            else:
                ended.add(place)
    consumer.close()
    return found


def test_declarative_pipelines_take_up_where_they_ended(processes: Processes, broker: Broker) -> None:
    """The template, run twice: the table has all records, and no record twice; the view has their numbers."""
    from pyspark.sql import SparkSession

    topic, project = f"pipeline-{broker.bootstrap.rpartition(':')[2]}", processes.directory / "project"
    options = ["--template", "pipeline", "--topic", topic, "--bootstrap-server", broker.bootstrap]
    subprocess.run([*installed_command(), "spark", "init", str(project), *options], check=True)
    jars = ",".join(map(str, sorted((apache_kafka.JARS / "spark").glob("*.jar"))))
    command = [str(spark_home() / "bin" / "spark-pipelines"), "--jars", jars]
    command += ["--conf", "spark.sql.catalogImplementation=hive", "run"]
    create_topics(broker.bootstrap, {topic: {}}, PARTITIONS)
    for seed in range(2):
        Confluent().produce(broker.bootstrap, topic, generate(COUNT, PARTITIONS, Traits(), seed), "zstd")
        done = run(command, project, PYSPARK_PYTHON=sys.executable)
        assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-4000:]}"
    table = topic.replace("-", "_")
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        rows = spark.read.parquet(str(project / "spark-warehouse" / f"{table}_records"))
        assert rows.count() == rows.select("partition", "offset").distinct().count() == 2 * COUNT
        numbers = spark.read.parquet(str(project / "spark-warehouse" / f"{table}_by_key"))
        assert numbers.agg({"count": "sum"}).collect()[0][0] == 2 * COUNT
    finally:
        spark.stop()


@pytest.mark.parametrize("version", ["4.0.0", "4.2.0"])
def test_other_versions_of_spark(version: str) -> None:
    """The tests of the built-in `kafka` format, in another version of Spark with its own connector."""
    spark = apache_kafka.ROOT / "build" / "spark" / version
    if not spark.exists():
        toolchain.missing(f"{spark} is not there: run `make soak`")
    files = [f"compat_tests/spark/test_{name}.py" for name in RUN_BY_EVERY_VERSION]
    environment = {**os.environ, "PYTHONPATH": str(spark), "HEADGATE_SOAK": "0"}
    environment.pop("SPARK_HOME", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        check=False,
        cwd=apache_kafka.ROOT,
        capture_output=True,
        text=True,
        timeout=1_200,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-8000:]
