"""A checkpoint is read from its folder: what is done, what is planned, how fast it went."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.protocol.spark.checkpoint import CheckpointBatch, rates
from headgate.protocol.spark.checkpoint_files import Progress
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions.checkpoint import LocalFolder, open_folder, read_checkpoint
from headgate.spark.positions.tests.checkpoints import CheckpointWriter
from headgate.tools.output import UsageError

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_query_stands_behind_its_last_batch_that_is_done(written: CheckpointWriter) -> None:
    written.do(0, {"t": {0: 5, 1: 6}}, planned_ms=1000)
    written.do(1, {"t": {0: 7, 1: 8}}, planned_ms=2000)
    written.plan(2, {"t": {0: 9, 1: 10}}, planned_ms=3000)
    found = read_checkpoint(str(written.path))
    assert found.query_id == "0b2c7b1e-7a3d-4f6e-9a52-2f6f3a6c1d11"
    assert found.progress == Progress(1, 2)
    assert found.offsets == {T0: 7, T1: 8}
    assert found.planned == {T0: 9, T1: 10}
    assert [(one.number, one.planned_ms) for one in found.batches] == [(0, 1000), (1, 2000), (2, 3000)]
    assert not found.foreign


@pytest.mark.parametrize("place", ["{}", "file:{}", "file://{}"])
def test_a_folder_of_this_machine(written: CheckpointWriter, place: str) -> None:
    written.do(0, {"t": {0: 5}})
    assert read_checkpoint(place.format(written.path)).offsets == {T0: 5}


def test_a_folder_by_pyarrow(written: CheckpointWriter) -> None:
    fs = pytest.importorskip("pyarrow.fs")
    from headgate.spark.positions.checkpoint import ArrowFolder

    written.do(0, {"t": {0: 5}})
    folder = ArrowFolder(fs.LocalFileSystem(), str(written.path))
    assert read_checkpoint("s3://b/c", folder=folder).offsets == {T0: 5}
    assert folder.names("nothing") == []
    assert folder.read("nothing") is None
    folder.write("noted", b"1")
    folder.write("noted", b"2")
    assert folder.read("noted") == b"2"


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    folder.write("noted", b"1")
    folder.write("noted", b"2")
    assert folder.read("noted") == b"2"
    assert folder.names(".") == ["noted"]


def test_an_unknown_scheme() -> None:
    with pytest.raises(UsageError, match=r"cannot open nonsense://x|needs pyarrow"):
        open_folder("nonsense://x")


def test_before_the_first_batch_is_done_it_stands_where_its_sources_began(written: CheckpointWriter) -> None:
    written.begin(0, {"t": {0: 3}})
    written.begin(1, {"t": {0: 2, 1: 4}})
    assert read_checkpoint(str(written.path)).offsets == {T0: 2, T1: 4}
    written.plan(0, {"t": {0: 9, 1: 9}})
    found = read_checkpoint(str(written.path))
    assert (found.progress, found.offsets) == (Progress(None, 0), {T0: 2, T1: 4})


def test_the_format_headgate_notes_its_start_in_the_first_batch(written: CheckpointWriter) -> None:
    written.plan(0, '{"t":{"0":9},"#start":{"t":{"0":4}}}')
    found = read_checkpoint(str(written.path))
    assert (found.offsets, found.planned) == ({T0: 4}, {T0: 9})


def test_sources_that_do_not_read_kafka(written: CheckpointWriter) -> None:
    written.do(0, {"t": {0: 5}}, '{"logOffset":4}', "-")
    found = read_checkpoint(str(written.path))
    assert (found.offsets, found.foreign) == ({T0: 5}, ["1"])


def test_version_2(written: CheckpointWriter) -> None:
    written.plan(0, {"t": {0: 5}}, {"t": {1: 6}}, version=2)
    written.commit(0)
    assert read_checkpoint(str(written.path)).offsets == {T0: 5, T1: 6}


def test_only_the_last_batches_are_read(written: CheckpointWriter) -> None:
    for batch in range(20):
        written.do(batch, {"t": {0: batch}}, planned_ms=batch + 1)
    (written.path / "offsets" / "3").write_text("damage")
    assert [one.number for one in read_checkpoint(str(written.path), 4).batches] == [16, 17, 18, 19]


def test_an_old_batch_that_spark_removes_meanwhile(written: CheckpointWriter) -> None:
    for batch in range(3):
        written.do(batch, {"t": {0: batch}})

    class Late(LocalFolder):
        def names(self, folder: str) -> list[str]:
            return [*super().names(folder), "-1"]

        def read(self, path: str) -> bytes | None:
            return None if path == "offsets/0" else super().read(path)

    found = read_checkpoint("late", folder=Late(written.path))
    assert [one.number for one in found.batches] == [1, 2]


@pytest.mark.parametrize(
    "name, content, reason",
    [
        ("offsets/1", "", "offsets/1: an offset log begins with ''"),
        ("offsets/1", "v9\n{}", "offsets/1: an offset log has version 9"),
        ("offsets/1", 'v1\n{}\n{"t":{"0":', "no whole JSON"),
        ("metadata", "{", "are no JSON"),
    ],
)
def test_a_damaged_checkpoint(written: CheckpointWriter, name: str, content: str, reason: str) -> None:
    written.do(0, {"t": {0: 5}})
    written.do(1, {"t": {0: 5}})
    (written.path / name).write_text(content)
    with pytest.raises(UsageError, match=reason):
        read_checkpoint(str(written.path))


def test_a_folder_that_is_no_checkpoint(tmp_path: Path, written: CheckpointWriter) -> None:
    for place in (tmp_path / "nothing", tmp_path):
        with pytest.raises(UsageError, match=": no checkpoint of a query"):
            read_checkpoint(str(place))
    written.commit(7)
    with pytest.raises(UsageError, match="commits has batch 7, but offsets has none"):
        read_checkpoint(str(written.path))


def test_a_batch_that_is_gone_between_the_listing_and_the_read(written: CheckpointWriter) -> None:
    written.do(0, {"t": {0: 5}})

    class Vanishing(LocalFolder):
        def read(self, path: str) -> bytes | None:
            return None if path.startswith("offsets") else super().read(path)

    with pytest.raises(UsageError, match="offsets/0 is gone"):
        read_checkpoint("vanishing", folder=Vanishing(written.path))


def test_an_unreadable_folder(tmp_path: Path) -> None:
    class Broken(LocalFolder):
        def names(self, folder: str) -> list[str]:
            raise PermissionError(13, "Permission denied")

    with pytest.raises(UsageError, match="cannot read broken: Permission denied"):
        read_checkpoint("broken", folder=Broken(tmp_path))


def batches(*rows: tuple[int, int]) -> list[CheckpointBatch]:
    return [CheckpointBatch(number, at, {T0: offset, T1: 0}) for number, (at, offset) in enumerate(rows)]


@pytest.mark.parametrize(
    "rows, expected",
    [
        ([], {}),
        ([(1000, 10), (2000, 20)], {}),
        ([(1000, 10), (2000, 30), (4000, 90)], {T0: 10.0, T1: 0.0}),
        ([(1000, 10), (2000, 30), (3000, 60), (4000, 90)], {T0: 25.0, T1: 0.0}),
        ([(0, 10), (2000, 30), (4000, 90)], {}),
        ([(1000, 10), (2000, 30), (2000, 90)], {}),
        ([(1000, 90), (2000, 30), (4000, 10)], {T0: 0.0, T1: 0.0}),
    ],
)
def test_rates(rows: list[tuple[int, int]], expected: dict[TopicPartition, float]) -> None:
    """A batch takes the time until the next one starts."""
    assert rates(batches(*rows)) == expected
