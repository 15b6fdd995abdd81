"""A broker inside a program or a test.

    with Headgate() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)

The broker is a process of its own, on a free port of 127.0.0.1, with its data in a temporary directory. So a test can
kill and restart the broker, and clients connect as to any broker. The broker ends with the program, however that ends.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Protocol, Self

import headgate
from headgate.gateway.app.ready_line import READY

# Defaults for tests: a free port, and no wait for more members when a group begins.
_DEFAULTS = {"listeners": "PLAINTEXT://127.0.0.1:0", "group.initial.rebalance.delay.ms": "0"}
# Isolated mode ignores the environment and the current directory, so the program gets the path of this package.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from headgate.gateway.app.cli import main; sys.exit(main())"
)
_SHOWN_LOG_LINES = 40
# The local address of a broker that listens on all addresses: `[::]` is that of both families.
_NEAR = {"0.0.0.0": "127.0.0.1", "[::]": "127.0.0.1"}  # noqa: S104

_topic_numbers = itertools.count(1)


class HeadgateError(Exception):
    """The broker did not start or stop; the text includes the end of its log."""


class BrokerRunner(Protocol):
    """Runs a broker: in a child process, or in a thread of this one."""

    pid: int

    def start(self, overrides: Mapping[str, str], deadline_s: float) -> Sequence[str]:
        """Start with these settings. Returns the endpoints. Raises HeadgateError."""

    def stop(self, deadline_s: float) -> None:
        """Stop cleanly. Raises HeadgateError."""

    def kill(self) -> None:
        """Stop at once, without any further write."""

    def discard(self) -> None:
        """Stop the broker, and ignore errors."""

    def is_running(self) -> bool:
        """Whether the broker runs."""

    def log(self) -> str:
        """The log of the broker, over all its starts."""


class Headgate:
    """One broker. Settings have Kafka's names: `Headgate({"num.partitions": 3})` or `Headgate(num_partitions=3)`."""

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
        in_process: bool = False,
        deadline_s: float = 10.0,
        **options: object,
    ) -> None:
        """Prepare a broker; `start`, or `with`, starts it.

        `directory` keeps the data; without it, the data are in a temporary directory, and removed with the broker.
        `in_process` runs the broker in a thread of this process, with a clock that `advance` moves. `deadline_s` bounds
        a start and a stop.
        """
        named = {name.replace("_", "."): value for name, value in options.items()}
        given = {name: _text(value) for name, value in {**(settings or {}), **named}.items()}
        self._overrides = _DEFAULTS | given
        self._deadline_s = deadline_s
        self._keeps_data = directory is not None or "log.dirs" in given or "log.dir" in given
        self.directory = str(directory) if directory is not None else given.get("log.dirs", given.get("log.dir", ""))
        self._endpoints: Sequence[str] = ()
        self._runner = _in_process() if in_process else _Process()
        self._clean_up: weakref.finalize[..., Headgate] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Headgate({self.bootstrap if self.is_running else 'not running'})"

    def start(self) -> Self:
        """Start, and wait until clients can connect. Raises HeadgateError, with the broker's log."""
        if self.is_running:
            return self
        if not self.directory:
            self.directory = tempfile.mkdtemp(prefix="headgate-")
        if self._clean_up is None:
            self._clean_up = weakref.finalize(
                self, _clean_up, self._runner, None if self._keeps_data else self.directory
            )
        settings = {**self._overrides, "log.dirs": self.directory}
        if self._endpoints:  # a restart uses the same port, so that clients find the broker again
            settings["listeners"] = ",".join(self._endpoints)
        self._endpoints = self._runner.start(settings, self._deadline_s)
        return self

    def stop(self) -> None:
        """Stop cleanly, and remove a temporary directory. Raises HeadgateError if the stop takes too long."""
        try:
            self._runner.stop(self._deadline_s)
        finally:
            if self._clean_up is not None:
                self._clean_up()
                self._clean_up = None
            if not self._keeps_data:
                self.directory, self._endpoints = "", ()

    def kill(self) -> None:
        """Kill the process (SIGKILL), as in a crash. The data stay; `restart` uses them again."""
        self._runner.kill()

    def restart(self) -> Self:
        """Start again on the same port with the same data; a running broker is first stopped cleanly."""
        if self.is_running:
            self._runner.stop(self._deadline_s)
        return self.start()

    @property
    def is_running(self) -> bool:
        """Whether the broker runs."""
        return self._runner.is_running()

    @property
    def bootstrap(self) -> str:
        """`host:port` for a client's `bootstrap.servers`; the same after a restart. Raises HeadgateError."""
        if not self._endpoints:
            raise HeadgateError("the broker was not started; use `with Headgate() as broker:`, or start()")
        address = self._endpoints[0].partition("://")[2]
        host, _, port = address.rpartition(":")
        return f"{_NEAR.get(host, host)}:{port}"

    @property
    def pid(self) -> int:
        """The process id of the broker."""
        return self._runner.pid

    @property
    def log(self) -> str:
        """The log of the broker, over all its starts."""
        return self._runner.log()

    def topic(self, partitions: int = 1, **configs: object) -> str:
        """Create a topic with a new, unique name. Returns the name. Raises HeadgateError."""
        name = f"topic-{next(_topic_numbers)}-{os.urandom(4).hex()}"
        self.create_topic(name, partitions, **configs)
        return name

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """Create a topic; configs have Kafka's names with `_` for dots. Raises HeadgateError with the reason."""
        from headgate.gateway.app.topic_client import create_topic

        texts = {key.replace("_", "."): _text(value) for key, value in configs.items()}
        create_topic(self.bootstrap, name, partitions, texts)

    def advance(self, milliseconds: float) -> None:
        """Advance the broker's clock, with `in_process`. All work due by then is done when this returns.

        Raises HeadgateError for a broker in another process.
        """
        advance = getattr(self._runner, "advance", None)
        if advance is None:
            raise HeadgateError("the clock of another process cannot be moved; use Headgate(in_process=True)")
        advance(milliseconds)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _in_process() -> BrokerRunner:
    from headgate.gateway.app.in_process import InProcess

    return InProcess(os.getpid())


