"""Apache Kafka from Maven's jars: a broker to compare with, and its console tools.

    with ApacheKafka() as kafka:                # KRaft, one node, loopback, its own temporary directory
        kafka.bootstrap                         # '127.0.0.1:40123'
        run_tool(TOPICS, "--bootstrap-server", kafka.bootstrap, "--create", "--topic", "t")

The jars are those of `make jars`: build/jars/broker (4.1), broker39 (3.9), broker28 (2.8, `KafkaAndZooKeeper`) and
broker08 (0.8.2.2). `KafkaOnZooKeeper` runs the last three with a ZooKeeper that is there already.
Standard library only: tests and the bench both use it.
"""

from __future__ import annotations

import base64
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from compat_tests.harness.ports import reserve

ROOT: Final = Path(__file__).resolve().parents[2]
JARS: Final = ROOT / "build" / "jars"

# Main classes for run_tool
STORAGE: Final = "kafka.tools.StorageTool"
DUMP_LOG: Final = "kafka.tools.DumpLogSegments"
TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
ELECT: Final = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGN: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
GET_OFFSETS: Final = "org.apache.kafka.tools.GetOffsetShell"
CONSUMER_GROUPS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSOLE_PRODUCER: Final = "org.apache.kafka.tools.ConsoleProducer"
PRODUCER_PERFORMANCE: Final = "org.apache.kafka.tools.ProducerPerformance"

# As Kafka's own start script (kafka-run-class.sh, kafka-server-start.sh) sets them
SERVER_OPTIONS: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
# A JVM that lives for a second or a minute starts quickly, and leaves the second core alone: the second compiler and
# the verifier of the bytecode of published jars would take half of such a life
QUICK_START: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
TOOL_OPTIONS: Final = ("-Xmx256m", *QUICK_START)

# By the property that names such a file: that of Kafka 4, and that of Kafka before it
LOGGING: Final = {
    "log4j2.configurationFile": """\
status = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
""",
    "log4j.configuration": """\
log4j.rootLogger = {level}, stderr
log4j.appender.stderr = org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target = System.err
log4j.appender.stderr.layout = org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern = [%d] %p %m (%c)%n
""",
}


class KafkaFailed(Exception):
    """Kafka or one of its tools did not start, stopped by itself, or ended with an error; with what it printed."""


def missing(jar_set: str = "broker") -> str | None:
    """What is not here, as a sentence that says how to get it; None when everything is."""
    if shutil.which("java") is None:
        return "java is not on the path: install a JDK, version 17 or newer"
    if not any((JARS / jar_set).glob("*.jar")):
        return f"no jars in {JARS / jar_set}: run `make jars`"
    return None


def java(
    main_class: str,
    *arguments: str,
    options: tuple[str, ...] = TOOL_OPTIONS,
    jar_set: str = "broker",
    log_level: str = "warn",
    directory: Path | None = None,
) -> list[str]:
    """The command line that runs a class of a jar set; `directory` is where its logging configuration is put."""
    if sentence := missing(jar_set):
        raise KafkaFailed(sentence)
    logging = [logging_option(name, directory or JARS, log_level) for name in LOGGING]
    classes = str(JARS / jar_set / "*")
    return ["java", *options, *logging, "-cp", classes, main_class, *arguments]


def logging_option(name: str, directory: Path, level: str) -> str:
    """The option that has a JVM log to standard error; writes the file that it names."""
    configuration = directory / f"{name.partition('.')[0]}-{level}.properties"
    text = LOGGING[name].format(level=level)
    if not configuration.exists() or configuration.read_text() != text:
        # Another process may read the file at any time
        with tempfile.NamedTemporaryFile("w", dir=directory, delete=False) as file:
            file.write(text)
        Path(file.name).replace(configuration)
    return f"-D{name}={configuration.as_uri()}"


