"""What a check says of files that are not as they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.storage.config import LogConfig
from headgate.storage.files import Files
from headgate.tools.log.data_directory import DataDirectory, PartitionDirectory
from headgate.tools.log.verification import partition_check
from headgate.tools.log.verification.partition_check import PartitionFinding, PartitionReport
from headgate.tools.tests.log_data import SMALL, Data, change, positions


def report(data: Data, interval_bytes: int = 4096) -> PartitionReport:
    found = DataDirectory.read(Files(), str(data.path))
    partition = PartitionDirectory(str(data.directory()), "t", 0)
    return partition_check.verify_partition(found, partition, lambda count, what: None, interval_bytes)


def findings(data: Data) -> list[PartitionFinding]:
    return report(data).findings


@pytest.fixture
def killed(tmp_path: Path) -> Data:
    with Data(tmp_path / "data", is_clean=False) as made:
        made.fill()
    return made


def test_a_valid_partition_has_no_findings(data: Data) -> None:
    found = report(data)
    assert (found.findings, found.start_offset, found.end_offset) == ([], 0, 80)
    assert {one.indexes for one in found.segments} == {partition_check.SAME}
    assert sum(one.records for one in found.segments) == 80


@pytest.mark.parametrize("interval_bytes", [0, 200, 500, 4096])
def test_the_interval_of_indexes_need_not_be_known(tmp_path: Path, interval_bytes: int) -> None:
    config = LogConfig(segment_bytes=2000, index_interval_bytes=interval_bytes)
    with Data(tmp_path / "data", config) as data:
        data.fill()
    found = report(data)
    assert {one.indexes for one in found.segments} == {partition_check.SAME}
    assert SMALL.index_interval_bytes == 200


def test_a_killed_broker_leaves_no_findings(killed: Data) -> None:
    found = report(killed)
    assert found.findings == []
    assert {one.indexes for one in found.segments} <= {partition_check.SAME, partition_check.UNFINISHED}
    assert found.segments[-1].indexes == partition_check.UNFINISHED


def test_damage_is_corrupt_after_a_stop_and_torn_after_a_kill(data: Data) -> None:
    log = data.segments()[-1]
    change(log, positions(log)[-1] + 70)
    (finding,) = (one for one in findings(data) if one.path == str(log))
    assert (finding.kind, "offsets 78 on" in finding.problem or "78" in finding.problem) == ("corrupt", True)
    (data.path / ".kafka_cleanshutdown").unlink()
    (data.path / "recovery-point-offset-checkpoint").unlink()
    assert [one.kind for one in findings(data) if one.path == str(log)] == ["torn"]


def test_a_partial_append_of_a_running_broker_is_no_finding(killed: Data) -> None:
    log = killed.segments()[-1]
    log.write_bytes(log.read_bytes()[:-10])
    assert [one.kind for one in findings(killed) if one.path == str(log)] == ["torn"]
    found = DataDirectory.read(Files(), str(killed.path))
    found.lock_holder, found.high_watermarks = 1, {}
    partition = PartitionDirectory(str(killed.directory()), "t", 0)
    assert partition_check.verify_partition(found, partition, lambda count, what: None).findings == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_wrong_or_missing_index_is_found(data: Data, suffix: str) -> None:
    index = data.segments()[0].with_suffix(suffix)
    held = index.read_bytes()
    for content in (
        held[:-1] + b"\xff",
        held + bytes(12 if suffix == ".timeindex" else 8),
        held[:-3],
    ):
        index.write_bytes(content)
        (finding,) = findings(data)
        assert (finding.kind, finding.path) == ("index", str(data.segments()[0]))
        assert finding.problem.startswith(f"{suffix} is wrong;")
    index.unlink()
    assert [one.problem.partition(";")[0] for one in findings(data)] == [f"{suffix} is missing"]


def test_other_right_entries_are_no_finding(data: Data) -> None:
    """As Apache Kafka's brokers make them: here one in the middle is left out."""
    index = data.segments()[0].with_suffix(".index")
    held = index.read_bytes()
    index.write_bytes(held[:8] + held[16:])
    found = report(data)
    assert found.findings == []
    assert found.segments[0].indexes in {partition_check.OTHER, partition_check.SAME}


def test_a_wrong_or_missing_epoch_checkpoint_is_found(data: Data) -> None:
    path = data.directory() / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n1 44\n")
    (finding,) = findings(data)
    assert (finding.kind, finding.path) == ("epochs", str(path))
    assert finding.problem.startswith("2 batches of ")
    path.unlink()
    assert "missing" in findings(data)[0].problem
    (data.path / ".kafka_cleanshutdown").unlink()
    assert "missing" in findings(data)[0].problem
    points = data.path / "recovery-point-offset-checkpoint"
    held = points.read_text()
    points.write_text("0\n0\n")
    assert findings(data) == [], "a broker writes it with the first flush"
    points.write_text(held)
    path.write_text("0\n1\nx\n")
    assert [one.kind for one in findings(data)] == ["file"]
    path.write_bytes(b"")
    assert findings(data) == []


def test_a_log_that_ends_below_a_checkpoint_is_found(data: Data) -> None:
    (data.path / "replication-offset-checkpoint").write_text("0\n1\nt 0 90\n")
    (finding,) = findings(data)
    assert finding.kind == partition_check.CORRUPT
    assert finding.problem == "the log ends at offset 80, and the high watermark is 90: the records between are gone"
    (data.path / ".kafka_cleanshutdown").unlink()
    assert [one.kind for one in findings(data)] == [partition_check.TORN]  # by default it was in the page cache only


def test_missing_offsets_are_counted(data: Data) -> None:
    """A segment that somebody has deleted; or it was compaction, which says so."""
    gone = data.segments()[1]
    count = int(data.segments()[2].stem) - int(gone.stem)
    for path in data.directory().glob(f"{gone.stem}.*"):
        path.unlink()
    found = report(data)
    assert (found.missing_offsets, [one.kind for one in found.findings]) == (count, [])
    (data.path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 70\n")
    assert report(data).missing_offsets == 0


def test_a_wrong_producer_snapshot_is_found(data: Data) -> None:
    last = data.directory() / f"{80:020}.snapshot"
    content = last.read_bytes()
    last.write_bytes(content[:-1])
    assert "wrong CRC or length" in findings(data)[0].problem
    last.write_bytes(min(data.directory().glob("*.snapshot")).read_bytes())
    (finding,) = findings(data)
    assert finding.kind == "snapshot"
    assert finding.problem.startswith("producer 7 wrote sequence 79 at offset 79, and the snapshot says sequence ")
    last.rename(data.directory() / f"{81:020}.snapshot")
    assert findings(data)[0].problem.startswith("its offset is 81, and the log ends at 80")
