"""What a repair makes of damage: what is sound is kept, all else is aside, and the next start takes the log."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.records.batch import Record, iterate, read_header
from headgate.storage import files
from headgate.storage.files import Files
from headgate.storage.log import appending
from headgate.storage.recovery.quarantine import TORN_SUFFIX
from headgate.storage.tests.builders import batch, open_directory
from headgate.tools.log import repairs
from headgate.tools.log.data_directory import DataDirectory, PartitionDirectory
from headgate.tools.log.repairs import CutDamage, QuarantineSegment, RebuildIndexes, StartSegment, Step
from headgate.tools.log.verification import partition_check
from headgate.tools.tests.log_data import NOW_MS, SMALL, Data, change, positions

few = settings(max_examples=settings().max_examples // 3)


@pytest.fixture(scope="module", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Of the time of these tests, which have no power cut, three quarters would be that."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", os.fstat)  # a descriptor that is closed is noticed still
        patched.setattr(files, "_sync_content", os.fstat)
        yield


def report(data: Data) -> tuple[partition_check.PartitionReport, DataDirectory]:
    found = DataDirectory.read(Files(), str(data.path))
    return partition_check.verify_partition(
        found, PartitionDirectory(str(data.directory()), "t", 0), lambda count, what: None
    ), found


def repaired(data: Data) -> list[Step]:
    """Do what is to be done; what was done."""
    told, found = report(data)
    steps = repairs.plan_repair(told, found)
    for step in steps:
        repairs.perform_step(step, Files())
    repairs.write_recovery_point(steps, Files(), told, found)
    return steps


def opened(data: Data) -> list[Record]:
    """All that a broker would serve from the log now, and a batch that it appends."""
    store = open_directory(str(data.path), files=Files(), node_id=0, config=SMALL, now_ms=NOW_MS, random=Random(1))
    assert not store.failed
    log = store.logs["t", 0]
    records: list[Record] = []
    offset = log.start_offset
    while (piece := log.read(offset, 1 << 20, log.end_offset, at_least_one=True)) is not None:
        view = memoryview(piece.read())
        piece.release()
        while view:
            header = read_header(view)
            records += iterate(view[: header.size])
            offset, view = header.last_offset + 1, view[header.size :]
    store.close()
    return records


def aside(data: Data) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in data.directory().glob(f"*{TORN_SUFFIX}")}


def offsets(data: Data) -> list[int]:
    return [record.offset for record in opened(data)]


def without(*lost: int) -> list[int]:
    return [offset for offset in range(80) if offset not in lost]


def test_a_damaged_batch_is_cut_out(data: Data) -> None:
    log = data.segments()[0]
    first, end = positions(log)[3:5]
    damaged = log.read_bytes()[first:end]
    change(log, first + 61, count=3)
    (step,) = repaired(data)
    assert isinstance(step, CutDamage)
    assert [row["lost_to"] for row in repairs.step_rows(step, Files())] == [7]
    assert [len(held) for held in aside(data).values()] == [len(damaged)]
    assert list(aside(data)) == [f"{log.name}.{first}.torn"]
    assert report(data)[0].findings == []
    assert offsets(data) == without(6, 7)


def test_a_damaged_length_costs_one_batch(data: Data) -> None:
    """The next batch is found by looking for one."""
    log = data.segments()[1]
    first = positions(log)[1]
    change(log, first + 8, lambda byte: 0x7F)
    repaired(data)
    assert report(data)[0].findings == []
    lost = int(log.stem) + 2
    assert offsets(data) == without(lost, lost + 1)


def test_a_lost_end_of_a_segment_is_cut_off(data: Data) -> None:
    log, following = data.segments()[1:3]
    last = positions(log)[-1]
    change(log, last, lambda byte: 0, count=log.stat().st_size - last)
    (step,) = repaired(data)
    (row,) = repairs.step_rows(step, Files())
    lost = int(following.stem) - 2
    assert (row["lost_from"], row["lost_to"]) == (lost, lost + 1)
    assert offsets(data) == without(lost, lost + 1)


def test_lost_offsets_at_the_end_are_not_assigned_again(data: Data) -> None:
    log = data.segments()[-1]
    base = int(log.stem)
    log.write_bytes(b"")
    steps = repaired(data)
    assert steps[1:] == [StartSegment(str(data.directory() / f"{80:020}.log"), 80, base)]
    assert report(data)[0].findings == []
    assert offsets(data) == list(range(base))
    with data:
        assert data.log().end_offset == 80
        appending.append(data.log(), batch(2), leader_epoch=1, now_ms=NOW_MS)
    assert offsets(data)[-1] == 81


def test_a_log_without_any_segment_goes_on_at_its_end(data: Data) -> None:
    """Its snapshot is of what is gone, and stays: a producer that goes on is known by it."""
    for path in data.segments():
        path.unlink()
    assert {finding.kind for finding in report(data)[0].findings} == {partition_check.CORRUPT}
    assert repaired(data) == [StartSegment(str(data.directory() / f"{80:020}.log"), 80, 0)]
    assert report(data)[0].findings == []
    assert repaired(data) == []
    assert offsets(data) == []
    with data:
        assert data.log().end_offset == 80


def test_a_log_emptied_by_retention_has_lost_nothing(data: Data) -> None:
    for path in data.segments():
        path.unlink()
    (data.path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 80\n")
    assert repaired(data) == []


def test_wrong_indexes_are_rebuilt(data: Data) -> None:
    first, second = data.segments()[:2]
    expected = [path.read_bytes() for path in (first.with_suffix(".index"), second.with_suffix(".timeindex"))]
    change(first.with_suffix(".index"), 7)
    second.with_suffix(".timeindex").unlink()
    steps = repaired(data)
    assert [(type(step), step.path) for step in steps] == [(RebuildIndexes, str(first)), (RebuildIndexes, str(second))]
    made = [path.read_bytes() for path in (first.with_suffix(".index"), second.with_suffix(".timeindex"))]
    assert made == expected
    assert report(data)[0].findings == []
    assert offsets(data) == without()


def test_segments_behind_a_gap_above_the_recovery_point_stay(tmp_path: Path) -> None:
    """The next start would cut the log there; a repair looks on, and makes the rest safe."""
    with Data(tmp_path / "data", is_clean=False) as data:
        data.fill()
    log = data.segments()[0]
    change(log, positions(log)[-1] + 61)
    (finding,) = report(data)[0].findings
    assert finding.kind == partition_check.TORN
    repaired(data)
    lost = int(data.segments()[1].stem) - 2
    assert offsets(data) == without(lost, lost + 1)


def test_segments_behind_a_lost_one_are_kept(tmp_path: Path) -> None:
    with Data(tmp_path / "data", is_clean=False) as data:
        data.fill()
    gone, following = data.segments()[1:3]
    for path in data.directory().glob(f"{gone.stem}.*"):
        path.unlink()
    (finding,) = report(data)[0].findings
    assert finding == (
        partition_check.TORN,
        str(following),
        f"it should begin at offset {int(gone.stem)}; the next start cuts there",
    )
    step, *_ = repaired(data)
    assert list(repairs.step_rows(step, Files())) == [
        {
            "action": "keep what is behind a gap",
            "path": str(following),
            "from_byte": None,
            "to_byte": None,
            "moved_to": None,
            "lost_from": int(gone.stem),
            "lost_to": int(following.stem) - 1,
            "problem": "what was there is gone",
        }
    ]
    assert offsets(data) == without(*range(int(gone.stem), int(following.stem)))


def test_a_compacted_segment_supersedes_the_old_one(data: Data) -> None:
    """Three were compacted into one, and the file of the third is there again."""
    first, second, third, fourth = data.segments()[:4]
    old, new = third.read_bytes(), b""
    for log in (first, second, third):
        content, starts = log.read_bytes(), positions(log)
        new += b"".join(content[start:end] for start, end in zip(starts[1::2], [*starts[2::2], None], strict=False))
    first.write_bytes(new)
    for path in data.directory().glob(f"{second.stem}.*"):
        path.unlink()
    (data.path / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {int(fourth.stem)}\n")
    told, _ = report(data)
    assert [(finding.kind, finding.path) for finding in told.findings] == [
        (partition_check.OVERLAP, str(third)),
        (partition_check.INDEX, str(first)),
    ]
    steps = repaired(data)
    assert [type(step) for step in steps] == [QuarantineSegment, RebuildIndexes]
    assert {row["lost_from"] for step in steps for row in repairs.step_rows(step, Files())} == {None}
    assert aside(data) == {f"{third.name}.0.torn": old}
    assert first.read_bytes() == new
    assert report(data)[0].findings == []
    assert repaired(data) == []
    kept = [read_header(new[start:]) for start in positions(first)]
    expected = [offset for header in kept for offset in range(header.base_offset, header.last_offset + 1)]
    assert offsets(data) == [*expected, *range(int(fourth.stem), 80)]


def test_misplaced_batches_are_lost_by_their_own_offsets(data: Data) -> None:
    """Behind compaction the offsets before it need not have been lost with it."""
    first, second = data.segments()[:2]
    content, starts = first.read_bytes(), positions(first)
    more = second.read_bytes()[: positions(second)[2]]
    first.write_bytes(content[: starts[1]] + more)
    step, *_ = repaired(data)
    (row,) = repairs.step_rows(step, Files())
    base = int(second.stem)
    assert (row["from_byte"], row["lost_from"], row["lost_to"]) == (starts[1], base, base + 3)
    assert offsets(data) == [0, 1, *range(base, 80)]


class Failing(Files):
    """The disk, which fails for good at the call with a number."""

    def __init__(self, fails_at: int) -> None:
        self.left = fails_at

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")

    def write(self, path: str, data: bytes | bytearray, *, sync: bool = False) -> None:
        self._count()
        super().write(path, data, sync=sync)

    def append(self, path: str, data: bytes | bytearray) -> None:
        self._count()
        super().append(path, data)

    def sync(self, path: str) -> None:
        self._count()
        super().sync(path)

    def rename(self, old: str, new: str) -> None:
        self._count()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self._count()
        super().remove(path)


@pytest.mark.slow
@pytest.mark.parametrize("is_clean", [True, False])
def test_an_interrupted_repair_can_be_repeated(tmp_path: Path, is_clean: bool) -> None:
    """After each call that changes something, with two segments damaged and the end of the log gone."""
    with Data(tmp_path / "damaged", is_clean=is_clean) as damaged:
        damaged.fill()
    logs = damaged.segments()
    change(logs[0], positions(logs[0])[-1] + 70)
    change(logs[1], positions(logs[1])[1] + 70)
    lost = [int(logs[1].stem) + delta for delta in (-2, -1, 2, 3)]
    logs[-1].write_bytes(b"")
    for fails_at in range(200):
        data = Data(tmp_path / str(fails_at))
        shutil.copytree(damaged.path, data.path)
        told, found = report(data)
        files = Failing(fails_at)
        steps = repairs.plan_repair(told, found)
        try:
            for step in steps:
                repairs.perform_step(step, files)
            repairs.write_recovery_point(steps, files, told, found)
        except OSError:
            repaired(data)
        assert [one for one in report(data)[0].findings if one.kind != partition_check.SNAPSHOT] == []
        assert offsets(data) == [offset for offset in without(*lost) if offset < int(logs[-1].stem)]
        shutil.rmtree(data.path)
        if files.left >= 0:
            break
    assert fails_at > 20


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Data:
    with Data(tmp_path_factory.mktemp("clean") / "data") as made:
        made.fill()
    return made


@given(
    damages=st.lists(
        st.tuples(st.integers(0, 100), st.floats(0, 1), st.sampled_from(["flip", "zeros", "cut", "noise"])),
        min_size=1,
        max_size=4,
    ),
    seed=st.integers(0, 1000),
)
@few
@pytest.mark.slow
def test_valid_batches_are_served_after_any_damage(
    clean: Data, damages: list[tuple[int, float, str]], seed: int
) -> None:
    random = Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        data = Data(Path(directory) / "data")
        shutil.copytree(clean.path, data.path)
        for number, share, how in damages:
            spoil(data.segments()[number % len(data.segments())], share, how, random)
        pairs = list(zip(clean.segments(), data.segments(), strict=True))
        sound = [record for original, log in pairs for record in sound_records(original, log)]
        unsure = [record for original, log in pairs for record in sound_records(original, log, OFFSET_AND_EPOCH)]
        repaired(data)
        assert {finding.kind for finding in report(data)[0].findings} <= {partition_check.EPOCHS}
        assert repaired(data) == []
        found = opened(data)
        assert [record for record in found if record in sound] == sound
        assert len(found) <= len(unsure)  # a wrong offset behind damaged bytes may be one that could be there


def spoil(log: Path, share: float, how: str, random: Random) -> None:
    size = log.stat().st_size
    at = min(int(size * share), size - 1)
    count = min(random.randint(1, 300), size - at)
    if not size:
        return
    if how == "cut":
        log.write_bytes(log.read_bytes()[:at])
    elif how == "flip":
        change(log, at, lambda byte: byte ^ (1 << random.randrange(8)))
    else:
        change(log, at, lambda byte: 0 if how == "zeros" else random.randrange(256), count)


EPOCH, OFFSET_AND_EPOCH = [(12, 16)], [(0, 8), (12, 16)]


def sound_records(original: Path, log: Path, unchecked: Sequence[tuple[int, int]] = EPOCH) -> list[Record]:
    """Of the batches that have the bytes which they had, but for some fields that no checksum covers."""
    before, now = bytearray(original.read_bytes()), bytearray(log.read_bytes())
    starts = positions(original)
    batches = [slice(start, end) for start, end in zip(starts, [*starts[1:], len(before)], strict=True)]
    expected = bytearray(before)
    for start in starts:
        for first, end in unchecked:
            expected[start + first : start + end] = now[start + first : start + end]
    return [record for one in batches if expected[one] == now[one] for record in iterate(before[one])]
