"""What `ls` says of partitions that were left in different ways."""

from __future__ import annotations

from headgate.storage.files import Files
from headgate.tools.log.data_directory import Selection, resolve_paths
from headgate.tools.log.listing import partition_rows, segment_rows
from headgate.tools.output import Row
from headgate.tools.tests.log_data import Data


def place(data: Data) -> Selection:
    (found,) = resolve_paths(Files(), [str(data.path)], [], [])
    assert isinstance(found, Selection)
    return found


def row(data: Data) -> Row:
    (found,) = partition_rows(place(data))
    return found


def test_states(data: Data) -> None:
    assert row(data)["state"] == "clean"
    (data.path / ".kafka_cleanshutdown").unlink()
    assert row(data)["state"] == "flushed"
    (data.path / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 70\n")
    assert row(data)["state"] == "unclean"
    (data.path / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 81\n")
    assert row(data)["state"] == "damaged"


def test_a_partition_without_segments(data: Data) -> None:
    for path in data.directory().iterdir():
        path.unlink()
    assert list(segment_rows(place(data))) == []
    assert row(data)["segments"] == 0


def test_an_end_without_an_index_or_with_a_wrong_one(data: Data) -> None:
    index = data.segments()[-1].with_suffix(".index")
    index.write_bytes(b"\xff" * 8)
    assert row(data)["end_offset"] == 80
    index.unlink()
    assert row(data)["end_offset"] == 80


def test_a_log_that_does_not_end_with_a_batch(data: Data) -> None:
    log = data.segments()[-1]
    log.write_bytes(log.read_bytes()[:-1])
    assert (row(data)["end_offset"], row(data)["state"]) == (None, "damaged")
    log.write_bytes(bytes(61))
    assert row(data)["end_offset"] is None
    assert [one["first_timestamp"] for one in segment_rows(place(data))][-1] == -1


def test_a_log_torn_above_its_recovery_point_is_not_damaged(data: Data) -> None:
    log = data.segments()[-1]
    with log.open("ab") as file:
        file.write(b"the beginning of a batch")
    assert row(data)["state"] == "damaged", "the stop had been clean"
    (data.path / ".kafka_cleanshutdown").unlink()
    assert (row(data)["end_offset"], row(data)["state"]) == (None, "unclean")
    log.write_bytes(log.read_bytes()[40:])
    assert row(data)["state"] == "damaged"


def test_what_is_aside_and_what_is_leaving(data: Data) -> None:
    (data.directory() / "a.log.5.torn").write_bytes(bytes(7))
    assert row(data)["aside_bytes"] == 7
    data.directory().rename(data.path / "t-0.0123456789abcdef0123456789abcdef-delete")
    assert row(data)["state"] == "delete"


def test_a_partition_without_a_segment(data: Data) -> None:
    for path in data.directory().iterdir():
        path.unlink()
    assert (row(data)["segments"], row(data)["end_offset"], row(data)["state"]) == (0, 0, "damaged")
