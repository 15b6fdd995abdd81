from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.formats.decoding import BYTES, ERROR, Decoding, RejectLimitExceeded
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.load_log import LoadLog, work_folder
from headgate.spark.load.output.row_files import FileOptions
from headgate.spark.load.task import Attempt, LoadJob, load_range
from headgate.spark.load.tests.model_log import TOPIC, ModelLog
from headgate.spark.reading.log_reader import IsolationLevel, OffsetRange
from headgate.tools.log.offset_gaps import Gap

WANTED = OffsetRange(TopicPartition(TOPIC, 0), 0, 5)


def new_job(path: Path, log: ModelLog, reject_limit: int = 9) -> LoadJob:
    OutputFolder(path).make(work_folder(1))
    decoding = Decoding(reject_limit=reject_limit)
    return LoadJob(str(path), 1, log, IsolationLevel.READ_COMMITTED, {TOPIC: True}, {}, FileOptions(), decoding)


def result_files(path: Path) -> list[str]:
    return OutputFolder(path).list(work_folder(1))


def test_a_range_becomes_a_file_and_a_result(tmp_path: Path) -> None:
    log = ModelLog.random(3, partitions=1)
    wanted = WANTED._replace(end_offset=log.partitions[0].end)
    load_range(new_job(tmp_path, log), 0, wanted)
    assert [name.startswith(("part-", "result-")) for name in result_files(tmp_path)] == [True, True]
    assert LoadLog(OutputFolder(tmp_path)).finished(1) == {0}


def decoded(first: int, errors: list[str | None]) -> pa.RecordBatch:
    count = len(errors)
    columns = {
        "key": pa.array([b"k"] * count),
        "value": pa.array([None if one else {"a": 1} for one in errors], pa.struct({"a": pa.int64()})),
        "offset": pa.array(range(first, first + count), pa.int64()),
        ERROR: pa.array(errors, pa.string()),
        BYTES: pa.array([b"bad" if one else None for one in errors], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.slow  # `pa.array` imports pandas
def test_rejected_rows_go_to_files_of_their_own(tmp_path: Path) -> None:
    attempt = Attempt(new_job(tmp_path, ModelLog([])), 0, WANTED)
    assert attempt.write(decoded(0, [None, "no", "no"])).num_rows == 1
    attempt.write(decoded(3, ["no"]))
    attempt.finish(4, [Gap(4, 4, "marker")])
    names = result_files(tmp_path)
    assert len(names) == 3
    assert sum(name.endswith("-rejected") for name in names) == 1
    data = (tmp_path / work_folder(1) / "result-00000000.json").read_text()
    assert '"gaps":[[1,3,"rejected"],[4,4,"marker"]]' in data
    assert '"rows":1' in data


@pytest.mark.slow
def test_too_many_rejected_rows_end_the_task(tmp_path: Path) -> None:
    attempt = Attempt(new_job(tmp_path, ModelLog([]), reject_limit=1), 0, WANTED)
    with pytest.raises(RejectLimitExceeded, match=r"more than 1 values of orders-0 .* offset 1: no; .* b'bad'"):
        attempt.write(decoded(0, [None, "no", "no"]))
    attempt.abandon()
    assert result_files(tmp_path) == []


@pytest.mark.slow
def test_rows_for_a_table_are_in_no_file(tmp_path: Path) -> None:
    attempt = Attempt(new_job(tmp_path, ModelLog([])), 0, WANTED, keeps_rows=False)
    assert attempt.write(decoded(0, [None] * 5)).num_rows == 5
    attempt.finish(5, [])
    assert result_files(tmp_path) == ["result-00000000.json"]