def run_tool(
    main_class: str,
    *arguments: str,
    stdin: str | None = None,
    timeout_s: float = 60,
    options: tuple[str, ...] = TOOL_OPTIONS,
    jar_set: str = "broker",
) -> str:
    """Run one of Kafka's tools to its end and return its standard output.

    Raises KafkaFailed with both outputs when it ends with an error or not within `timeout_s`. Where the tool itself is
    the load (ProducerPerformance), give it `options=("-Xmx512m",)`.
    """
    command = java(main_class, *arguments, options=options, jar_set=jar_set)
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as late:
        raise KafkaFailed(f"{main_class} was not done after {timeout_s} s\n{late.stdout!r}\n{late.stderr!r}") from late
    if done.returncode != 0:
        raise KafkaFailed(f"{main_class} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def start_tool(main_class: str, *arguments: str, options: tuple[str, ...] = TOOL_OPTIONS) -> subprocess.Popen[str]:
    """Start one of Kafka's tools with its three streams as pipes; the caller reads them and ends it."""
    pipe = subprocess.PIPE
    command = java(main_class, *arguments, options=options)
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


class ApacheKafka:
    """One KRaft node, broker and controller in one process, with Kafka's defaults where one node allows them.

    `settings` override server.properties; `heap` is -Xmx and -Xms; `jar_set` says which version; `options` are those of
    the JVM, QUICK_START where nothing is measured. Attributes once
    started: `bootstrap`, `port`, `pid`, `directory`, `logs` (the data directory), `output` (its log file), `ready_s`
    (seconds from exec to the first answer to Metadata that names a broker).
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        heap: str = "1g",
        jar_set: str = "broker",
        directory: Path | None = None,
        timeout_s: float = 60,
        options: tuple[str, ...] = SERVER_OPTIONS,
    ) -> None:
        self.settings = dict(settings or {})
        self.heap = heap
        self.options = options
        self.jar_set = jar_set
        self.timeout_s = timeout_s
        self.is_own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        self.logs = self.directory / "logs"
        self.output = self.directory / "server.log"
        self.properties = self.directory / "server.properties"
        self.port = 0
        self.ready_s = 0.0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """host:port for bootstrap.servers."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of the JVM."""
        if self.process is None:
            raise KafkaFailed("Apache Kafka is not running: call start() first")
        return self.process.pid

    def start(self) -> None:
        """Format the directory if it is new, start the broker and wait until it answers Metadata."""
        if not self.properties.exists():
            self._format()
        options = (f"-Xmx{self.heap}", f"-Xms{self.heap}", *self.options)
        more: dict[str, Any] = {"jar_set": self.jar_set, "log_level": "info", "directory": self.directory}
        command = java(*self._program(), options=options, **more)
        began = time.monotonic()
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self._wait_until_ready(began)

    def stop(self, timeout_s: float = 30) -> None:
        """Shut down in order; after `timeout_s`, kill."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def kill(self) -> None:
        """End it as a power cut of the process would: SIGKILL. start() brings it back on the same port and data."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self) -> None:
        """Stop, and remove the directory if it is a temporary one."""
        self.stop()
        if self.is_own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _program(self) -> tuple[str, ...]:
        """The class to run, and its arguments."""
        return "kafka.Kafka", str(self.properties)

    def _format(self) -> None:
        self.port, controller = reserve(self), reserve(self)
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self.logs),
            # One node cannot hold three replicas
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self.settings,
        }
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # An id that begins with a dash would be read as an option
        format_it = ("format", f"--cluster-id={cluster_id}", "--config", str(self.properties))
        run_tool(STORAGE, *format_it, jar_set=self.jar_set)

    def _wait_until_ready(self, began: float) -> None:
        deadline = began + self.timeout_s
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                raise KafkaFailed(f"Apache Kafka stopped while starting\n{self._tail()}")
            if self._is_ready():
                self.ready_s = time.monotonic() - began
                return
            time.sleep(0.02)
        raise KafkaFailed(f"Apache Kafka does not answer on {self.bootstrap} after {self.timeout_s} s\n{self._tail()}")

    def _is_ready(self) -> bool:
        return _names_a_broker(self.port)

    def _tail(self) -> str:
        lines = self.output.read_text(errors="replace").splitlines()
        return "\n".join(lines[-40:])


class KafkaAndZooKeeper(ApacheKafka):
    """Kafka 2.8, a broker in one process with a ZooKeeper that nobody else knows."""

    def __init__(self, settings: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(settings, jar_set="broker28", **more)
        self.zookeeper_port = 0

    def _program(self) -> tuple[str, ...]:
        program = ROOT / "compat_tests" / "java" / "broker28" / "src" / "KafkaWithZooKeeper.java"
        return str(program), str(self.properties), str(self.zookeeper_port), str(self.directory / "zookeeper")

    def _format(self) -> None:
        self.port, self.zookeeper_port = reserve(self), reserve(self)
        lines = {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "zookeeper.connect": f"127.0.0.1:{self.zookeeper_port}",
            "log.dirs": str(self.logs),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self.settings,
        }
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))


class KafkaOnZooKeeper(ApacheKafka):
    """A Kafka 0.8.2, 2.8 or 3.9 (by `jar_set`) in ZooKeeper mode; `connect` is host:port and chroot of a ZooKeeper."""

    def __init__(self, connect: str, broker_id: int, settings: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(settings, **more)
        self.connect = connect
        self.broker_id = broker_id
        self._earlier = 0

    def start(self) -> None:
        """Also starts again: what the log has by now is of an earlier process."""
        self._earlier = self.output.stat().st_size if self.output.exists() else 0
        super().start()

    def _format(self) -> None:
        self.port = self.port or reserve(self)
        is_old = self.jar_set == "broker08"
        address = {"host.name": "127.0.0.1", "port": f"{self.port}"}
        lines = {
            "broker.id": str(self.broker_id),
            **(address if is_old else {"listeners": f"PLAINTEXT://127.0.0.1:{self.port}"}),
            "zookeeper.connect": self.connect,
            "log.dirs": str(self.logs),
            "offsets.topic.replication.factor": "1",
            **self.settings,
        }
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    def _is_ready(self) -> bool:
        """0.8.2 names no broker as long as there is no topic; the log of every version says when it is registered.

        A newer one may still name no broker then, and librdkafka from 2.10 on asks a broker once.
        """
        if b"started (kafka.server.KafkaServer)" not in self.output.read_bytes()[self._earlier :]:
            return False
        is_plain = "listeners" not in self.settings
        return not is_plain or self.jar_set == "broker08" or _names_a_broker(self.port)


def _names_a_broker(port: int) -> bool:
    """Ask for Metadata v1 of no topic: a Kafka that has not yet registered itself answers with no broker."""
    request = struct.pack(">hhih5si", 3, 1, 1, 5, b"ready", 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as stream:
                answer = stream.read(12)  # size, correlation id, number of brokers
    except OSError:
        return False
    return len(answer) == 12 and answer[8:] != bytes(4)
