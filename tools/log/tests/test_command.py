"""`headgate log` as it is typed: rows, tables, sentences, exit codes, and that nothing is changed but by a repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.storage.files import Files
from headgate.tools.log import command
from headgate.tools.tests.command_output import CommandOutput, Run
from headgate.tools.tests.log_data import NOW_MS, TOPIC_ID, Data, change, positions


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_command(*arguments: object) -> CommandOutput:
        code = command.main([str(one) for one in arguments])
        captured = capsys.readouterr()
        return CommandOutput(code, captured.out, captured.err)

    return run_command


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """t-0 with 40 batches in some segments, and u-1 with one; stopped cleanly."""
    with Data(tmp_path / "data") as made:
        made.fill()
        made.fill("u", 1, count=1)
    return made


def everything(path: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


def test_ls(run: Run, data: Data) -> None:
    shown = run("ls", data.path)
    assert (shown.code, shown.errors) == (0, [])
    t, u = shown.rows
    assert t == {
        "topic": "t",
        "partition": 0,
        "topic_id": "AAECAwQFBgcICQoLDA0ODw",
        "segments": len(data.segments()),
        "bytes": sum(path.stat().st_size for path in data.segments()),
        "start_offset": 0,
        "end_offset": 80,
        "high_watermark": 80,
        "recovery_point": 80,
        "state": "clean",
        "aside_bytes": 0,
        "directory": str(data.directory()),
    }
    assert (u["topic"], u["partition"], u["end_offset"]) == ("u", 1, 2)
    assert len(t["topic_id"]) == 22
    assert len(TOPIC_ID) == 16


def test_ls_of_segments(run: Run, data: Data) -> None:
    rows = run("ls", data.path, "--segments", "--topic", "t").rows
    assert [row["path"] for row in rows] == list(map(str, data.segments()))
    assert [row["end_offset"] for row in rows] == [*(row["segment"] for row in rows[1:]), 80]
    assert rows[0]["first_timestamp"] == NOW_MS


def test_dump_of_records(run: Run, data: Data) -> None:
    shown = run("dump", data.path, "--topic", "t")
    assert (shown.code, shown.errors) == (0, [])
    assert [row["offset"] for row in shown.rows] == list(range(80))
    assert shown.rows[7] == {
        "topic": "t",
        "partition": 0,
        "offset": 7,
        "timestamp": NOW_MS + 3,
        "timestamp_type": "CreateTime",
        "key": "k3",
        "value": "v" * 50,
        "headers": [],
        "producer_id": 7,
        "producer_epoch": 0,
        "sequence": 7,
        "transactional": False,
        "control": False,
    }


def test_dump_of_a_part(run: Run, data: Data) -> None:
    rows = run("dump", data.directory(), "--from", 33, "--to", 40, "--limit", 5).rows
    assert [row["offset"] for row in rows] == [33, 34, 35, 36, 37]
    assert [row["offset"] for row in run("dump", data.directory(), "--from", 78).rows] == [78, 79]


def test_dump_of_batches(run: Run, data: Data) -> None:
    rows = run("dump", data.path, "--topic", "t", "--batches").rows
    assert [(row["base_offset"], row["last_offset"]) for row in rows] == [(n, n + 1) for n in range(0, 80, 2)]
    assert [row["codec"] for row in rows[:3]] == ["gzip", "none", "none"]
    assert [row["position"] for row in rows if row["segment"] == 0] == positions(data.segments()[0])
    assert rows[-1]["leader_epoch"] == 1


def test_dump_of_files(run: Run, data: Data) -> None:
    directory, last = data.directory(), data.segments()[-1]
    base = int(last.stem)
    assert [row["offset"] for row in run("dump", last).rows] == list(range(base, 80))
    index = run("dump", last.with_suffix(".index")).rows
    assert index
    assert {row["position"] for row in index} <= set(positions(last))
    assert run("dump", last.with_suffix(".timeindex")).rows[-1] == {"timestamp": NOW_MS + 39, "offset": 79}
    (producer,) = run("dump", directory / f"{80:020}.snapshot").rows
    assert (producer["producer_id"], producer["last_sequence"], producer["last_offset"]) == (7, 79, 79)
    assert run("dump", directory / "leader-epoch-checkpoint").rows == [
        {"leader_epoch": 0, "start_offset": 0},
        {"leader_epoch": 1, "start_offset": 40},
    ]
    assert run("dump", directory / "partition.metadata").rows == [{"topic_id": "AAECAwQFBgcICQoLDA0ODw"}]
    (meta,) = run("dump", data.path / "meta.properties").rows
    assert meta["node_id"] == 0
    points = run("dump", data.path / "recovery-point-offset-checkpoint").rows
    assert points == [{"topic": "t", "partition": 0, "offset": 80}, {"topic": "u", "partition": 1, "offset": 2}]


def test_a_file_under_another_name_is_dumped(run: Run, data: Data) -> None:
    deleted = data.segments()[-1].rename(data.segments()[-1].with_suffix(".log.deleted"))
    rows = run("dump", deleted).rows
    assert [row["offset"] for row in rows] == list(range(int(deleted.name[:20]), 80))


def test_tables_leave_out_columns_of_defaults(run: Run, data: Data) -> None:
    head, first, *_ = run("dump", data.directory(), "--table").out.splitlines()
    assert head.split() == [
        "TOPIC",
        "PARTITION",
        "OFFSET",
        "TIMESTAMP",
        "KEY",
        "VALUE",
        "PRODUCER",
        "ID",
        *["PRODUCER", "EPOCH", "SEQUENCE"],
    ]
    assert "2023-11-14T22:13:20.000Z" in first
    assert run("ls", data.path, "--table").out.splitlines()[0].split()[-1] == "STATE"


def test_nothing_is_wrong(run: Run, data: Data) -> None:
    before = everything(data.path)
    shown = run("verify", data.path)
    assert (shown.code, shown.errors) == (0, [])
    assert shown.rows[0] == {
        "topic": "t",
        "partition": 0,
        "segments": len(data.segments()),
        "bytes": sum(path.stat().st_size for path in data.segments()),
        "batches": 40,
        "records": 80,
        "start_offset": 0,
        "end_offset": 80,
        "missing_offsets": 0,
        "indexes": "same",
        "findings": [],
    }
    assert everything(data.path) == before


def test_damage_is_found_and_repaired(run: Run, data: Data) -> None:
    log = data.segments()[1]
    at = positions(log)[2]
    change(log, at + 70)
    dumped = run("dump", data.path, "--topic", "t")
    assert dumped.code == 1 or dumped.rows  # without its checksum a record may still be read
    shown = run("verify", data.path)
    assert shown.code == 1
    (sentence,) = shown.errors
    assert sentence.startswith(f"corrupt: {log}: bytes {at} to {positions(log)[3]}, offsets ")
    assert [one["kind"] for one in shown.rows[0]["findings"]] == ["corrupt"]

    before = everything(data.path)
    dry = run("repair", data.path, "--dry-run")
    assert dry.code == 0
    assert {path: held for path, held in everything(data.path).items() if not path.endswith(".lock")} == {
        path: held for path, held in before.items() if not path.endswith(".lock")
    }
    (row,) = run("repair", data.path).rows
    assert row | {"done": False} == dry.rows[0]
    base = int(log.stem) + 4
    assert (row["action"], row["from_byte"], row["lost_from"], row["lost_to"]) == ("move aside", at, base, base + 1)
    assert dry.rows[0]["moved_to"] == row["moved_to"]
    assert Path(row["moved_to"]).stat().st_size == row["to_byte"] - row["from_byte"]
    assert run("repair", data.path).rows == []
    after = run("verify", data.path)
    assert (after.code, after.errors, after.rows[0]["missing_offsets"]) == (0, [], 2)
    assert [row["offset"] for row in run("dump", data.directory()).rows] == [
        offset for offset in range(80) if offset not in (base, base + 1)
    ]
    gaps = run("dump", data.directory(), "--gaps").rows
    assert gaps == [{"topic": "t", "partition": 0, "first": base, "last": base + 1, "offsets": 2, "reason": "missing"}]


def test_a_repair_is_refused_while_a_broker_has_the_directory(run: Run, data: Data) -> None:
    lock = Files().lock(str(data.path / ".lock"))
    shown = run("repair", data.path)
    lock.release()
    assert shown.code == 1
    assert "is in use by process" in shown.errors[0]
    assert run("repair", data.path).code == 0


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["verify", "nowhere"], "there is no nowhere"),
        (["ls", "{tmp}"], "neither a data directory nor a partition's"),
        (["dump", "{data}", "--topic", "v"], "has no partition of v"),
        (["dump", "{data}/.kafka_cleanshutdown"], "no file of a data directory has such a name"),
        (["dump", "{data}", "--from", "5", "--to", "5"], "no offset is from 5 on and before 5"),
        (["verify", "{data}/meta.properties"], "is a file; `headgate log verify` takes"),
    ],
)
def test_impossible_arguments_exit_with_2(
    run: Run, data: Data, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    shown = run(*(one.format(tmp=tmp_path, data=data.path) for one in arguments))
    if "{tmp}" in arguments[1]:
        assert tmp_path.is_dir()
    assert shown.code == 2
    assert sentence in shown.errors[0]


def test_unreadable_records_are_reported_with_their_position(run: Run, data: Data) -> None:
    """The first batch is a compressed one."""
    log = data.segments()[0]
    change(log, 61, count=8)
    shown = run("dump", data.directory())
    assert (shown.code, shown.rows) == (1, [])
    assert f"{log}: byte 0, offset 0: " in shown.errors[0]


@pytest.mark.parametrize("arguments", [["dump", "d", "--from", "-1"], ["dump", "d", "--gaps", "--batches"], ["fix"]])
def test_wrong_usage_exits_with_2(run: Run, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2


def test_ls_of_a_damaged_partition_is_no_success(run: Run, data: Data) -> None:
    for path in data.segments():
        path.unlink()
    shown = run("ls", data.path)
    assert (shown.code, [row["state"] for row in shown.rows]) == (1, ["damaged", "clean"])
    assert shown.errors == [f"{data.directory()} is damaged: `headgate log verify {data.directory()}` says more"]


def test_a_damaged_auxiliary_file_is_reported(run: Run, data: Data) -> None:
    (data.path / "recovery-point-offset-checkpoint").write_text("0\n5\n")
    (data.directory() / "partition.metadata").write_text("version: 0\n")
    shown = run("verify", data.path)
    assert shown.code == 1
    assert "recovery-point-offset-checkpoint should have 5 rows" in shown.errors[0]
    assert "names no topic id" in shown.errors[1]
    assert shown.errors[1].count("partition.metadata") == 1
    assert run("ls", data.path).code == 1
