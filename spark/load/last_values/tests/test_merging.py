"""Tables of last values: what a merge says and refuses; in a real Spark session (`make soak`), histories with kills."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.formats.decoding import Decoding
from headgate.spark.load.formats.tests.test_spark_columns import DESCRIPTORS, M
from headgate.spark.load.last_values import merging
from headgate.spark.load.last_values.merging import MergedTableName, check_target, merge_statement
from headgate.spark.load.loading import LoadRequest, load
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.planning import LoadRefused
from headgate.spark.load.output.tables import MERGE
from headgate.spark.load.positions import positions
from headgate.spark.load.runners import SparkRunner
from headgate.spark.load.tests.model_log import NOW_MS, TOPIC, ModelLog, ModelPartition
from headgate.spark.load.tests.test_loading import Killed, Listener
from headgate.spark.load.verification import verify

in_spark = [pytest.mark.soak, pytest.mark.sockets, pytest.mark.filterwarnings("ignore::ResourceWarning")]
KINDS = [pytest.param(one, marks=in_spark) for one in merging.KINDS]


class FakeTable:
    def __init__(self, rows: int) -> None:
        self.rows = rows

    def table(self, _: str) -> FakeTable:
        return self

    def take(self, count: int) -> list[int]:
        return list(range(min(count, self.rows)))


def test_the_first_load_creates_a_table_and_takes_no_foreign_one() -> None:
    assert check_target(FakeTable(0), "t", 1, exists=False)
    assert not check_target(FakeTable(0), "t", 1, exists=True)
    assert not check_target(FakeTable(5), "t", 2, exists=True)
    with pytest.raises(LoadRefused, match="is a table with rows already"):
        check_target(FakeTable(5), "t", 1, exists=True)
    with pytest.raises(LoadRefused, match="is gone, but the folder of positions has 2 loads"):
        check_target(FakeTable(0), "t", 3, exists=False)


def test_a_name_of_iceberg_is_checked() -> None:
    with pytest.raises(LoadRefused, match=r"write catalog\.namespace"):
        MergedTableName("iceberg", "a.b; DROP TABLE c", "1").open(None)
    assert MergedTableName("iceberg", "a.b.c", "1").open(None) is not None
    assert MergedTableName("delta", "/any `path", "1").open(None) is not None


def test_only_newer_records_change_a_row() -> None:
    text = merge_statement("a", "b")
    assert text.startswith("MERGE INTO a AS t USING b AS s ON t.key = s.key ")
    newer = "(s.partition > t.partition OR (s.partition = t.partition AND s.offset > t.offset))"
    assert text.count(f"WHEN MATCHED AND {newer}") == 2
    assert text.endswith("WHEN NOT MATCHED AND s.value IS NOT NULL THEN INSERT *")


# ------------------------------------------------------------------------------------------------------------ in Spark


def request_for(kind: str, path: Path, **changes: Any) -> LoadRequest:
    name = str(path / "table") if kind == "delta" else f"iceberg.db.t{abs(hash(path))}"
    return LoadRequest((TOPIC,), into=kind, table=name, mode=MERGE)._replace(**changes)


def table(runner: SparkRunner, request: LoadRequest) -> Any:
    if request.into == "delta":
        return runner.session.read.format("delta").load(request.table)
    return runner.session.table(request.table)


def last_values(runner: SparkRunner, request: LoadRequest) -> dict[bytes, bytes]:
    rows = table(runner, request).select("key", "value").collect()
    found = {bytes(row.key): bytes(row.value) for row in rows}
    assert len(found) == len(rows), "a key is in the table twice"
    return found


def expected(log: ModelLog, ends: dict[int, int]) -> dict[bytes, bytes]:
    """A dict of the last committed values before the ends."""
    found: dict[bytes, bytes] = {}
    for number, partition in enumerate(log.partitions):
        for _, (key, value) in sorted(partition.expected(0, ends[number]).items()):
            assert key is not None
            found.pop(key, None)
            if value is not None:
                found[key] = value
    return found


def keyed_log(random: Random, partitions: int = 2) -> ModelLog:
    """A key is in one partition, as with Kafka's partitioners: the first partition has twice the keys."""
    made = ModelLog([ModelPartition(keys=0) for _ in range(partitions)])
    for number, one in enumerate(made.partitions):
        one.keys, one.prefix = 12, b"%d" % number
        one.grow(random, 5)
    return made


