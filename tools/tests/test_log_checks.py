"""What a check says of files that are not as they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.protocol.records.batch import BatchHeader
from headgate.storage.config import LogConfig
from headgate.storage.files import Files
from headgate.storage.log.producers import DEFAULT_EXPIRATION_MS, Producers
from headgate.storage.segment.transaction_index import TransactionIndex
from headgate.tools.log import checks
from headgate.tools.log.checks import Finding, Report, contradictions, is_as_good
from headgate.tools.log.places import DataDirectory, PartitionDirectory
from headgate.tools.tests.log_data import SMALL, Data, change, positions

NOW_MS = 10 * DEFAULT_EXPIRATION_MS


def report(data: Data, interval_bytes: int = 4096) -> Report:
    found = DataDirectory.read(Files(), str(data.path))
    partition = PartitionDirectory(str(data.directory()), "t", 0)
    return checks.check(found, partition, lambda count, what: None, interval_bytes)


def findings(data: Data) -> list[Finding]:
    return report(data).findings


@pytest.fixture
def data(tmp_path: Path) -> Data:
    with Data(tmp_path / "data") as made:
        made.fill()
    return made


@pytest.fixture
def killed(tmp_path: Path) -> Data:
    with Data(tmp_path / "data", is_clean=False) as made:
        made.fill()
    return made


def test_a_sound_partition(data: Data) -> None:
    found = report(data)
    assert (found.findings, found.start_offset, found.end_offset) == ([], 0, 80)
    assert {one.indexes for one in found.segments} == {checks.SAME}
    assert sum(one.records for one in found.segments) == 80


@pytest.mark.parametrize("interval_bytes", [0, 200, 500, 4096])
def test_the_interval_of_indexes_need_not_be_known(tmp_path: Path, interval_bytes: int) -> None:
    config = LogConfig(segment_bytes=2000, index_interval_bytes=interval_bytes)
    with Data(tmp_path / "data", config) as data:
        data.fill()
    found = report(data)
    assert {one.indexes for one in found.segments} == {checks.SAME}
    assert SMALL.index_interval_bytes == 200


def test_what_a_kill_leaves_is_no_fault(killed: Data) -> None:
    found = report(killed)
    assert found.findings == []
    assert {one.indexes for one in found.segments} <= {checks.SAME, checks.UNFINISHED}
    assert found.segments[-1].indexes == checks.UNFINISHED


def test_damage_after_a_stop_and_after_a_kill(data: Data) -> None:
    log = data.segments()[-1]
    change(log, positions(log)[-1] + 70)
    (finding,) = (one for one in findings(data) if one.path == str(log))
    assert (finding.kind, "offsets 78 on" in finding.problem or "78" in finding.problem) == ("corrupt", True)
    (data.path / ".kafka_cleanshutdown").unlink()
    (data.path / "recovery-point-offset-checkpoint").unlink()
    assert [one.kind for one in findings(data) if one.path == str(log)] == ["torn"]


def test_a_batch_that_a_broker_is_writing_is_no_fault(killed: Data) -> None:
    log = killed.segments()[-1]
    log.write_bytes(log.read_bytes()[:-10])
    assert [one.kind for one in findings(killed) if one.path == str(log)] == ["torn"]
    found = DataDirectory.read(Files(), str(killed.path))
    found.holder, found.high_watermarks = 1, {}
    partition = PartitionDirectory(str(killed.directory()), "t", 0)
    assert checks.check(found, partition, lambda count, what: None).findings == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes(data: Data, suffix: str) -> None:
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


def test_aborted_transactions_of_a_compacted_log() -> None:
    def entries(*rows: tuple[int, int, int, int]) -> bytes:
        return b"".join(TransactionIndex.ENTRY.pack(0, *row) for row in rows)

    made = entries((7, 10, 20, 21), (8, 15, 30, 31))
    assert is_as_good(made, made)
    assert is_as_good(entries((7, 8, 20, 19), (8, 15, 30, 25)), made)
    assert not is_as_good(entries((7, 11, 20, 21), (8, 15, 30, 31)), made)
    assert not is_as_good(entries((7, 10, 20, 22), (8, 15, 30, 31)), made)
    assert not is_as_good(entries((7, 10, 20, 21)), made)
    assert not is_as_good(made[:-1], made)
    assert not is_as_good(made, entries((7, 10, 20, 21)))
    assert is_as_good(made, entries((7, 10, 20, 21)), may_have_more=True)
    assert not is_as_good(entries((7, 10, 20, 21)), made, may_have_more=True)


def test_other_entries_that_are_true_are_no_fault(data: Data) -> None:
    """As Apache Kafka's brokers make them: here one in the middle is left out."""
    index = data.segments()[0].with_suffix(".index")
    held = index.read_bytes()
    index.write_bytes(held[:8] + held[16:])
    found = report(data)
    assert found.findings == []
    assert found.segments[0].indexes in {checks.OTHER, checks.SAME}


