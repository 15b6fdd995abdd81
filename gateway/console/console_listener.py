"""The console's listener: holds the port, and starts the console's process at the first visit.

Until then the cost is a listening socket. The process (`headgate console`, `tools/console/`) gets the socket as a
descriptor and accepts the visitors itself, so that the broker's loop is left alone. If the process ends, the next visit
starts another; if a process cannot start, the waiting visitors get a sentence, and the next visit tries again. The
process ends with the broker: its standard input is a pipe that closes then.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import trio

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.config.listeners import is_every_address
from headgate.gateway.runtime.own_program import command_of

BACKLOG: Final = 64
READY: Final = b"headgate console ready"
START_S: Final = 60.0
PAUSE_S: Final = 5.0
"""After a process that could not start."""
MOST_WAITING: Final = 64
LINE_BYTES: Final = 4_096
MISSING: Final = "the console is not installed: pip install 'headgate[console]', and start the broker again"
_MODULES: Final = ("starlette", "hypercorn")
_PROTOCOLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL")
"""The console connects by the first of these that a listener has."""
_LEVELS: Final = {name: logging.getLevelNamesMapping()[name] for name in ("INFO", "WARNING", "ERROR", "CRITICAL")}
_REFUSAL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"The console did not start; the broker's log says why.\n"
)

logger = logging.getLogger("headgate.console")


class ConsoleCommand(NamedTuple):
    """The arguments of `headgate console`, and the client properties that it reads from a descriptor."""

    arguments: Sequence[str]
    properties: str = ""


def is_installed() -> bool:
    """Whether the extra `console` is installed; nothing of it is imported."""
    return all(find_spec(name) is not None for name in _MODULES)


def check_files(config: BrokerConfig) -> None:
    """Check that the files of the console's settings exist; the console reads them. Raises ConfigError."""
    schemas, descriptor_set = config.headgate_console_schemas, config.headgate_console_descriptor_set
    problems = []
    if schemas and not schemas.startswith(("http://", "https://")) and not Path(schemas).is_dir():
        problems.append(
            f"headgate.console.schemas={schemas}: there is no such folder; name one with files <id>.avsc, or a registry"
            " (http://...)"
        )
    if descriptor_set and not Path(descriptor_set).is_file():
        problems.append(
            f"headgate.console.descriptor.set={descriptor_set}: there is no such file; protoc --include_imports"
            " --descriptor_set_out=file writes one"
        )
    if problems:
        raise ConfigError(problems)


def make_command(config: BrokerConfig, endpoints: Sequence[str], http_endpoints: Sequence[str]) -> ConsoleCommand:
    """The console of this broker. `endpoints`: NAME://host:port of its listeners."""
    protocols = config.listener_security_protocol_map
    by_protocol: dict[str, str] = {}
    for endpoint in endpoints:
        name, _, address = endpoint.partition("://")
        by_protocol.setdefault(protocols[name], _near(address))
    protocol = next(each for each in _PROTOCOLS if each in by_protocol)
    arguments = ["--bootstrap-server", by_protocol[protocol]]
    plain = [endpoint for endpoint in http_endpoints if endpoint.startswith("http://")]
    plain += config.headgate_console_http
    if plain:
        arguments += ["--http", ",".join(plain)]
    if config.headgate_console_write:
        arguments.append("--write")
    if config.headgate_console_schemas:
        arguments += ["--schemas", config.headgate_console_schemas]
    if config.headgate_console_descriptor_set:
        arguments += ["--descriptor-set", config.headgate_console_descriptor_set]
    return ConsoleCommand(arguments, "" if protocol == "PLAINTEXT" else _properties(config, protocol))


def _near(address: str) -> str:
    """The address as a client of this machine connects to it."""
    host, _, port = address.rpartition(":")
    return f"127.0.0.1:{port}" if is_every_address(host.strip("[]")) else address


def _properties(config: BrokerConfig, protocol: str) -> str:
    """Client properties: the protocol, and whom the broker itself trusts. Visitors bring the login."""
    lines = [f"security.protocol={protocol}"]
    for name in ("location", "password", "type", "certificates"):
        value = config[f"ssl.truststore.{name}"]
        if value is not None and protocol.endswith("SSL"):
            text = str(getattr(value, "text", value))
            lines.append(f"ssl.truststore.{name}=" + text.replace("\\", "\\\\").replace("\n", "\\n"))
    return "\n".join(lines) + "\n"


