"""The end-to-end generator against a broker of one partition in memory."""

import shutil
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from headgate.tools.bench.measuring.generator import Latency, compile_program, run_load
from headgate.tools.bench.measuring.target import Topic
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.requests.templates import template, write_templates
from headgate.tools.bench.rows.row import BATCH_TINY, produce_templates

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sockets,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on the path"),
]

TOPIC = Topic("t", bytes(16), 1)
BATCH = BATCH_TINY.build()


class OnePartition:
    """Serves ApiVersions, Produce 7 and Fetch 11: counts what is produced, and makes the batches of a fetch anew."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.changed = threading.Condition()
        self.records = 0
        self.largest_fetch = 1 << 30
        """Records."""
        self.invented = 0
        """Records that nobody produced."""
        self.threads: list[threading.Thread] = []

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.threads.append(threading.Thread(target=self.serve, args=(connection,)))
            self.threads[-1].start()

    def serve(self, connection: socket.socket) -> None:
        # A program that ends before it has read every answer resets its connections
        with suppress(ConnectionError), connection, connection.makefile("rb") as requests:
            while size := requests.read(4):
                request = requests.read(*struct.unpack(">i", size))
                key, _, correlation_id = struct.unpack_from(">hhi", request)
                body = self.produce() if key == frames.PRODUCE else self.fetch(request) if key == frames.FETCH else b""
                connection.sendall(struct.pack(">ii", len(body) + 4, correlation_id) + body)

    def produce(self) -> bytes:
        with self.changed:
            self.records += 1
            self.changed.notify_all()
            base = self.records - 1
        topic = struct.pack(">ih1si", 1, 1, b"t", 1)
        return topic + struct.pack(">ihqqqi", 0, 0, base, -1, 0, 0)

    def fetch(self, request: bytes) -> bytes:
        position = frames.fetch(11, "t", 0, frames.FetchOptions(1)).marks["fetch_offset"] - 4
        (offset,) = struct.unpack_from(">q", request, position)
        with self.changed:
            self.changed.wait_for(lambda: self.records > offset, timeout=0.5)
            end = min(self.records + self.invented, offset + self.largest_fetch)
        records = b"".join(struct.pack(">q", number) + BATCH[8:] for number in range(offset, end))
        head = struct.pack(">ihi", 0, 0, 0) + struct.pack(">ih1si", 1, 1, b"t", 1)
        return head + struct.pack(">ihqqqiii", 0, 0, end, end, 0, -1, -1, len(records)) + records


@pytest.fixture
def broker() -> Iterator[OnePartition]:
    one = OnePartition()
    accepting = threading.Thread(target=one.run)
    accepting.start()
    yield one
    one.listener.shutdown(socket.SHUT_RDWR)
    one.listener.close()
    accepting.join()
    for thread in one.threads:
        thread.join()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("programs")
    compile_program("latency", directory)
    return directory


def latency(directory: Path, rate: int, messages: int) -> Latency:
    path = directory / "templates"
    (produce,) = produce_templates(TOPIC, BATCH, 7)
    write_templates(path, [produce, template(frames.fetch(11, "t", 0, frames.FetchOptions(1 << 20)))])
    return Latency(7, 11, path, rate, messages)


@pytest.mark.parametrize("largest_fetch", [1, 1 << 30])
def test_every_record_is_timed_once_at_the_rate(
    programs: Path, tmp_path: Path, broker: OnePartition, largest_fetch: int
) -> None:
    broker.largest_fetch = largest_fetch
    result = run_load(programs, latency(tmp_path, 1000, 200), broker.port)
    assert (result.requests, result.record_bytes) == (200, 200 * len(BATCH))
    assert broker.records == 201  # one goes before, unmeasured
    assert result.seconds >= 0.199  # the last one is sent 199 ms after the first, however fast they are answered
    assert 0 < result.p50_us <= result.p99_us <= result.max_us * 1.02
    assert 0 < result.mean_us <= result.max_us


def test_a_record_that_was_never_sent_ends_the_run(programs: Path, tmp_path: Path, broker: OnePartition) -> None:
    broker.invented = 1000
    with pytest.raises(BenchError, match=r"latency: offset \d+ was fetched, \d+ were sent"):
        run_load(programs, latency(tmp_path, 100, 50), broker.port)


def test_two_templates_are_needed(programs: Path, tmp_path: Path) -> None:
    load = latency(tmp_path, 100, 50)
    write_templates(load.templates, produce_templates(TOPIC, BATCH, 7))
    with pytest.raises(BenchError, match="1 templates, Produce and Fetch are needed"):
        run_load(programs, load, 1)
