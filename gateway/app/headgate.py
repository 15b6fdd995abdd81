"""A broker inside a program or a test.

    with Headgate() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)

The broker is a process of its own, on a free port of 127.0.0.1, with its data in a temporary directory. So a test can
kill and restart the broker, and clients connect as to any broker. The broker ends with the program, however that ends.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from headgate.gateway.app.child_process import ChildProcess, HeadgateError

if TYPE_CHECKING:
    from headgate.gateway.app.in_process import InProcess

# Literals, so that a program imports no configuration with this module.
HTTP_SETTING, OLD_HTTP_SETTING = "headgate.http.listeners", "headgate.metrics.listener"
CONSOLE_SETTING = "headgate.console.listeners"
# Defaults for tests: a free port, no wait for more members when a group begins, no HTTP, as many brokers run at once,
# and no topic that the test did not ask for.
_DEFAULTS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    HTTP_SETTING: "",
    CONSOLE_SETTING: "",
    "headgate.census": "false",
}
# The local address of a broker that listens on all addresses: `[::]` is that of both families.
_NEAR = {"0.0.0.0": "127.0.0.1", "[::]": "127.0.0.1"}  # noqa: S104

_topic_numbers = itertools.count(1)


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
        if OLD_HTTP_SETTING in given and HTTP_SETTING not in given:
            del self._overrides[HTTP_SETTING]
        self._deadline_s = deadline_s
        self._keeps_data = directory is not None or "log.dirs" in given or "log.dir" in given
        self.directory = str(directory) if directory is not None else given.get("log.dirs", given.get("log.dir", ""))
        self._endpoints: Sequence[str] = ()
        self._runner: ChildProcess | InProcess = _in_process() if in_process else ChildProcess()
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
    def http(self) -> str:
        """The address of metrics and health, as in http://127.0.0.1:40123. Raises HeadgateError if there is none."""
        if not self._runner.http_endpoints:
            raise HeadgateError(
                'the broker serves no HTTP; start it with Headgate(headgate_http_listeners="http://127.0.0.1:0")'
            )
        return self._runner.http_endpoints[0]

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
        if isinstance(self._runner, ChildProcess):
            raise HeadgateError("the clock of another process cannot be moved; use Headgate(in_process=True)")
        self._runner.advance(milliseconds)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _in_process() -> InProcess:
    from headgate.gateway.app.in_process import InProcess

    return InProcess(os.getpid())


def _clean_up(runner: ChildProcess | InProcess, directory: str | None) -> None:
    runner.discard()
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)