def _clean_up(runner: BrokerRunner, directory: str | None) -> None:
    runner.discard()
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)


class _Process:
    """A broker as a child process. It stops when this process closes the pipe to its standard input, or dies."""

    def __init__(self) -> None:
        self.pid = 0
        self._process: subprocess.Popen[str] | None = None
        self._log_file: IO[bytes] | None = None
        self._past_log = ""

    def start(self, overrides: Mapping[str, str], deadline_s: float) -> Sequence[str]:
        arguments = [f"--override={name}={value}" for name, value in overrides.items()]
        root = str(Path(headgate.__file__).resolve().parents[1])
        if self._log_file is None:
            self._log_file = tempfile.TemporaryFile()  # noqa: SIM115 - stays open until `discard`
        self._process = process = subprocess.Popen(  # noqa: S603 - this interpreter, our own program
            [sys.executable, "-I", "-c", _PROGRAM, root, "serve", "--exit-with-parent", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log_file,
            text=True,
            start_new_session=True,  # Ctrl-C is for the program, which then stops the broker
        )
        self.pid = process.pid
        try:
            return self._wait_until_ready(process, deadline_s)
        except BaseException:
            self.kill()
            raise

    def _wait_until_ready(self, process: subprocess.Popen[str], deadline_s: float) -> Sequence[str]:
        lines: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
        try:
            line = lines.get(timeout=deadline_s)
        except Empty:
            raise HeadgateError(
                f"the broker was not ready within {deadline_s:g} s: waited for the line {READY.strip()!r} on its"
                f" standard output{self._shown_log()}"
            ) from None
        if not line.startswith(READY):
            code = process.wait(deadline_s)
            raise HeadgateError(f"the broker ended with code {code} before it was ready{self._shown_log()}")
        return line.removeprefix(READY).split(" ", 1)[0].split(",")

    def stop(self, deadline_s: float) -> None:
        process = self._process
        if process is None:
            return
        try:
            if self.is_running():
                process.send_signal(signal.SIGTERM)
            process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise HeadgateError(
                f"the broker (process {process.pid}) did not stop within {deadline_s:g} s after SIGTERM, and was killed"
                f"{self._shown_log()}"
            ) from None
        finally:
            self.kill()

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def discard(self) -> None:
        self.kill()
        self._past_log, file, self._log_file = self.log(), self._log_file, None
        if file is not None:
            file.close()

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        if self._log_file is None:
            return self._past_log
        descriptor = self._log_file.fileno()  # the child shares the position of this file, so `pread` must not move it
        return self._past_log + os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def _shown_log(self) -> str:
        lines = self.log().splitlines()
        left_out = "...\n" if len(lines) > _SHOWN_LOG_LINES else ""
        return f"; it wrote:\n{left_out}" + "\n".join(lines[-_SHOWN_LOG_LINES:]) if lines else "; it wrote nothing"


def _pump(stdout: IO[str] | None, lines: SimpleQueue[str]) -> None:
    """Pass on all lines, so that the child never waits for us; then an empty line at the end."""
    assert stdout is not None
    with contextlib.suppress(ValueError, OSError):  # the pipe was closed meanwhile
        for line in stdout:
            lines.put(line)
    lines.put("")
