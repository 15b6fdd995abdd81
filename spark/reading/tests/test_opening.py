from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headgate.spark.reading.file_reader import FileReader
from headgate.spark.reading.log_reader import IsolationLevel, LogUnavailable, OffsetOutOfRange, OffsetRange
from headgate.spark.reading.opening import FallbackReader, Origin
from headgate.spark.source.tests.fake_log import T0, FakeLog

UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


def log() -> FakeLog:
    return FakeLog({T0: (0, 100)})


def break_file(log: FakeLog) -> None:
    raise LogUnavailable("the file cannot be read")


def test_the_first_reader_alone_if_it_can_read() -> None:
    opened: list[FakeLog] = []
    reader = FallbackReader(log(), lambda: opened.append(log()) or opened[-1])  # type: ignore[func-returns-value]
    assert [piece.next_offset for piece in reader.read(OffsetRange(T0, 0, 10), UNCOMMITTED)] == [5, 10]
    assert not opened


def test_the_second_reader_begins_where_the_first_stopped() -> None:
    files, broker = log(), log()
    files.after_piece = break_file
    reader = FallbackReader(files, lambda: broker)
    assert [piece.next_offset for piece in reader.read(OffsetRange(T0, 3, 18), UNCOMMITTED)] == [8, 13, 18]
    assert broker.reads == [OffsetRange(T0, 8, 18)]
    reader.close()
    assert files.is_closed
    assert broker.is_closed


def test_the_second_reader_decides_whether_records_are_gone() -> None:
    reader = FallbackReader(FakeLog({T0: (50, 100)}), lambda: FakeLog({T0: (0, 100)}))
    assert [piece.next_offset for piece in reader.read(OffsetRange(T0, 3, 8), UNCOMMITTED)] == [8]
    with pytest.raises(OffsetOutOfRange, match="0 to 99"):
        list(reader.read(OffsetRange(T0, 120, 130), UNCOMMITTED))


def test_questions_go_to_the_second_reader() -> None:
    with FallbackReader(log(), lambda: FakeLog({T0: (4, 9)})) as reader:
        assert reader.bounds([T0], UNCOMMITTED)[T0] == (4, 9)
        assert reader.topics()["t"].partitions == [0]
        assert reader.offsets_for_times({T0: 1005}) == {T0: 5}


def test_neither_a_broker_nor_directories() -> None:
    with pytest.raises(LogUnavailable, match="logDirs"):
        Origin().open()


@pytest.mark.sockets
def test_a_broker_that_is_gone_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens, and no process holds the directory: the files tell all. A held one has a broker that starts."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    waits: list[float] = []
    settings = {"timeout_s": 60.0, "sleep": waits.append, "clock": lambda: 30.0 * len(waits)}
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=0\ncluster.id=c\n")
    origin = Origin(address, (str(tmp_path),), wire_settings=settings)
    assert origin.open().topics() == {}
    assert not waits
    monkeypatch.setattr(FileReader, "is_held", lambda reader: True)
    with pytest.raises(LogUnavailable, match="no broker answers"):
        origin.open().topics()
    assert len(waits) == 2
