"""A log is opened as by the next start, and stays untouched."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headgate.spark.reading.log_reader import LogUnavailable
from headgate.spark.reading.recovered_log import OpenedLog, open_recovered
from headgate.spark.reading.tests.logs import DIRECTORY, PARTITION, fill, new_store
from headgate.spark.reading.tests.simulated_disk import SimulatedDisk
from headgate.storage.files import Files
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.tools.log.data_directory import DataDirectory
from headgate.tools.log.overlay import ReadOnlyFiles
from headgate.tools.tests.log_data import Data


def opened(disk: Files, path: str = "/data", known: OpenedLog | None = None) -> OpenedLog:
    return open_recovered(disk, DataDirectory.read(disk, path), PARTITION, known, lambda _: None)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_real_directory_stays_as_it_was(tmp_path: Path, is_clean: bool) -> None:
    with Data(tmp_path / "data", is_clean=is_clean) as data:
        end_offset = data.fill().end_offset
    last = data.segments()[-1]
    if not is_clean:
        last.write_bytes(last.read_bytes()[:-5])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    log = opened(ReadOnlyFiles(), str(tmp_path / "data")).log
    assert log.end_offset == (end_offset if is_clean else end_offset - 2)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_repairs_that_nobody_makes_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    files, _, log = new_store()
    fill(log)
    files.truncate_node(files.file(log.segments[-1].path), 100, "")
    with caplog.at_level(logging.DEBUG, "headgate.storage"):
        opened(SimulatedDisk(files))
        assert not caplog.records
        logging.getLogger("headgate.storage").warning("later lines are logged")
    assert len(caplog.records) == 1


def test_nothing_is_opened_twice_until_something_changes() -> None:
    files, store, log = new_store()
    fill(log)
    first = opened(SimulatedDisk(files))
    assert opened(SimulatedDisk(files), known=first).log is first.log
    fill(log, 1)
    second = opened(SimulatedDisk(files), known=first)
    assert (first.log.end_offset, second.log.end_offset) == (60, 62)
    log.advance_start(7)
    store.checkpoint({})
    assert opened(SimulatedDisk(files), known=second).log.start_offset == 7


def test_damage_below_the_recovery_point_is_named() -> None:
    files, store, log = new_store()
    fill(log)
    store.close()
    files.remove("/data/.kafka_cleanshutdown")
    files.truncate(log.segments[-1].path, 100)
    with pytest.raises(LogUnavailable, match=r"t-0: a start of its broker could not open /data/t-0: .*is damaged"):
        opened(SimulatedDisk(files))


def test_a_file_that_goes_meanwhile_is_looked_for_again() -> None:
    files, store, log = new_store()
    fill(log)
    store.close()

    class Retaining(SimulatedDisk):
        """Retention removes the oldest segment between the listing and the opening."""

        def open(self, path: str, *, create: bool = False) -> object:  # type: ignore[override]
            if path == log.segments[0].path and self.files.exists(path):
                for suffix in (".log", ".index", ".timeindex"):
                    self.files.remove(path.replace(".log", suffix))
            return super().open(path, create=create)

    files.remove("/data/.kafka_cleanshutdown")
    files.remove("/data/recovery-point-offset-checkpoint")
    assert opened(Retaining(files)).log.start_offset == log.segments[1].base_offset


def test_a_missing_directory_is_named() -> None:
    files: CrashingFiles
    files, _, _ = new_store()
    files.remove_tree(DIRECTORY)
    with pytest.raises(LogUnavailable, match="t-0"):
        opened(SimulatedDisk(files))
