"""ZooKeeper from Maven's jars: a server on its own, and the log of its transactions.

    with ZooKeeper() as zookeeper:
        zookeeper.connect           # '127.0.0.1:40123'
        zookeeper.writes()          # every write since the start, also of nodes that are gone by now

The log is read as the server writes it (`FileTxnLog`, jute): a header, then transactions, each with its CRC and length.
"""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, NamedTuple, Self

from compat_tests.harness import class_archive
from compat_tests.harness.apache_kafka import JARS, QUICK_START, KafkaFailed, java
from compat_tests.harness.ports import reserve

CREATE, DELETE, SET, CHECK, MULTI, CREATE_2, CLOSE_SESSION = 1, 2, 5, 13, 14, 15, -11
_HEADER_BYTES: Final = 16
_NAMES: Final = {CREATE: "create", CREATE_2: "create", DELETE: "delete", SET: "set", CHECK: "check"}


class Write(NamedTuple):
    """One operation of a transaction: `zxid` is the transaction's number; `data` is None for null."""

    zxid: int
    verb: str
    path: str
    data: bytes | None = None
    is_ephemeral: bool = False


class ZooKeeper:
    """One server on this machine. stop() and start() keep port and data; `tick_ms` bounds the sessions' timeouts.

    With `is_synced=False` it leaves the disk to the system: a busy disk would hold up every new session. Without a
    `directory` it has one for the length of the with-block; without a `port` it has any. `process_group=0` keeps a
    terminal's Ctrl-C from it. `archive` is an option of the JVM, by default the archive of its classes.
    """

    def __init__(
        self,
        *,
        tick_ms: int = 250,
        heap: str = "128m",
        timeout_s: float = 30,
        is_synced: bool = True,
        directory: Path | None = None,
        port: int = 0,
        archive: str = "",
        settings: Mapping[str, str] = MappingProxyType({}),
        options: Sequence[str] = (),
    ) -> None:
        """`settings`: more lines of the server's file. `options`: more of its JVM."""
        self.archive = archive
        self.options = tuple(options)
        self.is_own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="zookeeper-"))
        self.port = reserve(self, port)
        self.process_group: int | None = None
        self.heap = heap
        self.is_synced = is_synced
        self.timeout_s = timeout_s
        self.process: subprocess.Popen[bytes] | None = None
        self.output = self.directory / "server.log"
        self._configuration = self.directory / "zoo.cfg"
        lines = {
            "dataDir": str(self.directory / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "tickTime": str(tick_ms),
            "minSessionTimeout": "500",
            "maxSessionTimeout": "60000",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "maxClientCnxns": "0",
            **settings,
        }
        self._configuration.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    @property
    def connect(self) -> str:
        """host:port for zookeeper.connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "ZooKeeper does not run"
        return self.process.pid

    def start(self) -> None:
        """Start the server and wait until it serves."""
        sync = f"-Dzookeeper.forceSync={'yes' if self.is_synced else 'no'}"
        archive = (self.archive,) if self.archive else class_archive.options("zookeeper", work, JARS / "zookeeper")
        options = (f"-Xmx{self.heap}", sync, *QUICK_START, *archive, *self.options)
        main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = java(main_class, str(self._configuration), options=options, jar_set="zookeeper")
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=self.process_group
            )
        deadline = time.monotonic() + self.timeout_s
        while not self._is_serving():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise KafkaFailed(f"ZooKeeper does not serve on {self.connect}\n{self.output.read_text()[-4000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the server at once: the system has each of its writes."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self.is_own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def writes(self) -> list[Write]:
        """Every write in the log, in the order of the transactions; the end of a session deletes its nodes."""
        files = (self.directory / "data" / "version-2").glob("log.*")
        return [write for file in sorted(files, key=_first_zxid) for write in _read_log(file.read_bytes())]

    def _is_serving(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                return connection.recv(100).startswith(b"Zookeeper version")
        except OSError:
            return False


def work(option: str, scratch: Path) -> None:
    """A server that serves, and ends in order."""
    with ZooKeeper(directory=scratch, archive=option) as server:
        assert server.process is not None
        server.process.terminate()
        server.process.wait(server.timeout_s)


class _Jute:
    """A reader of jute's types."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def numbers(self, format_: str) -> tuple[int, ...]:
        values = struct.unpack_from(f">{format_}", self.data, self.at)
        self.at += struct.calcsize(f">{format_}")
        return values

    def buffer(self) -> bytes | None:
        (size,) = self.numbers("i")
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size : self.at]

    def string(self) -> str:
        return (self.buffer() or b"").decode()


def _first_zxid(file: Path) -> int:
    return int(file.name.removeprefix("log."), 16)


def _read_log(data: bytes) -> Iterator[Write]:
    at = _HEADER_BYTES
    while at + 12 <= len(data):
        _, size = struct.unpack_from(">qi", data, at)
        # Behind the last transaction are zeros; behind a whole one is an end mark
        if size == 0 or data[at + 12 + size : at + 13 + size] != b"B":
            return
        reader = _Jute(data[at + 12 : at + 12 + size])
        _, _, zxid, _, kind = reader.numbers("qiqqi")
        yield from _operations(zxid, kind, reader)
        at += 13 + size


def _operations(zxid: int, kind: int, reader: _Jute) -> Iterator[Write]:
    if kind == MULTI:
        (count,) = reader.numbers("i")
        for _ in range(count):
            (inner,) = reader.numbers("i")
            yield from _operations(zxid, inner, _Jute(reader.buffer() or b""))
    elif kind in {CREATE, CREATE_2}:
        path, data = reader.string(), reader.buffer()
        (count,) = reader.numbers("i")
        for _ in range(count):  # ACLs
            reader.numbers("i")
            reader.string()
            reader.string()
        (is_ephemeral,) = reader.numbers("?")
        yield Write(zxid, "create", path, data, bool(is_ephemeral))
    elif kind == SET:
        yield Write(zxid, "set", reader.string(), reader.buffer())
    elif kind in _NAMES:
        yield Write(zxid, _NAMES[kind], reader.string())
    elif kind == CLOSE_SESSION and reader.at < len(reader.data):
        (count,) = reader.numbers("i")
        for _ in range(count):
            yield Write(zxid, "delete", reader.string())
