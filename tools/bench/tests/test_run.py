"""Rows on a running Headgate, each for a moment: whatever a row arranges, loads and reads is there."""

import io
import math
import resource
import shutil
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path

import pytest

from headgate.tools.bench.measuring.brokers import KAFKA, Broker, HeadgateLauncher, Launcher
from headgate.tools.bench.measuring.figures import Sample
from headgate.tools.bench.measuring.generator import PROGRAMS, compile_program
from headgate.tools.bench.measuring.target import Target
from headgate.tools.bench.report import Journal, Progress
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError, exchange
from headgate.tools.bench.rows import compaction, scrape
from headgate.tools.bench.rows.bystander import BYSTANDERS, BystanderRow, CreateTopicsRow, ManyMetadataRow
from headgate.tools.bench.rows.coordinators.coordinator_load import coordinator_load
from headgate.tools.bench.rows.coordinators.groups import RebalanceRow
from headgate.tools.bench.rows.coordinators.transaction_load import transaction_load
from headgate.tools.bench.rows.floor import ECHO, echo_beside
from headgate.tools.bench.rows.idle import idle_connection_bytes, raise_file_limit
from headgate.tools.bench.rows.restart import Recovery, Restart, RestartManyPartitions
from headgate.tools.bench.rows.row import MEBIBYTE, MetadataRow, Row, Run
from headgate.tools.bench.rows.table import ROWS
from headgate.tools.bench.run import Bench, Settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sockets,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on the path"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("programs")
    for name in PROGRAMS:
        compile_program(name, directory)
    return directory


