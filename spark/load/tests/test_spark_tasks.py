"""The functions for Spark's workers, without Spark: any batches may come between the two halves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.load_log import LoadLog
from headgate.spark.load.spark_tasks import (
    CONTROL,
    loading_function,
    mark_keyless,
    number_row,
    passing_function,
    reading_function,
    writing_function,
)
from headgate.spark.load.tests.model_log import TOPIC, ModelLog
from headgate.spark.load.tests.test_task import new_job
from headgate.spark.reading.log_reader import OffsetRange


def numbers(count: int) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        yield number_row(number)


def ranges_of(log: ModelLog) -> list[tuple[int, OffsetRange]]:
    return [(n, OffsetRange(TopicPartition(TOPIC, n), 0, one.end)) for n, one in enumerate(log.partitions)]


def shuffled(batches: Iterator[pa.RecordBatch], random: Random) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of other sizes, in another time zone, as Spark hands them out."""
    table = pa.Table.from_batches(list(batches))
    zone = pa.timestamp("us", tz="Europe/Berlin")
    place = table.schema.get_field_index("timestamp")
    table = table.set_column(place, pa.field("timestamp", zone), table.column(place).cast(zone)).combine_chunks()
    start = 0
    while start < table.num_rows:
        count = random.randint(1, 9)
        yield from table.slice(start, count).to_batches()
        start += count


@pytest.mark.parametrize("seed", range(5))
def test_both_halves_make_what_a_whole_task_makes(tmp_path: Path, seed: int) -> None:
    log = ModelLog.random(seed)
    ranges = ranges_of(log)
    whole, halves, passed = (tmp_path / name for name in ("whole", "halves", "passed"))
    assert len(list(loading_function(new_job(whole, log), ranges)(numbers(2)))) == 2
    for path, function in ((halves, writing_function), (passed, passing_function)):
        job = new_job(path, log)
        rows = shuffled(reading_function(job, ranges)(numbers(2)), Random(seed))
        found = list(function(job, ranges)(rows))
        if function is passing_function:
            offsets = [offset for one in found for offset in one.column("offset").to_pylist()]
            assert offsets == [offset for one in log.partitions for offset in sorted(one.committed)]
            assert CONTROL not in found[0].schema.names
        else:
            assert [one.column("id").to_pylist() for one in found] == [[0], [1]]
    results = [[_summary(path, index) for index in range(2)] for path in (whole, halves, passed)]
    assert results[0] == results[1]
    assert [one[:2] for one in results[2]] == [one[:2] for one in results[0]]


def _summary(path: Path, index: int) -> tuple[int, str, str]:
    log = LoadLog(OutputFolder(path))
    (name,) = (one for one in log.output.list("_headgate/work/" + f"{1:020}") if one == f"result-{index:08}.json")
    from headgate.spark.load.output.documents import decode_result

    found = decode_result(log.output.read(f"_headgate/work/{1:020}/{name}") or b"", name)
    return found.rows, str(found.gaps), str([(one.name, one.rows) for one in found.files])


def test_an_error_leaves_no_file(tmp_path: Path) -> None:
    log = ModelLog.random(1, partitions=1)
    job, ranges = new_job(tmp_path, log), ranges_of(log)

    def cut() -> Iterator[pa.RecordBatch]:
        yield from list(reading_function(job, ranges)(numbers(1)))[:2]
        raise RuntimeError("the other half has failed")

    with pytest.raises(RuntimeError):
        list(writing_function(job, ranges)(cut()))
    assert OutputFolder(tmp_path).list(f"_headgate/work/{1:020}") == []


def test_rows_without_a_key_have_an_error_and_their_bytes() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            "key": [b"a", None, None],
            "value": [1, None, 3],
            "_error": [None, "wrong", None],
            "_bytes": [None, b"x", None],
        }
    )
    found = mark_keyless(rows, pa.array([b"1", b"x", b"3"])).to_pydict()
    assert found["_error"] == [None, "the record has no key", "the record has no key"]
    assert found["_bytes"] == [None, b"x", b"3"]
