from __future__ import annotations

from pathlib import Path

import pytest

from headgate.spark.load.origin import LoadOrigin
from headgate.spark.reading.log_reader import LogUnavailable
from headgate.tools.tests.log_data import Data


def test_directories_are_read_as_files(tmp_path: Path) -> None:
    with Data(tmp_path) as data:
        data.fill("t", 0, count=2)
    origin = LoadOrigin(None, (str(tmp_path),))
    reader = origin.open()
    known = reader.topics()["t"]
    reader.close()
    assert list(known.partitions) == [0]
    assert origin.compacted(["t"]) == {"t": False}
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    assert origin.compacted(["t"]) == {"t": True}
    assert known.topic_id is not None
    task = origin.open_in_task({"t": known.topic_id})
    task.close()


@pytest.mark.sockets
def test_a_broker_that_does_not_answer_is_named() -> None:
    with pytest.raises(LogUnavailable, match="no broker answers"):
        LoadOrigin("127.0.0.1:1").compacted(["t"])


@pytest.mark.sockets
def test_files_do_without_their_broker(tmp_path: Path) -> None:
    with Data(tmp_path) as data:
        data.fill("t", 0, count=2)
    assert LoadOrigin("127.0.0.1:1", (str(tmp_path),)).compacted(["t"]) == {"t": False}