@pytest.fixture(scope="module")
def target(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    directory = tmp_path_factory.mktemp("headgate")
    broker = HeadgateLauncher().start(directory / "broker")
    yield Target(broker, programs, directory, broker.client.versions())
    broker.stop()


def small(name: str) -> Row:
    row = ROWS[name]
    if isinstance(row, RebalanceRow):
        return replace(row, connections=10, partitions=25)
    if isinstance(row, ManyMetadataRow):
        return replace(row, topics=30, named=10)
    if isinstance(row, CreateTopicsRow):
        return replace(row, created=5)
    if isinstance(row, BystanderRow):
        return replace(row, topics=20)
    if "resident_bytes" in {field.name for field in fields(row)}:
        return replace(row, resident_bytes=MEBIBYTE)  # type: ignore[call-arg]
    return row


@pytest.mark.parametrize(
    "name",
    [
        "produce-tiny",
        "produce-1m-newest",
        "fetch-1m",
        "fetch-4k-newest",
        "metadata",
        "floor",
        "long-poll",
        "end-to-end-1k",
        "end-to-end-10k",
        "librdkafka-fetch",
        "offset-commit",
        "offset-commit-newest",
        "heartbeat",
        "heartbeat-kip848",
        "txn-64",
        "txn-64-new",
        "fetch-committed",
        "group-500",
        "group-500-kip848",
        *BYSTANDERS,
    ],
)
def test_a_row_has_a_figure_for_everything_it_promises(target: Target, name: str) -> None:
    row = small(name).at_version_of([target.versions])
    with ExitStack() as stack:
        runs = row.runs([target], stack)
        samples = {broker: run(0.2) for broker, run in runs.items()}
    assert set(samples) == ({target.name, ECHO} if name == "floor" else {target.name})
    for sample in samples.values():
        assert sample.requests > 0
        assert sample.server_cpu_seconds > 0
        assert all(math.isfinite(figure.of(sample)) and figure.of(sample) > 0 for figure in row.figures)


def test_a_scrape_shows_every_partition_and_group(target: Target) -> None:
    row = replace(scrape.ROW, topics=3, partitions=2, groups=3)
    with ExitStack() as stack:
        runs = row.runs([replace(target, launcher=HeadgateLauncher())], stack)
        sample = runs[target.name](0.2)
    assert sample.requests > 1
    assert all(figure.of(sample) > 0 for figure in row.figures)


class Failing(MetadataRow):
    """As a row whose load found a wrong answer."""

    @contextmanager
    def opened(self, target: Target) -> Iterator[Run]:
        def run(seconds: float) -> Sample:
            raise BenchError("load: Metadata answer: no broker")

        yield run


def test_a_row_that_fails_leaves_the_others_their_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    metadata = ROWS["metadata"]
    failing = Failing("failing", metadata.figures, 1, 1)
    monkeypatch.setattr("headgate.tools.bench.run.ROWS", {"failing": failing, "metadata": metadata})
    journal = Journal(tmp_path / "run.json")
    settings = Settings(["failing", "metadata", "memory"], repetitions=1, seconds=0.05, warm_up_seconds=0.03)
    Bench(settings, [HeadgateLauncher()], tmp_path, journal, Progress(6, io.StringIO())).run()
    assert journal.failures == ["failing has no figure: load: Metadata answer: no broker"]
    assert [line.row for line in journal.lines] == ["memory", *["metadata"] * len(metadata.figures), "memory"]


def test_the_order_of_the_legs_changes_with_each_turn(tmp_path: Path) -> None:
    order = []

    def leg(name: str) -> Run:
        def run(_: float) -> Sample:
            order.append(name)
            return Sample(1, 1, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0)

        return run

    bench = Bench(Settings((), 4, 1.0), [], tmp_path, Journal(tmp_path / "journal"), Progress(8, io.StringIO()))
    turns = bench.turns(replace(ROWS["metadata"], least_seconds=1.0), {"a": leg("a"), "b": leg("b")})
    assert "".join(order) == "abbaabba"
    assert [list(turn) for turn in turns] == [["a", "b"]] * 4


def test_resident_data_is_made_once(target: Target) -> None:
    row = small("fetch-64k")
    with ExitStack() as stack:
        row.runs([target], stack)
        kept = dict(target.kept)
        row.runs([target], stack)
    assert target.kept == kept


def test_the_echo_answers_with_the_bytes_it_was_given(target: Target) -> None:
    request = frames.metadata(1, ["floor"])
    with echo_beside(target, bytes(4) + b"answer") as echo, echo.broker.client.connect() as connection:
        assert exchange(connection, request) == bytes(4) + b"answer"
        assert echo.broker.process.pid != target.broker.process.pid


def test_without_headgate_there_is_no_floor() -> None:
    kafka = Target(Broker(KAFKA, None, 9092, Path("data")), Path("programs"), Path("scratch"), {})  # type: ignore[arg-type]
    with ExitStack() as stack:
        assert not ROWS["floor"].runs([kafka], stack)


class EchoLauncher(Launcher):
    """The echo server as a broker: its answer to everything is Metadata with one broker."""

    name = ECHO

    def __init__(self, programs: Path) -> None:
        self.programs = programs

    def command(self, directory: Path, data: Path, port: int) -> list[str]:
        answer = bytes(4) + struct.pack(">iih4sih", 1, 0, 4, b"host", 9092, -1) + struct.pack(">ii", 0, 0)
        path = directory / "answer"
        path.write_bytes(struct.pack(">i", len(answer)) + answer)
        return [str(self.programs / ECHO), str(port), str(path)]


def test_a_connection_costs_what_its_buffers_take(programs: Path, tmp_path: Path) -> None:
    """The echo server has 64 KB for each, of which it touches the first page alone, and that of the allocator."""
    assert 4096 <= idle_connection_bytes(EchoLauncher(programs), tmp_path / "echo", connections=300) <= 16384


def test_committed_offsets_are_there_after_a_restart(programs: Path, tmp_path: Path) -> None:
    """Of as many groups as are needed for each partition of the offsets to have one."""
    loaded = coordinator_load(HeadgateLauncher(), tmp_path / "load", programs, groups=200, partitions=3)
    assert 0 < loaded.metadata_seconds < loaded.half_seconds <= loaded.all_seconds
    assert loaded.cpu_seconds > 0
    assert loaded.resident_megabytes > 1


def test_transactional_ids_are_there_after_a_restart(programs: Path, tmp_path: Path) -> None:
    loaded = transaction_load(HeadgateLauncher(), tmp_path / "load", programs, transactional_ids=200)
    assert 0 < loaded.metadata_seconds < loaded.half_seconds <= loaded.all_seconds
    assert loaded.cpu_seconds > 0
    assert loaded.resident_megabytes > 1


@pytest.mark.parametrize(
    "row", [RestartManyPartitions(150), RestartManyPartitions(150, is_killed=True), Recovery(2 * MEBIBYTE)]
)
def test_every_partition_is_served_after_a_restart(row: Restart, programs: Path, tmp_path: Path) -> None:
    with row.opened(HeadgateLauncher(), tmp_path / "restarted", programs) as run:
        for _ in range(2):
            restarted = run()
            assert 0 < restarted.metadata_seconds <= restarted.all_seconds
            assert restarted.cpu_seconds > 0
            assert restarted.resident_megabytes > 1


def test_a_log_is_compacted_beside_a_client(programs: Path, tmp_path: Path) -> None:
    row = compaction.Compaction(1024, 24 * MEBIBYTE, messages=200, settle_seconds=0, segment_bytes=8 * MEBIBYTE)
    with row.opened(HeadgateLauncher(), tmp_path / "compaction", programs) as run:
        made = run()
    assert made.megabytes_per_second > 1
    assert made.cpu_seconds_per_gigabyte > 0
    assert 0 < made.p50_beside_us <= made.p99_beside_us
    assert made.p99_without_us > 0


def test_files_are_allowed_up_to_the_hard_limit() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        raise_file_limit(300)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, before[1])
        raise_file_limit(200)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
