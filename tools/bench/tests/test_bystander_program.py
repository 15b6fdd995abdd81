"""The program of the bystander, against servers that answer at once, late or wrongly; and a load in the background."""

import shutil
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.tools.bench.measuring.generator import Bystander, Load, compile_program, run_load
from headgate.tools.bench.measuring.target import Topic
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.requests.templates import write_templates
from headgate.tools.bench.rows.bystander import Background
from headgate.tools.bench.rows.row import BATCH_TINY, produce_templates

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sockets,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on the path"),
]

BATCH = BATCH_TINY.build()
LATE_SECONDS = 0.05


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("programs")
    for name in ("bystander", "load"):
        compile_program(name, directory)
    return directory


@contextmanager
def serving(late_seconds: float = 0.0, error: int = 0) -> Iterator[int]:
    """Answers Produce 7 so late; its port."""
    never = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as requests:
            while size := requests.read(4):
                request = requests.read(*struct.unpack(">i", size))
                key, _, correlation_id = struct.unpack_from(">hhi", request)
                body = b""
                if key == frames.PRODUCE:
                    never.wait(late_seconds)
                    body = struct.pack(">ih1si", 1, 1, b"t", 1) + struct.pack(">ihqqqi", 0, error, 5, -1, 0, 0)
                connection.sendall(struct.pack(">ii", len(body) + 4, correlation_id) + body)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    threads = [threading.Thread(target=accept)]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads[0].start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()


def bystander(directory: Path, seconds: float) -> Bystander:
    path = directory / "templates"
    write_templates(path, produce_templates(Topic("t", bytes(16), 1), BATCH, 7))
    return Bystander(7, path, 2000, seconds)


def test_a_request_is_sent_every_interval(programs: Path, tmp_path: Path) -> None:
    with serving() as port:
        result = run_load(programs, bystander(tmp_path, 0.4), port)
    assert 0 < result.requests <= 201
    assert result.record_bytes == result.requests * len(BATCH)
    assert result.seconds >= 0.4
    assert 0 < result.p50_us <= result.p99_us <= result.max_us * 1.02


def test_a_long_wait_counts_for_every_request_that_was_due(programs: Path, tmp_path: Path) -> None:
    """The median over requests would be the whole wait; over time it is half of it."""
    with serving(LATE_SECONDS) as port:
        result = run_load(programs, bystander(tmp_path, 0.5), port)
    assert result.requests <= 0.5 / LATE_SECONDS + 1
    assert result.mean_us >= LATE_SECONDS * 1e6
    assert 0.25 < result.p50_us / result.mean_us < 0.75
    assert result.p99_us > 0.8 * result.mean_us


def test_an_error_ends_the_run(programs: Path, tmp_path: Path) -> None:
    with serving(error=6) as port, pytest.raises(BenchError, match="bystander: Produce answer: error code 6"):
        run_load(programs, bystander(tmp_path, 0.1), port)


def load(directory: Path) -> Load:
    return Load(frames.PRODUCE, 7, bystander(directory, 1.0).templates, connections=1, seconds=0.1)


def target(programs: Path, port: int) -> Any:
    return SimpleNamespace(generators=programs, broker=SimpleNamespace(port=port))


def test_a_load_in_the_background_lives_until_the_block_ends(programs: Path, tmp_path: Path) -> None:
    with serving() as port:
        with Background(target(programs, port), load(tmp_path)) as background:
            process_ids: list[int] = []
            run_load(programs, bystander(tmp_path, 0.3), port, lambda _: process_ids.append(background.start()))
            assert Path(f"/proc/{process_ids[0]}").exists()
        assert background.result().requests > 0


def test_a_load_that_fails_at_once_is_named(programs: Path, tmp_path: Path) -> None:
    with serving() as port:
        wrong = Load(frames.API_VERSIONS, 0, load(tmp_path).templates, connections=1, seconds=0.1)
        with Background(target(programs, port), wrong) as background, pytest.raises(BenchError, match="api=18"):
            background.start()


def test_a_load_that_fails_later_is_named_and_not_its_process(programs: Path, tmp_path: Path) -> None:
    with serving(error=3) as port:
        background = Background(target(programs, port), load(tmp_path))
        background.start()
        with pytest.raises(BenchError, match="load: Produce answer: error code 3"):
            background.__exit__(None, FileNotFoundError("/proc/1234/stat"), None)


def test_a_failure_before_the_load_is_not_waited_for(programs: Path, tmp_path: Path) -> None:
    background = Background(target(programs, 1), load(tmp_path))
    background.__exit__(None, FileNotFoundError("bystander"), None)
