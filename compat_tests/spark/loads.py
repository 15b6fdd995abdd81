"""`headgate spark load` from outside: topics with transactions, runs of the command, a plain reader of the folder."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Producer

from compat_tests.harness.broker import installed_command
from compat_tests.spark import jvm

Place = tuple[str, int, int]
LIMIT_S = 240


class Written:
    """What the topics hold for a consumer with read_committed."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self.bootstrap = bootstrap
        self.random = random.Random(seed)
        self.committed: dict[Place, tuple[bytes | None, bytes | None]] = {}

    def plain(self, topic: str, count: int, codec: str = "zstd") -> None:
        self._produce(Producer(self._settings(codec)), topic, count, self.committed)

    def transactions(self, topic: str, count: int) -> None:
        """So many transactions of one producer; every other one is aborted."""
        name = f"load-{self.random.randrange(1 << 30)}"
        producer = Producer({**self._settings("lz4"), "transactional.id": name})
        producer.init_transactions(30)
        for number in range(count):
            own: dict[Place, tuple[bytes | None, bytes | None]] = {}
            producer.begin_transaction()
            self._produce(producer, topic, self.random.randint(1, 200), own)
            if number % 2:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
                self.committed |= own

    def _settings(self, codec: str) -> dict[str, str]:
        settings = {"bootstrap.servers": self.bootstrap, "compression.type": codec, "linger.ms": "5"}
        return {**settings, "partitioner": "random"}

    def _produce(
        self, producer: Producer, topic: str, count: int, found: dict[Place, tuple[bytes | None, bytes | None]]
    ) -> None:
        def note(error: Any, message: Any) -> None:
            assert error is None, error
            found[topic, message.partition(), message.offset()] = message.key(), message.value()

        for number in range(count):
            key = None if number % 7 == 0 else f"key {number % 50}"
            value = None if number % 31 == 0 else f"value {number} {self.random.random()}"
            producer.produce(topic, value, key, on_delivery=note)
            if number % 10_000 == 0:
                producer.flush()
        producer.flush()


def command(*words: str) -> list[str]:
    return [*installed_command(), "spark", *words]


def complete(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), capture_output=True, text=True, env=jvm.environment(), timeout=LIMIT_S, check=False
    )


def run(*words: str) -> list[dict[str, Any]]:
    """The rows of a command that must succeed."""
    done = complete(words)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def fail(*words: str) -> str:
    """What a command says that must fail."""
    done = complete(words)
    assert done.returncode == 1, f"{words}: {done.returncode}, {done.stderr}"
    return done.stderr


@contextlib.contextmanager
def started(*words: str, errors: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a process group of its own, ended with all its children whatever happens."""
    with errors.open("ab") as file:
        process = subprocess.Popen(
            command(*words), stdout=subprocess.DEVNULL, stderr=file, env=jvm.environment(), start_new_session=True
        )
    children = {process.pid}
    try:
        yield process
    finally:
        children |= set(descendants(process.pid))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        process.wait()


def descendants(pid: int) -> dict[int, str]:
    """The command lines of all children of a process, and of theirs, by process id."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found, pending = {}, [pid]
    while pending:
        above = pending.pop()
        for child in (one for one, parent in parents.items() if parent == above):
            with contextlib.suppress(OSError):
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            pending.append(child)
    return found


def rows(folder: Path) -> dict[Place, tuple[bytes | None, bytes | None]]:
    """What a plain reader of the folder meets now. Fails for a record that is there twice, and for half a file."""
    import pyarrow.parquet as pq

    found: dict[Place, tuple[bytes | None, bytes | None]] = {}
    for path in sorted(folder.glob("**/*.parquet")):
        with pq.ParquetFile(path) as file:
            table = file.read(columns=["topic", "partition", "offset", "key", "value"])
        columns = (table.column(name).to_pylist() for name in table.schema.names)
        named = dict(zip(table.schema.names, columns, strict=True))
        places = list(zip(named["topic"], named["partition"], named["offset"], strict=True))
        assert found.keys().isdisjoint(places), f"{path} has records that are in the folder already"
        found.update(zip(places, zip(named["key"], named["value"], strict=True), strict=True))
        assert len(set(places)) == len(places), f"{path} has a record twice"
    return found


def assert_exact(folder: Path, written: Written, topics: Sequence[str] = ()) -> None:
    """The folder has the committed records and nothing else, and `verify` agrees."""
    expected = {place: content for place, content in written.committed.items() if not topics or place[0] in topics}
    found = rows(folder)
    assert len(found) == len(expected), f"{len(found)} rows, {len(expected)} records are committed"
    assert found == expected
    run("verify", str(folder))


class PlainReader:
    """Reads a folder in a loop while loads write it."""

    def __init__(self, folder: Path) -> None:
        self.looks = 0
        self.error: BaseException | None = None
        self._folder = folder
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        before: set[Place] = set()
        try:
            while not self._ended.wait(0.3):
                found = rows(self._folder).keys()
                assert before <= found, "rows have disappeared"
                before, self.looks = set(found), self.looks + 1
        except BaseException as error:  # noqa: BLE001 - the thread of the test raises it
            self.error = error
