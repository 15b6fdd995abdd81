"""Starts the two brokers on loopback, each with its own defaults, with data directories on the same disk."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from headgate.tools.bench.measuring.secure_listeners import SecureListeners, SecurePorts, addresses
from headgate.tools.bench.requests.client import BenchError, Client

HEADGATE, KAFKA = "headgate", "kafka"
# Variables that would change a broker. Without bytecode Headgate would compile at each start, as no installed one does.
_NOT_INHERITED = ("KAFKA_OPTS", "JAVA_TOOL_OPTIONS", "PYTHONDONTWRITEBYTECODE")
DUAL_GROUPS = "offset-commit-dual"
"""With ZooKeeper, groups whose ids begin so have their offsets there too."""
_START_WITHIN_SECONDS = 60.0
_STOP_WITHIN_SECONDS = 20.0
_POLL_SECONDS = 0.002

# The JVM flags of Kafka's own kafka-server-start.sh; nothing else is tuned.
JVM_FLAGS = ["-Xmx1g", "-Xms1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
JVM_FLAGS += ["-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15"]
JVM_FLAGS += ["-Djava.awt.headless=true"]

JMX_RULES = Path(__file__).with_name("jmx_exporter.yaml")

# The last two settings shorten the delay of deletion (by default 60 s, and 30 s after the start). The next repetition
# waits until the files of the last one are deleted, so that no measurement pays for the deletion.
_KRAFT_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listeners={listeners},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners={listeners}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.segment.delete.delay.ms=100
log.initial.task.delay.ms=500
"""

# For both brokers: by default each new classic group waits for 3 s, in which there is nothing to measure.
SHARED_SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(slots=True)
class Broker:
    """A running broker. `start_seconds`: from the start of the process to the first answered Metadata."""

    name: str
    process: "subprocess.Popen[bytes]"
    port: int
    data: Path
    start_seconds: float = 0.0
    secure_ports: SecurePorts | None = None
    """The ports of the listeners that rows of security use."""

    @property
    def client(self) -> Client:
        return Client(self.port)

    @property
    def log(self) -> Path:
        return self.data.parent / "output.log"

    def stop(self, within_seconds: float = _STOP_WITHIN_SECONDS) -> None:
        """Send SIGTERM; send SIGKILL if the broker does not end within the time."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(within_seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def java_command(jars: Path) -> list[str]:
    """The command that runs a class of Kafka's; empty without Java or without Kafka in the directory."""
    java = shutil.which("java")
    return [java, "-cp", str(jars.resolve() / "*")] if java and list(jars.glob("kafka_2.13-*.jar")) else []


def kafka_command(jars: Path) -> list[str]:
    """The same. Raises BenchError without Java or without Kafka."""
    command = java_command(jars)
    if not command:
        raise BenchError(
            f"no java on the path, or no Kafka in {jars}; install a JRE 17 or newer and run `make jars`, "
            "or measure with --only headgate"
        )
    return command


class Launcher(ABC):
    """Starts one kind of broker, in a fresh directory or in the directory of a stopped one."""

    name: str
    secure_listeners: SecureListeners | None = None
    """The listeners beside the plain one; None in a run without rows of security."""
    secure_ports: SecurePorts | None = None
    """The ports of these listeners, of the next broker."""
    variables: Mapping[str, str] = MappingProxyType({})
    """Further environment variables of the brokers."""

    @property
    def secure_settings(self) -> Mapping[str, str]:
        return {} if self.secure_listeners is None else self.secure_listeners.settings

    def listeners(self, port: int) -> str:
        """The setting `listeners` without a controller."""
        plain = f"PLAINTEXT://127.0.0.1:{port}"
        return plain if self.secure_ports is None else f"{plain},{addresses(self.secure_ports)}"

    @abstractmethod
    def command(self, directory: Path, data: Path, port: int) -> list[str]:
        """The command to execute; also creates every file that the broker needs, outside of the measured start."""

    def with_metrics(self, port: int) -> "Launcher":
        """A launcher of the same program whose brokers serve `/metrics` at this port. Raises BenchError."""
        raise BenchError(f"{self.name} at port {port} has no metrics")

    def start(self, directory: Path) -> Broker:
        shutil.rmtree(directory, ignore_errors=True)
        data = directory / "data"
        data.mkdir(parents=True)
        return self._launch(directory, data)

    def start_again(self, directory: Path, within_seconds: float = _START_WITHIN_SECONDS) -> Broker:
        return self._launch(directory, directory / "data", within_seconds)

    def _launch(self, directory: Path, data: Path, within_seconds: float = _START_WITHIN_SECONDS) -> Broker:
        port = free_port()
        if self.secure_listeners is not None:
            self.secure_ports = SecurePorts(free_port(), free_port())
        command = self.command(directory, data, port)
        started = time.perf_counter()
        broker = run_broker(self.name, command, data, port, self.variables)
        broker.secure_ports = self.secure_ports
        try:
            wait_for_brokers(broker, 1, within_seconds)
        except BaseException:
            broker.stop()
            raise
        broker.start_seconds = time.perf_counter() - started
        return broker


