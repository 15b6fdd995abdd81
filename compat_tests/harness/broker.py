"""One broker process under test: started, stopped, killed, and started again on the same port and data.

`HEADGATE_COMPAT_TARGET=kafka` runs the same tests against Apache Kafka: what fails there is a wrong test. `kafka39` is
Kafka 3.9, the last one that serves clients older than 0.11.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from compat_tests.harness.ports import reserve
from compat_tests.harness.waiting import until

TARGET = os.environ.get("HEADGATE_COMPAT_TARGET", "headgate")
HTTP = "headgate.http.listeners"
CONSOLE = "headgate.console.listeners"
READY = re.compile(r"^headgate ready \S+://([\d.]+|\[[\da-f:]+\]):(\d+) ", re.MULTILINE)
ENDPOINT = re.compile(r"([^\s,]+)://(?:[\d.]+|\[[\da-f:]+\]):(\d+)")
START_LIMIT_S = 60.0
# Jars of the targets other than headgate
KAFKAS = {"kafka": "broker", "kafka39": "broker39"}
STOP_LIMIT_S = 30.0


class Broker(ABC):
    """A process, its data directory and its address. `errors` is the file with its log lines."""

    stop_limit_s = STOP_LIMIT_S

    def __init__(self, directory: Path, data: Path, errors: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.data = data
        self.errors = errors

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """host:port for bootstrap.servers; the same after a restart."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """Of the running process."""

    @abstractmethod
    def start(self) -> float:
        """Start the process and wait until it serves; the seconds that took."""

    @abstractmethod
    def stop(self) -> None:
        """A clean stop, as an init system does it."""

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL: nothing of the process runs any more; the page cache stays."""

    @abstractmethod
    def is_running(self) -> bool: ...

    def restart(self) -> float:
        self.stop()
        return self.start()

    def partition_directory(self, topic: str, partition: int) -> Path:
        return self.data / f"{topic}-{partition}"

    def error_lines(self) -> list[str]:
        return self.errors.read_text(errors="replace").splitlines()

    def resident_bytes(self) -> int:
        """Resident memory of the process, now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def cpu_seconds(self) -> float:
        """CPU time of the process, in user and kernel mode."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


class HeadgateBroker(Broker):
    """`headgate serve`, the installed command, configured by its command line only.

    Without a `port` it has any; `process_group=0` keeps a terminal's Ctrl-C from it.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        data: Path | None = None,
        arguments: Sequence[str] = (),
        port: int = 0,
    ) -> None:
        super().__init__(directory, data or directory / "data", directory / "stderr.log")
        self.arguments = arguments
        self.settings = dict(settings or {})
        self.output = directory / "stdout.log"
        self.port = port
        self.has_reserved = False
        self.process: subprocess.Popen[bytes] | None = None
        self.process_group: int | None = None
        self.passed: tuple[int, ...] = ()  # descriptors that are open in the process too

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker is not running"
        return self.process.pid

    def command(self) -> list[str]:
        wanted = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.data),
            # Or else a start waits as long as the session lasts, and tests have short sessions
            "zookeeper.connection.timeout.ms": str(round(START_LIMIT_S / 2 * 1000)),
            HTTP: "",  # many brokers run at once, and there is one port by default
            CONSOLE: "",
            "headgate.census": "false",  # its topic is none that a test has made
            **self.settings,
        }
        overrides = [word for name, value in wanted.items() for word in ("--override", f"{name}={value}")]
        return [*installed_command(), "serve", *self.arguments, *overrides]

    def environment(self) -> dict[str, str] | None:
        """The variables of the process; None for those of this one."""
        return None

    def start(self) -> float:
        if not self.has_reserved:
            self.port, self.has_reserved = reserve(self, self.port), True
        self.output.write_bytes(b"")
        with self.output.open("ab") as output, self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                process_group=self.process_group,
                env=self.environment(),
                pass_fds=self.passed,
            )
        return until(self.is_ready, f"the broker to be ready; its errors are in {self.errors}", START_LIMIT_S, 0.005)

    def is_ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            lines = "\n".join(self.error_lines()[-30:])
            raise AssertionError(f"the broker ended with {self.process.returncode} while starting:\n{lines}")
        if found := READY.search(self.output.read_text()):
            self.port = int(found.group(2))
        return found is not None

    def ports(self) -> dict[str, int]:
        """The port of each listener, as the ready line has them."""
        return {name: int(port) for name, port in ENDPOINT.findall(self.ready_line().split()[2])}

    def http(self) -> str | None:
        """The address of the first HTTP listener, http://127.0.0.1:port, as the ready line has it."""
        found = re.search(r" http=([^\s,]+)", self.ready_line())
        return None if found is None else found.group(1)

    def ready_line(self) -> str:
        return next(text for text in self.output.read_text().splitlines() if text.startswith("headgate ready "))

    def stop(self) -> None:
        self.end(signal.SIGTERM)

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def end(self, number: signal.Signals) -> None:
        if self.process is None:
            return
        process, self.process = self.process, None
        process.send_signal(number)
        try:
            process.wait(self.stop_limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the broker did not end {self.stop_limit_s} s after {number.name}") from None

    def is_running(self) -> bool:
        return self.process is not None


class LimitedBroker(HeadgateBroker):
    """A broker that never has more than so many open files: the limit is a hard one."""

    def __init__(self, directory: Path, descriptors: int) -> None:
        super().__init__(directory)
        self.descriptors = descriptors

    def command(self) -> list[str]:
        return ["bash", "-c", f'ulimit -n {self.descriptors}; exec "$@"', "bash", *super().command()]


def installed_command() -> list[str]:
    """HEADGATE_COMMAND, or the script beside this interpreter, or the module where nothing is installed."""
    if "HEADGATE_COMMAND" in os.environ:
        return shlex.split(os.environ["HEADGATE_COMMAND"])
    script = Path(sys.prefix) / "bin" / "headgate"
    return [str(script)] if script.exists() else [sys.executable, "-m", "headgate"]


def new_broker(directory: Path, settings: Mapping[str, str] | None = None) -> Broker:
    """A broker of the kind that HEADGATE_COMPAT_TARGET asks for, not started yet."""
    if TARGET == "headgate":
        return HeadgateBroker(directory, settings)
    assert TARGET in KAFKAS, f"HEADGATE_COMPAT_TARGET is headgate, {' or '.join(KAFKAS)}, not {TARGET}"
    from compat_tests.harness.kafka_target import KafkaBroker

    return KafkaBroker(directory, settings, KAFKAS[TARGET])


@contextlib.contextmanager
def running(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """A started broker, ended whatever happens."""
    broker = new_broker(directory, settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