class ConsoleListener:
    """Starts the console at a visit, and again after its end."""

    def __init__(self, sockets: Sequence[socket.socket], command: ConsoleCommand) -> None:
        """`sockets` listen already, and stay open."""
        self._sockets = sockets
        self._command = command
        self.pid: int | None = None
        """Of the running process."""

    async def serve(self) -> None:
        """Serve until cancelled; then no process is left."""
        while True:
            await self._wait_for_visit()
            try:
                is_ready = await self._run()
            except OSError as error:
                logger.error("cannot start the console: %s; the next visit tries again", error)
                is_ready = False
            if not is_ready:
                self._refuse_waiting()
                await trio.sleep(PAUSE_S)

    async def _wait_for_visit(self) -> None:
        async with trio.open_nursery() as nursery:
            for listening in self._sockets:
                nursery.start_soon(_wait_readable, listening, nursery.cancel_scope)

    async def _run(self) -> bool:
        """Run one process to its end. Returns whether it was ready. Raises OSError."""
        read_end, write_end = os.pipe() if self._command.properties else (None, None)
        passed = [] if read_end is None else [read_end]
        try:
            process = await trio.lowlevel.open_process(
                self._arguments(read_end),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[*(each.fileno() for each in self._sockets), *passed],
                start_new_session=True,  # Ctrl-C is for the broker, which ends the console
            )
        except BaseException:
            if write_end is not None:
                os.close(write_end)
            raise
        finally:
            for descriptor in passed:
                os.close(descriptor)
        self.pid = process.pid
        try:
            async with trio.open_nursery() as nursery:
                if write_end is not None:
                    nursery.start_soon(_send, write_end, self._command.properties.encode())
                is_ready = await _attend(process)
                nursery.cancel_scope.cancel()
            return is_ready
        finally:
            self.pid = None
            await _end(process)

    def _arguments(self, read_end: int | None) -> list[str]:
        arguments = [*self._command.arguments, "--exit-with-parent"]
        for listening in self._sockets:
            arguments += ["--descriptor", str(listening.fileno())]
        if read_end is not None:
            arguments += ["--command-config", f"/dev/fd/{read_end}"]
        return command_of("console", *arguments)

    def _refuse_waiting(self) -> None:
        """Answer the visitors that no process has accepted: else they would wait, and start another at once."""
        for listening in self._sockets:
            listening.setblocking(False)
            for _ in range(MOST_WAITING):
                try:
                    visitor, _ = listening.accept()
                except OSError:
                    break
                with visitor:
                    visitor.setblocking(False)
                    try:
                        visitor.recv(LINE_BYTES)  # a close with unread bytes would take the answer away
                        visitor.send(_REFUSAL)
                    except OSError:
                        pass


async def _wait_readable(listening: socket.socket, scope: trio.CancelScope) -> None:
    await trio.lowlevel.wait_readable(listening)
    scope.cancel()


async def _send(descriptor: int, properties: bytes) -> None:
    """Send the client properties through a pipe, so that no file has a password; trust stores may be large."""
    async with trio.lowlevel.FdStream(descriptor) as stream:
        with contextlib.suppress(trio.BrokenResourceError):  # the process has ended, and its end is logged
            await stream.send_all(properties)


async def _attend(process: trio.Process) -> bool:
    """Log the errors of a process, until it ends. Returns whether it was ready."""
    assert process.stdout is not None
    is_ready = False
    async with trio.open_nursery() as nursery:
        assert process.stderr is not None
        nursery.start_soon(_log_lines, process.stderr)
        with trio.move_on_after(START_S):
            is_ready = (await process.stdout.receive_some(LINE_BYTES)).startswith(READY)
        if is_ready:
            logger.info("the console has started as process %d", process.pid)
            await process.wait()
            logger.warning("the console has ended (%s); the next visit starts another", _outcome(process.returncode))
        else:
            logger.error("the console did not start; the next visit tries again")
            process.kill()
            await process.wait()
    return is_ready


def _outcome(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with code {code}"


async def _log_lines(stream: trio.abc.ReceiveStream) -> None:
    """The lines of a process are lines of the broker's log, with their own level if they have one."""
    rest = b""
    async for data in stream:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.strip():
                logger.log(*_level_and_text(line[:LINE_BYTES].decode("utf-8", "replace")))
        rest = rest[:LINE_BYTES]


def _level_and_text(line: str) -> tuple[int, str, str]:
    """Of `INFO headgate.console.changes: text`; of another line, as of a traceback, WARNING and the line."""
    level, _, rest = line.partition(" ")
    name, colon, text = rest.partition(": ")
    if colon and level in _LEVELS and name.startswith("headgate."):
        return _LEVELS[level], "%s", text
    return logging.WARNING, "%s", line


async def _end(process: trio.Process) -> None:
    """End a process that runs: it has nothing to keep."""
    with trio.CancelScope(shield=True):
        if process.returncode is None:
            process.kill()
            await process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                await trio.aclose_forcefully(stream)