def table_positions(path: Path) -> dict[int, int]:
    return {partition.number: offset for partition, offset in positions(path).items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_a_history_with_kills_is_a_dict_of_last_values(
    runner: SparkRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int
) -> None:
    """Killed before and after the merge, and before the manifest; the table has what was committed, each time."""
    random = Random(seed)
    log, request, path = keyed_log(random), request_for(kind, tmp_path), tmp_path / "state"
    cls: Any = merging.MergedDeltaTable if kind == "delta" else merging.MergedIcebergTable
    whole = cls.append
    for moment in ("", "after merge", "before merge", "manifest", "results", ""):

        def step(what: str, moment: str = moment) -> None:
            if moment in ("manifest", "results") and what.startswith("before create _headgate/manifests"):
                raise Killed

        def append(self: Any, frame: Any, number: int, moment: str = moment) -> None:
            if moment == "before merge":
                raise Killed
            whole(self, frame, number)
            if moment == "after merge":
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(cls, "append", append)
            try:
                load(request, log, OutputFolder(path, step), runner, Listener())
                assert not moment
            except Killed:
                assert moment
        if moment == "results":
            for file in path.glob("_headgate/work/*/result-*"):
                file.unlink()
        for one in log.partitions:
            one.grow(random, random.randrange(3))
        load(request, log, OutputFolder(path), runner, Listener())
        ends = table_positions(path)
        assert ends == {number: one.end for number, one in enumerate(log.partitions)}
        assert last_values(runner, request) == expected(log, ends)
        for one in log.partitions:
            one.grow(random, random.randrange(4))
    assert load(request, log, OutputFolder(path), runner, Listener()) or True
    assert verify(OutputFolder(path))[1] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_merge_changes_nothing(runner: SparkRunner, tmp_path: Path, kind: str) -> None:
    """The same rows under the same number, and under the next one; then older rows, in any order."""
    session = runner.session
    name = request_for(kind, tmp_path).table
    opened = MergedTableName(kind, name, "repeat").open(session)
    schema = "key binary, value binary, partition int, offset bigint"

    def frame(*rows: tuple[bytes, bytes | None, int, int]) -> Any:
        return session.createDataFrame(list(rows), schema)

    old = frame((b"a", b"1", 0, 1), (b"b", b"1", 0, 2), (b"a", b"2", 0, 3), (b"c", b"1", 1, 0), (b"c", None, 1, 1))
    new = frame((b"b", b"3", 0, 5), (b"a", b"9", 0, 4), (b"a", b"4", 0, 7))
    opened.append(old, 1)
    assert opened.has(1)
    assert not opened.has(2)
    request = request_for(kind, tmp_path)
    assert last_values(runner, request) == {b"a": b"2", b"b": b"1"}
    opened.append(new, 2)
    wanted = {b"a": b"4", b"b": b"3"}
    assert last_values(runner, request) == wanted
    for number in (2, 3):
        opened.append(new, number)
        assert last_values(runner, request) == wanted
    opened.append(old.where("value is not null"), 4)
    assert {key: value for key, value in last_values(runner, request).items() if key != b"c"} == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_a_foreign_table_and_a_lost_one_are_refused(runner: SparkRunner, tmp_path: Path, kind: str) -> None:
    log, request = keyed_log(Random(1)), request_for(kind, tmp_path)
    load(request, log, OutputFolder(tmp_path / "state"), runner, Listener())
    with pytest.raises(LoadRefused, match="is a table with rows already"):
        load(request, log, OutputFolder(tmp_path / "other"), runner, Listener())
    log.partitions[0].grow(Random(2), 1)
    with pytest.raises(LoadRefused, match="is one of `headgate spark table`"):
        load(request._replace(mode="append"), log, OutputFolder(tmp_path / "state"), runner, Listener())


class Events(ModelLog):
    """Records with given keys and values in one partition."""

    @classmethod
    def of(cls, *records: tuple[bytes | None, bytes | None]) -> Events:
        made = cls([ModelPartition()])
        built = batch.build([Record(number, NOW_MS, *one) for number, one in enumerate(records)])
        made.partitions[0].batches.append((0, len(records) - 1, bytes(built)))
        made.partitions[0].end = len(records)
        return made


def event(operation: str, after: object, *, wrapped: bool = False) -> bytes:
    content = {"before": None, "after": after, "source": {"lsn": 5}, "op": operation, "ts_ms": 7}
    return json.dumps({"schema": {"type": "struct"}, "payload": content} if wrapped else content).encode()


def key(number: int, *, wrapped: bool = False) -> bytes:
    content = {"id": number}
    return json.dumps({"schema": {}, "payload": content} if wrapped else content).encode()


EVENTS: list[tuple[bytes | None, bytes | None]] = [
    (key(1), event("r", {"id": 1, "name": "one", "price": 1.10})),
    (key(2), event("c", {"id": 2, "name": "two"})),
    (key(3), event("c", {"id": 3, "name": "three"})),
    (key(1, wrapped=True), event("u", {"id": 1, "name": "uno"}, wrapped=True)),
    (key(2), event("d", None)),
    (key(2), None),
    (key(3, wrapped=True), event("d", None, wrapped=True)),
    (key(4), event("c", {"id": 4, "name": "four", "price": 1.10})),
    (b"text", event("c", {"id": 5, "name": "five"})),
    (b"text", event("t", None)),
    (key(6), event("u", None)),
    (key(7), b'{"id": 7}'),
    (key(8), b"no JSON"),
    (None, event("c", {"id": 9})),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("schema", ["", "id BIGINT, name STRING"])
def test_events_of_debezium(runner: SparkRunner, tmp_path: Path, kind: str, schema: str) -> None:
    decoding = Decoding("debezium", schema, reject_limit=5)
    request = request_for(kind, tmp_path, decoding=decoding)
    (manifest,) = load(request, Events.of(*EVENTS), OutputFolder(tmp_path / "state"), runner, Listener())
    rows = {bytes(row.key).decode(): row for row in table(runner, request).collect()}
    assert sorted(rows) == ["text", '{"id":1}', '{"id":4}']
    if schema:
        assert rows['{"id":1}'].value.asDict() == {"id": 1, "name": "uno"}
    else:
        assert json.loads(rows['{"id":1}'].value) == {"id": 1, "name": "uno"}
        assert '"price":1.1' in rows['{"id":4}'].value.replace(" ", "")
    assert (rows["text"].partition, rows["text"].offset) == (0, 8)
    assert sum(one.rejected_rows for one in manifest.results) == 5
    rejected = runner.session.read.parquet(str(tmp_path / "state_rejected")).collect()
    errors = {row.offset: row.error for row in rejected}
    assert errors[9] == "the op t is no change of one row"
    assert errors[10] == "the op u has no after"
    assert "has no op" in errors[11]
    assert errors[12] == "the value is no JSON object"
    assert errors[13] == "the record has no key"
    assert positions(tmp_path / "state") == {TopicPartition(TOPIC, 0): len(EVENTS)}


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_protobuf(runner: SparkRunner, tmp_path: Path, kind: str) -> None:
    """Last values as structs; also of a load, which appends."""
    pytest.importorskip("google.protobuf")
    decoding = Decoding("protobuf", DESCRIPTORS, message="p.M", reject_limit=5)
    first, second = (M(a=number, b=["x"]).SerializeToString() for number in (1, 2))
    log = Events.of((b"k", first), (b"l", first), (b"k", second), (None, first), (b"l", None), (b"m", b"\xff"))
    request = request_for(kind, tmp_path, decoding=decoding)
    load(request, log, OutputFolder(tmp_path / "state"), runner, Listener())
    assert [(bytes(row.key), row.value.asDict()) for row in table(runner, request).collect()] == [
        (b"k", {"a": 2, "b": ["x"]})
    ]
    rejected = runner.session.read.parquet(str(tmp_path / "state_rejected")).collect()
    assert {row.offset: bytes(row.value) for row in rejected} == {3: first, 5: b"\xff"}
    appended = request._replace(mode="append", table=request.table + "_all")
    load(appended, log, OutputFolder(tmp_path / "all"), runner, Listener())
    assert sorted(row.offset for row in table(runner, appended).collect()) == [0, 1, 2, 3, 4]