def test_epochs(data: Data) -> None:
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


def test_ends(data: Data) -> None:
    (data.path / "replication-offset-checkpoint").write_text("0\n1\nt 0 90\n")
    (finding,) = findings(data)
    assert finding.kind == checks.CORRUPT
    assert finding.problem == "the log ends at offset 80, and the high watermark is 90: what was between is gone"
    (data.path / ".kafka_cleanshutdown").unlink()
    assert [one.kind for one in findings(data)] == [checks.TORN]  # by default it was in the page cache only


def test_offsets_that_are_in_no_batch(data: Data) -> None:
    """A segment that somebody has deleted; or it was compaction, which says so."""
    gone = data.segments()[1]
    count = int(data.segments()[2].stem) - int(gone.stem)
    for path in data.directory().glob(f"{gone.stem}.*"):
        path.unlink()
    found = report(data)
    assert (found.missing_offsets, [one.kind for one in found.findings]) == (count, [])
    (data.path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 70\n")
    assert report(data).missing_offsets == 0


def test_snapshots(data: Data) -> None:
    last = data.directory() / f"{80:020}.snapshot"
    content = last.read_bytes()
    last.write_bytes(content[:-1])
    assert "wrong CRC or length" in findings(data)[0].problem
    last.write_bytes(min(data.directory().glob("*.snapshot")).read_bytes())
    (finding,) = findings(data)
    assert finding.kind == "snapshot"
    assert finding.problem.startswith("producer 7 wrote sequence 79 at offset 79, and it says sequence ")
    last.rename(data.directory() / f"{81:020}.snapshot")
    assert findings(data)[0].problem.startswith("it is of offset 81, and the log ends at 80")


def state(producer_id: int = 7, *, offset: int = 10, sequence: int = 3, epoch: int = 0) -> Producers:
    producers = Producers()
    producers.record(BatchHeader(offset, 49, 0, 2, 0, 0, 0, NOW_MS, NOW_MS, producer_id, epoch, sequence, 1), offset)
    return producers


@pytest.mark.parametrize(
    "snapshot, sentence",
    [
        (state(), None),
        (state(offset=12, sequence=5), None),  # what it wrote then is gone since
        (state(sequence=2), "wrote sequence 3 at offset 10, and it says sequence 2 at offset 10"),
        (state(offset=9, sequence=2), "wrote sequence 3 at offset 10, and it says sequence 2 at offset 9"),
        (state(8), "producer 7, who wrote up to offset 10, is not in it"),
    ],
)
def test_contradictions(snapshot: Producers, sentence: str | None) -> None:
    found = list(contradictions(snapshot, state(), NOW_MS))
    assert len(found) == (sentence is not None)
    assert sentence is None or sentence in found[0]


def test_a_producer_that_expired_need_not_be_there() -> None:
    assert list(contradictions(Producers(), state(), NOW_MS + DEFAULT_EXPIRATION_MS)) == []


def test_an_epoch_that_is_too_old() -> None:
    assert "is in epoch 1, and it says 0" in next(iter(contradictions(state(), state(epoch=1), NOW_MS)))
