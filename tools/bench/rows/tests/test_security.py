"""Rows of security on a running Headgate, each for a moment."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path

import pytest

from headgate.tools.bench.measuring.brokers import HEADGATE, Broker, HeadgateLauncher
from headgate.tools.bench.measuring.generator import TLS_LOAD, compile_program
from headgate.tools.bench.measuring.secure_listeners import SecureListeners
from headgate.tools.bench.measuring.target import Target
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.rows import security
from headgate.tools.bench.rows.idle import idle_connection_bytes
from headgate.tools.bench.rows.row import MEBIBYTE
from headgate.tools.bench.rows.security import WITHOUT
from headgate.tools.bench.rows.table import BESIDE, ROWS, SECURE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sockets,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on the path"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("programs")
    compile_program("load", directory)
    return directory


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> HeadgateLauncher:
    made = HeadgateLauncher()
    made.secure_listeners = SecureListeners.with_key_of(tmp_path_factory.mktemp("key"))
    return made


@pytest.fixture(scope="module")
def target(programs: Path, launcher: HeadgateLauncher, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    directory = tmp_path_factory.mktemp("headgate")
    broker = launcher.start(directory / "broker")
    yield Target(broker, programs, directory, broker.client.versions(), launcher=launcher)
    broker.stop()


@pytest.mark.parametrize("name", SECURE)
def test_a_row_has_a_figure_over_tls_or_of_logins(target: Target, name: str) -> None:
    row = ROWS[name]
    if row.is_encrypted:
        try:
            compile_program(TLS_LOAD, target.generators)
        except BenchError as error:
            pytest.skip(str(error))
    if "resident_bytes" in {field.name for field in fields(row)}:
        row = replace(row, resident_bytes=MEBIBYTE)  # type: ignore[call-arg]
    with ExitStack() as stack:
        (run,) = row.runs([target], stack).values()
        sample = run(0.2)
    assert sample.requests > 0
    assert all(figure.of(sample) > 0 for figure in row.figures)


@pytest.mark.parametrize("name", [name for name in BESIDE if name.startswith("metadata")])
def test_a_row_compares_two_brokers(target: Target, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "ACL_COUNT", 20)
    with ExitStack() as stack:
        samples = {leg: run(0.1) for leg, run in ROWS[name].runs([target], stack).items()}
    assert list(samples) == [HEADGATE, WITHOUT]
    assert all(sample.requests > 0 and sample.server_cpu_seconds > 0 for sample in samples.values())


def test_the_two_brokers_of_a_row_start_alike(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[HeadgateLauncher] = []
    start = HeadgateLauncher.start

    def noted(launcher: HeadgateLauncher, directory: Path) -> Broker:
        started.append(launcher)
        return start(launcher, directory)

    monkeypatch.setattr(HeadgateLauncher, "start", noted)
    with ExitStack() as stack:
        assert len(ROWS["metadata-time-quotas"].runs([target], stack)) == 2
    alike = [(launcher.variables, launcher.secure_listeners) for launcher in started]
    assert alike == [({"PYTHONHASHSEED": "0"}, None)] * 2


def test_a_row_over_tls_needs_a_listener(programs: Path, target: Target) -> None:
    plain = replace(target, broker=replace(target.broker, secure_ports=None))
    with pytest.raises(BenchError, match="without the listeners"), ExitStack() as stack:
        ROWS["handshake"].runs([plain], stack)


def test_idle_connections_over_tls_have_a_size(launcher: HeadgateLauncher, tmp_path: Path) -> None:
    assert 4096 <= idle_connection_bytes(launcher, tmp_path / "idle", connections=100, is_encrypted=True) <= 65536
