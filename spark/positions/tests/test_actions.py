"""The three commands as they are typed, against a modelled cluster: rows, sentences, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headgate.protocol.messages.offset_commit import OffsetCommitRequest
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions import command
from headgate.spark.positions.tests.checkpoints import CheckpointWriter
from headgate.spark.positions.tests.conftest import NOW_MS
from headgate.spark.positions.topic_ids import FILE
from headgate.tools.groups import command as groups_command
from headgate.tools.tests.command_output import CommandOutput, Run
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup

Main = Callable[[Sequence[str]], int]


@pytest.fixture
def run(model: ModelCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    for module in ("spark.positions.lag", "spark.positions.transfer", "tools.groups.actions"):
        monkeypatch.setattr(f"headgate.{module}.now_ms", lambda: NOW_MS)

    def run_command(main: Main, *arguments: str) -> CommandOutput:
        code = main(arguments)
        captured = capsys.readouterr()
        return CommandOutput(code, captured.out, captured.err)

    return run_command


@pytest.fixture
def query(written: CheckpointWriter) -> str:
    """A query that has read six and eight of ten records."""
    for batch in range(4):
        written.do(batch, {"t": {0: 2 * batch, 1: 2 * batch + 2}}, planned_ms=1000 * (batch + 1))
    return f"checkpoint:{written.path}"


def test_lag_agrees_with_groups_lag(run: Run, model: ModelCluster, query: str) -> None:
    model.groups["g"] = ModelGroup(offsets={("t", 0): (6, 0, ""), ("t", 1): (8, 0, "")})
    shown = run(command.lag, query, "group:g")
    assert shown.code == 0
    same = ("topic", "partition", "committed", "start", "end", "lag", "lag_seconds", "status", "leader")
    expected = [{name: row[name] for name in same} for row in run(groups_command.main, "lag", "g").rows]
    for reader in (query, "group:g"):
        assert [{name: row[name] for name in same} for row in shown.rows if row["reader"] == reader] == expected
    assert [row["rate"] for row in shown.rows] == [2.0, 2.0, None, None]
    assert [row["seconds_left"] for row in shown.rows] == [2.0, 1.0, None, None]
    assert "6 records behind in 2 partitions, 4.0 s, 4 records/s, 2 s left" in shown.errors[0]


@pytest.mark.parametrize(
    "options, code",
    [((), 0), (("--fail-above", "3"), 3), (("--fail-above", "4"), 0), (("--fail-above-seconds", "3"), 3)],
)
def test_limits_of_lag(run: Run, query: str, options: tuple[str, ...], code: int) -> None:
    assert run(command.lag, query, *options).code == code


def test_lag_of_some_partitions_and_of_nothing(run: Run, query: str, tmp_path: Path) -> None:
    assert [row["partition"] for row in run(command.lag, query, "--topic", "t:1").rows] == [1]
    shown = run(command.lag, "group:nobody")
    assert (shown.code, shown.rows) == (0, [])
    assert shown.errors == ["group:nobody: there are no offsets yet"]
    shown = run(command.lag, f"checkpoint:{tmp_path}/nothing")
    assert shown.code == 1


def test_lag_names_partitions_that_the_query_has_not_met(run: Run, model: ModelCluster, query: str) -> None:
    model.topics["t"].append(Log(0, end=3))
    shown = run(command.lag, query, "group:g")
    assert [row["partition"] for row in shown.rows] == [0, 1]
    assert f"{query} has not met t-2: see `headgate spark check`" in shown.errors
    assert not any("has not met" in line for line in run(command.lag, query, "--topic", "t:0,1").errors)


def test_lag_without_a_leader_is_a_failure(run: Run, model: ModelCluster, query: str) -> None:
    model.topics["t"][0].leader = -1
    shown = run(command.lag, query)
    assert (shown.code, [row["status"] for row in shown.rows]) == (1, ["unknown", "ok"])


def test_check_of_a_sound_checkpoint(run: Run, query: str) -> None:
    shown = run(command.check, query)
    assert (shown.code, [row["status"] for row in shown.rows]) == (0, ["ok", "ok"])
    assert shown.errors == ["no id is noted of t: whether it was made anew cannot be seen; --note notes it"]
    assert run(command.check, query, "--note").code == 0
    shown = run(command.check, query)
    assert (shown.code, shown.errors) == (0, [])
    assert {row["noted_id"] for row in shown.rows} == {row["topic_id"] for row in shown.rows} != {None}


def test_check_finds_a_topic_made_anew_with_more_records_than_were_read(
    run: Run, model: ModelCluster, written: CheckpointWriter, query: str
) -> None:
    run(command.check, query, "--note")
    model.topic_ids["t"] = b"n" * 16
    model.cluster_id = "other"
    shown = run(command.check, query)
    assert (shown.code, [row["status"] for row in shown.rows]) == (3, ["made anew", "made anew"])
    assert any("the ids were noted in the cluster model, this is other" in line for line in shown.errors)
    noted = (written.path / FILE).read_bytes()
    shown = run(command.check, query, "--note")
    assert (shown.code, (written.path / FILE).read_bytes()) == (1, noted)
    assert run(command.check, query, "--note", "--replace").code == 3
    assert run(command.check, query).code == 0


def test_check_finds_what_is_lost_gone_and_added(
    run: Run, model: ModelCluster, written: CheckpointWriter, query: str
) -> None:
    model.topics["t"][0].start = 7
    model.topics["t"].append(Log(0, end=3))
    written.plan(4, {"t": {0: 9, 1: 11}, "gone": {0: 1}}, '{"logOffset":1}')
    shown = run(command.check, query)
    assert shown.code == 3
    statuses = {(row["topic"], row["partition"]): (row["status"], row["lost"]) for row in shown.rows}
    assert statuses == {
        ("t", 0): ("lost", 1),
        ("t", 1): ("beyond the end", 0),
        ("t", 2): ("added", 0),
        ("gone", 0): ("gone", 0),
    }
    assert any("batch 4 is planned but not done" in line for line in shown.errors)
    assert any("the sources 1 do not read Kafka" in line for line in shown.errors)


def test_check_without_an_answer(run: Run, model: ModelCluster, query: str) -> None:
    model.topics["t"][0].leader = -1
    shown = run(command.check, query)
    assert (shown.code, [row["status"] for row in shown.rows]) == (1, ["unknown", "ok"])


def test_check_of_a_load_has_the_ids_of_its_plan(
    run: Run, model: ModelCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}
    monkeypatch.setattr("headgate.spark.load.positions.positions", lambda out: positions)
    monkeypatch.setattr("headgate.spark.load.positions.topic_ids", lambda out: {"t": b"t" * 16})
    place = f"table:{tmp_path}"
    assert run(command.check, place).code == 0
    assert "leave --note out" in run(command.check, place, "--note").errors[0]
    model.topic_ids["t"] = b"n" * 16
    assert run(command.check, place).code == 3


def test_check_of_something_else(run: Run, written: CheckpointWriter) -> None:
    assert "write checkpoint:FOLDER or table:OUT" in run(command.check, "group:g").errors[0]
    written.plan(0, {"t": {0: 1}})
    assert "no batch is done yet" in run(command.check, str(written.path)).errors


def test_offsets_into_a_group_are_a_dry_run_first(run: Run, model: ModelCluster, query: str) -> None:
    shown = run(command.offsets, query, "group:g")
    assert shown.code == 0
    assert [(row["before"], row["after"], row["note"]) for row in shown.rows] == [
        (None, 6, "the group is new"),
        (None, 8, "the group is new"),
    ]
    assert "dry run" in shown.errors[0]
    assert not model.of(OffsetCommitRequest)
    shown = run(command.offsets, query, "group:g", "--execute")
    assert (shown.code, shown.errors) == (0, [])
    assert {one: at for one, (at, _, _) in model.groups["g"].offsets.items()} == {("t", 0): 6, ("t", 1): 8}


def test_offsets_of_a_topic_made_anew_are_refused(
    run: Run, model: ModelCluster, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(command.check, query, "--note")
    monkeypatch.setattr("headgate.spark.load.positions.positions", lambda out: {TopicPartition("t", 0): 5})
    monkeypatch.setattr("headgate.spark.load.positions.topic_ids", lambda out: {"t": b"t" * 16})
    monkeypatch.setattr("headgate.spark.load.positions.rates", lambda out: {})
    model.groups["billing"] = ModelGroup(offsets={("t", 0): (5, 3, "")})
    places = (query, f"table:{tmp_path}", "group:billing")
    for place in places:
        assert run(command.offsets, place, "spark:").code == 0
    model.topic_ids["t"] = b"n" * 16
    for log in model.topics["t"]:
        log.leader_epoch = 0
    for place in places:
        for target in ("group:g", "zookeeper:g", "spark:"):
            shown = run(command.offsets, place, target, "--execute", "--backwards")
            assert (shown.code, shown.out if target == "spark:" else "") == (1, "")
            assert any("t: the topic was made anew" in line for line in shown.errors)
    assert not model.of(OffsetCommitRequest)


def test_offsets_backwards(run: Run, model: ModelCluster, query: str) -> None:
    model.groups["g"] = ModelGroup(offsets={("t", 0): (7, 0, "")})
    shown = run(command.offsets, query, "group:g", "--execute")
    assert (shown.code, shown.errors[-1]) == (1, "nothing is changed")
    assert not model.of(OffsetCommitRequest)
    assert run(command.offsets, query, "group:g", "--execute", "--backwards").code == 0


def test_offsets_from_zookeeper_to_spark_and_back(run: Run, model: ModelCluster, query: str) -> None:
    model.zookeeper["g"] = {("t", 0): 4}
    shown = run(command.offsets, "zookeeper:g", "spark:")
    assert (shown.code, json.loads(shown.out)) == (0, {"t": {"0": 4, "1": -2}})
    assert run(command.offsets, query, "zookeeper:g", "--execute").code == 0
    assert model.zookeeper["g"] == {("t", 0): 6, ("t", 1): 8}


def test_offsets_that_spark_would_refuse(run: Run, model: ModelCluster) -> None:
    model.zookeeper["g"] = {("t", 0): 40}
    shown = run(command.offsets, "zookeeper:g", "spark:")
    assert (shown.code, shown.out) == (1, "")


def test_offsets_into_a_file(run: Run, query: str, tmp_path: Path) -> None:
    target = tmp_path / "offsets.json"
    assert run(command.offsets, query, f"file:{target}", "--group", "g").code == 0
    assert not target.exists()
    assert run(command.offsets, query, f"file:{target}", "--group", "g", "--execute").code == 0
    shown = run(groups_command.main, "import", str(target))
    assert [(row["group"], row["after"]) for row in shown.rows] == [("g", 6), ("g", 8)]


def test_offsets_that_are_not_there_and_places_that_are_not_written(run: Run, query: str) -> None:
    assert "group:nobody has no offsets" in run(command.offsets, "group:nobody", "group:g").errors[0]
    assert "never forged" in run(command.offsets, "group:nobody", query).errors[0]