def run_broker(
    name: str, command: Sequence[str], data: Path, port: int, variables: Mapping[str, str] = MappingProxyType({})
) -> Broker:
    """The process of a broker, which may not serve yet. `variables`: further environment variables."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED} | dict(variables)
    with (data.parent / "output.log").open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
    return Broker(name, process, port, data)


def headgate_program(program: Path | None) -> str:
    """The installed command, or that of another tree. Raises BenchError where there is none."""
    beside_python = Path(sys.executable).parent / "headgate"
    found = str(program.resolve() if program else beside_python if beside_python.exists() else shutil.which("headgate"))
    if not os.access(found, os.X_OK):
        raise BenchError(
            f"there is no program {found} to measure: run `make serve` once, or name one of another tree with "
            "HEADGATE, or measure with --only kafka"
        )
    return found


class HeadgateLauncher(Launcher):
    """The installed command, as a user runs it, or the command of another tree.

    `zookeeper`: host:port of a ZooKeeper. Each fresh directory then begins a cluster of its own there. `settings`:
    further ones.
    """

    name = HEADGATE

    def __init__(
        self, program: Path | None = None, zookeeper: str = "", settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.zookeeper, self._chroot = zookeeper, ""
        self._settings = settings
        self.program = headgate_program(program)

    def with_settings(self, settings: Mapping[str, str]) -> "HeadgateLauncher":
        """A launcher of the same program with these further settings, without other listeners."""
        return HeadgateLauncher(Path(self.program), self.zookeeper, settings)

    def with_metrics(self, port: int) -> "HeadgateLauncher":
        lag_ms = 100  # ten times a second, so that a reading has its share of the work
        return self.with_settings(
            {"headgate.http.listeners": f"http://127.0.0.1:{port}", "headgate.lag.interval.ms": str(lag_ms)}
        )

    def start(self, directory: Path) -> Broker:
        self._chroot = f"/{uuid.uuid4()}"
        return super().start(directory)

    def command(self, directory: Path, data: Path, port: int) -> list[str]:
        settings = {"listeners": self.listeners(port), "log.dirs": str(data), **SHARED_SETTINGS}
        settings |= {**self.secure_settings, **self._settings}
        settings["log.segment.delete.delay.ms"] = "100"  # the same for Kafka
        if self.zookeeper:
            settings["zookeeper.connect"] = self.zookeeper + self._chroot
            settings["headgate.offsets.store"] = f"{DUAL_GROUPS}*=dual:zookeeper"
        return [self.program, "serve", *(f"--override={name}={value}" for name, value in settings.items())]


class KafkaLauncher(Launcher):
    """Apache Kafka from its Maven jars, broker and controller in one process.

    Without a configuration Log4j writes errors only, to Kafka's advantage.
    """

    name = KAFKA

    def __init__(self, jars: Path, options: Sequence[str] = ()) -> None:
        """`options`: further ones of the JVM."""
        self.formatted: dict[str, bytes] = {}
        """The files of a formatted directory by name; every start copies them."""
        self._jars = jars
        self._options = options
        self.java = kafka_command(jars)

    def with_metrics(self, port: int) -> "KafkaLauncher":
        """The exporter as an agent, with rules as Strimzi's."""
        agent = next((self._jars.parent / "jmxexporter").glob("*.jar"), None)
        if agent is None:
            raise BenchError(f"no JMX exporter in {self._jars.parent / 'jmxexporter'}; run `make jars`")
        return KafkaLauncher(self._jars, [f"-javaagent:{agent.resolve()}=127.0.0.1:{port}:{JMX_RULES}"])

    def command(self, directory: Path, data: Path, port: int) -> list[str]:
        properties = directory / "server.properties"
        settings = {**SHARED_SETTINGS, **self.secure_settings}
        shared = "".join(f"{name}={value}\n" for name, value in settings.items())
        own = _KRAFT_PROPERTIES.format(listeners=self.listeners(port), controller_port=free_port(), data=data)
        properties.write_text(own + shared)
        if not self.formatted:
            self._format(properties)
            self.formatted = {path.name: path.read_bytes() for path in data.iterdir()}
        for name, content in self.formatted.items():
            if not (data / name).exists():
                (data / name).write_bytes(content)
        return [self.java[0], *JVM_FLAGS, *self._options, *self.java[1:], "kafka.Kafka", str(properties)]

    def _format(self, properties: Path) -> None:
        format_storage(self.java, properties, new_cluster_id())


def new_cluster_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def format_storage(java: Sequence[str], properties: Path, cluster_id: str) -> None:
    """Format the directories of a KRaft node. Raises BenchError."""
    # With "=", an id that begins with a dash is not taken for an option
    format_command = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties)]
    done = subprocess.run([*java, *format_command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"Kafka's storage could not be formatted: {done.stdout}{done.stderr}")


def wait_for_brokers(broker: Broker, count: int, within_seconds: float) -> None:
    """Wait until the broker's Metadata names `count` brokers. Raises BenchError."""
    deadline = time.monotonic() + within_seconds
    while True:
        try:
            if len(broker.client.metadata([]).brokers) >= count:
                return
        except OSError:
            pass
        if broker.process.poll() is not None:
            raise BenchError(f"{broker.name} ended with {broker.process.returncode}: {_tail(broker.log)}")
        if time.monotonic() > deadline:
            raise BenchError(
                f"{broker.name} names no {count} brokers in Metadata after {within_seconds:g} s: {_tail(broker.log)}"
            )
        time.sleep(_POLL_SECONDS)


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-15:])
