"""`headgate groups` as it is typed: rows, tables, sentences, exit codes, and that nothing changes without --execute."""

import io
from pathlib import Path

import pytest

from headgate.protocol.messages.list_groups import ListGroupsRequest
from headgate.protocol.messages.offset_commit import OffsetCommitRequest
from headgate.protocol.messages.offset_delete import OffsetDeleteRequest
from headgate.tools.groups import command
from headgate.tools.tests.command_output import CommandOutput, Run
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, ModelMember

NOW_MS = 1_700_000_000_000


@pytest.fixture
def run(model: ModelCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Three groups: `live` reads a, `idle` has stopped behind a and b, `share` is of another kind."""
    monkeypatch.setattr("headgate.tools.groups.actions.now_ms", lambda: NOW_MS)
    monkeypatch.setattr("headgate.tools.groups.command.now_ms", lambda: NOW_MS)
    model.topics = model.topics | {"a": [Log(), Log(1), Log()], "b": [Log()]}
    for logs in model.topics.values():
        for log in logs:
            log.append(*range(NOW_MS - 10_000, NOW_MS, 1000))
    member = ModelMember("m-1", {"a": [0, 1, 2], "b": [0]})
    model.groups = {
        "live": ModelGroup("Stable", members=[member], offsets={("a", 0): (10, 0, "")}),
        "idle": ModelGroup(coordinator=1, offsets={("a", 0): (8, 0, ""), ("a", 1): (9, 0, ""), ("b", 0): (10, 0, "")}),
        "share": ModelGroup("Stable", "share", "share"),
    }

    def run_command(*arguments: str) -> CommandOutput:
        code = command.main(arguments)
        captured = capsys.readouterr()
        return CommandOutput(code, captured.out, captured.err)

    return run_command


LEVELS = ("read_uncommitted", "read_committed")


def test_list(run: Run) -> None:
    shown = run("list")
    assert shown.code == 0
    assert shown.rows == [
        {"group": "idle", "state": "Empty", "type": "classic", "protocol": "consumer", "coordinator": 1},
        {"group": "live", "state": "Stable", "type": "classic", "protocol": "consumer", "coordinator": 0},
        {"group": "share", "state": "Stable", "type": "share", "protocol": "share", "coordinator": 0},
    ]


@pytest.mark.parametrize(
    "filters, expected",
    [
        (["--state", "empty"], ["idle"]),
        (["--state", "Stable,EMPTY", "--type", "classic"], ["idle", "live"]),
        (["--type", "share", "--type", "consumer"], ["share"]),
        (["--protocol", "consumer"], ["idle", "live"]),
        (["--protocol", "connect"], []),
    ],
)
def test_list_filters_by_state_type_and_protocol(
    run: Run, model: ModelCluster, filters: list[str], expected: list[str]
) -> None:
    assert [row["group"] for row in run("list", *filters).rows] == expected
    assert model.of(ListGroupsRequest)


def test_describe(run: Run) -> None:
    (row,) = run("describe", "live").rows
    assert {name: row[name] for name in ("group", "state", "type", "protocol", "assignor", "coordinator")} == {
        "group": "live",
        "state": "Stable",
        "type": "classic",
        "protocol": "consumer",
        "assignor": "range",
        "coordinator": "127.0.0.1:9092",
    }
    assert row["members"] == [
        {
            "member_id": "m-1",
            "instance_id": None,
            "client_id": "app",
            "host": "/10.0.0.1",
            "epoch": None,
            "partitions": {"a": [0, 1, 2], "b": [0]},
        }
    ]
    assert [(one["topic"], one["partition"], one["committed"], one["client_id"]) for one in row["partitions"]] == [
        ("a", 0, 10, "app"),
        ("a", 1, None, "app"),
        ("a", 2, None, "app"),
        ("b", 0, None, "app"),
    ]


def test_describe_prints_tables(run: Run) -> None:
    assert run("describe", "live", "idle", "--table").out.splitlines() == [
        "group idle: Empty, classic, coordinator 127.0.0.1:9093",
        "",
        "TOPIC  PARTITION  COMMITTED  END  LAG  LAG SECONDS  STATUS  LEADER  MEMBER ID",
        "a              0          8   10    2          2.0  ok           0          -",
        "a              1          9   10    1          1.0  ok           1          -",
        "b              0         10   10    0          0.0  ok           0          -",
        "",
        "group live: Stable, classic, assignor range, coordinator 127.0.0.1:9092",
        "",
        "MEMBER ID  INSTANCE ID  CLIENT ID  HOST       EPOCH  PARTITIONS",
        "m-1                  -  app        /10.0.0.1      -  a:0-2 b:0",
        "",
        "TOPIC  PARTITION  COMMITTED  END  LAG  LAG SECONDS  STATUS     LEADER  MEMBER ID",
        "a              0         10   10    0          0.0  ok              0  m-1",
        "a              1          -   10    -            -  no offset       1  m-1",
        "a              2          -   10    -            -  no offset       0  m-1",
        "b              0          -   10    -            -  no offset       0  m-1",
    ]


def test_lag_covers_all_groups_with_offsets(run: Run) -> None:
    """Share groups have no offsets to be behind with."""
    shown = run("lag")
    assert (shown.code, shown.errors) == (0, ["groups of the type share are left out"])
    assert [(row["group"], row["topic"], row["partition"], row["lag"], row["lag_seconds"]) for row in shown.rows] == [
        ("idle", "a", 0, 2, 2.0),
        ("idle", "a", 1, 1, 1.0),
        ("idle", "b", 0, 0, 0.0),
        ("live", "a", 0, 0, 0.0),
        ("live", "a", 1, None, None),
        ("live", "a", 2, None, None),
        ("live", "b", 0, None, None),
    ]
    assert set(shown.rows[0]) == {
        *("group", "topic", "partition", "committed", "start", "end", "lag", "lag_seconds", "status", "leader"),
        *("metadata", "member_id", "client_id", "host"),
    }


def test_lag_of_readers_of_committed_records(run: Run, model: ModelCluster) -> None:
    model.topics["a"][0].stable = 9
    arguments = ["idle", "--topic", "a:0"]
    ends = [(level, run("lag", *arguments, "--isolation-level", level).rows) for level in LEVELS]
    assert [(level, row["end"], row["lag"]) for level, (row,) in ends] == [
        ("read_uncommitted", 10, 2),
        ("read_committed", 9, 1),
    ]
    (group,) = run("describe", "idle", "--isolation-level", "read_committed").rows
    assert group["partitions"][0]["end"] == 9


def test_lag_prints_a_table_of_some_partitions(run: Run) -> None:
    assert run("lag", "idle", "--topic", "a:1,2", "--topic", "b", "--table").out.splitlines() == [
        "GROUP  TOPIC  PARTITION  COMMITTED  END  LAG  LAG SECONDS  STATUS  CLIENT ID  HOST",
        "idle   a              1          9   10    1          1.0  ok              -     -",
        "idle   b              0         10   10    0          0.0  ok              -     -",
    ]


@pytest.mark.parametrize(
    "limits, code, errors",
    [
        (["--fail-above", "1"], 3, ["idle in a-0: 2 records behind"]),
        (["--fail-above", "2"], 0, []),
        (["--fail-above-seconds", "1.5"], 3, ["idle in a-0: 2.0 s behind"]),
        (["--fail-above", "1", "--topic", "b"], 0, []),
    ],
)
def test_lag_above_a_limit_exits_with_3(run: Run, limits: list[str], code: int, errors: list[str]) -> None:
    shown = run("lag", "idle", "live", *limits)
    assert (shown.code, shown.errors) == (code, errors)
    assert shown.rows


@pytest.mark.parametrize("name", ["lag", "describe", "export"])
def test_a_missing_group_fails_the_command(run: Run, name: str) -> None:
    shown = run(name, "none", "idle")
    assert shown.code == 1
    assert shown.errors[0] == "group none: there is no such group; `headgate groups list` shows all"
    assert bool(shown.out) == (name != "export")


@pytest.mark.parametrize("name", ["lag", "describe", "export"])
def test_a_group_of_offsets_alone_is_shown(run: Run, model: ModelCluster, name: str) -> None:
    """A broker before 0.11 describes it as Dead, and does not list it."""
    model.groups["idle"].state = "Dead"
    shown = run(name, "idle")
    assert (shown.code, shown.errors) == (0, [])
    assert "idle" in shown.out


def offsets(model: ModelCluster, group: str) -> dict[tuple[str, int], int]:
    return {partition: place[0] for partition, place in model.groups[group].offsets.items()}


@pytest.mark.parametrize("arguments", [[], ["--dry-run"]])
def test_a_reset_is_a_dry_run_without_execute(run: Run, model: ModelCluster, arguments: list[str]) -> None:
    shown = run("reset", "idle", "--to", "earliest", "--topic", "a:0-1", *arguments)
    assert shown.code == 0
    assert [(row["topic"], row["partition"], row["before"], row["after"]) for row in shown.rows] == [
        ("a", 0, 8, 0),
        ("a", 1, 9, 0),
    ]
    assert shown.errors == ["this was a dry run, nothing is changed; --execute does it"]
    assert not model.of(OffsetCommitRequest)


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--to", "earliest", "--topic", "a"], {("a", 0): 0, ("a", 1): 0, ("a", 2): 0, ("b", 0): 10}),
        (["--to", "latest", "--all-topics"], {("a", 0): 10, ("a", 1): 10, ("b", 0): 10}),
        (["--to", "4", "--topic", "a:1"], {("a", 0): 8, ("a", 1): 4, ("b", 0): 10}),
        (["--to", "3s", "--all-topics"], {("a", 0): 7, ("a", 1): 7, ("b", 0): 7}),
        (["--to", "2023-11-14T22:13:15Z", "--topic", "b"], {("a", 0): 8, ("a", 1): 9, ("b", 0): 5}),
        (["--by", "-2", "--all-topics"], {("a", 0): 6, ("a", 1): 7, ("b", 0): 8}),
        (["--by", "1", "--topic", "a:0"], {("a", 0): 9, ("a", 1): 9, ("b", 0): 10}),
    ],
)
def test_reset_moves_offsets(
    run: Run, model: ModelCluster, arguments: list[str], expected: dict[tuple[str, int], int]
) -> None:
    shown = run("reset", "idle", *arguments, "--execute")
    assert (shown.code, shown.errors) == (0, [])
    assert offsets(model, "idle") == expected


def test_reset_reads_targets_from_a_file(
    run: Run, model: ModelCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("a,0,3\nidle,b,0,4\n")
    assert run("reset", "idle", "--from-file", str(file), "--execute").code == 0
    assert offsets(model, "idle") == {("a", 0): 3, ("a", 1): 9, ("b", 0): 4}
    monkeypatch.setattr("sys.stdin", io.StringIO("a,0,5\na,0,6\n"))
    shown = run("reset", "idle", "--from-file", "-", "--execute")
    assert (shown.code, shown.errors) == (1, ["-: line 2: a-0 stands in the file twice"])
    assert offsets(model, "idle")["a", 0] == 3


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["live", "--to", "earliest", "--all-topics"], "group live is Stable, its offsets belong to its members: m-1 "),
        (["idle", "--to", "earliest", "--topic", "none"], "none: there is no such topic; `headgate topics list`"),
        (["idle", "--to", "earliest", "--topic", "a", "--topic", "b:1"], "b-1: there is no such partition"),
        (["empty", "--to", "earliest", "--all-topics"], "group empty has committed nothing; name the topics: --topic"),
        (["idle", "--by", "1", "--topic", "a"], "group idle has committed nothing for a-2, so it cannot be moved by 1"),
    ],
)
def test_a_refused_reset_changes_nothing(run: Run, model: ModelCluster, arguments: list[str], sentence: str) -> None:
    shown = run("reset", *arguments, "--execute")
    assert shown.code == 1
    assert shown.errors[0].startswith(sentence)
    assert shown.errors[-1] == "nothing is changed"
    assert not model.of(OffsetCommitRequest)


def test_a_group_that_only_zookeeper_has_is_shown_with_its_store(run: Run, model: ModelCluster) -> None:
    old = ModelMember("old_host-1", {"a": [0]}, client_id="zookeeper")
    model.groups["old"] = ModelGroup("Stable", "zookeeper", members=[old])
    model.zookeeper["old"] = {("a", 0): 4, ("b", 0): 10}
    assert [row["type"] for row in run("list").rows if row["group"] == "old"] == ["zookeeper"]
    (row,) = run("describe", "old").rows
    assert (row["type"], row["assignor"]) == ("zookeeper", "zookeeper")
    assert [(one["topic"], one["committed"], one["lag"], one["member_id"]) for one in row["partitions"]] == [
        ("a", 4, 6, "old_host-1"),
        ("b", 10, 0, None),
    ]
    assert run("lag", "old").rows[0]["lag"] == 6
    assert run("export", "old", "--format", "zookeeper").out.splitlines()[0] == "/consumers/old/offsets/a/0:4"


def test_a_node_of_zookeeper_without_an_offset_is_named(run: Run, model: ModelCluster) -> None:
    model.groups["old"] = ModelGroup("Empty", "zookeeper")
    model.zookeeper["old"] = {("a", 0): 4, ("a", 1): None}
    sentence = "group old: the offset of a-1 in ZooKeeper is not known: its data are no number"
    lag = run("lag", "old")
    assert [(row["partition"], row["committed"]) for row in lag.rows] == [(0, 4)]
    assert sentence in lag.errors
    exported = run("export", "old", "--format", "zookeeper")
    assert exported.out.splitlines() == ["/consumers/old/offsets/a/0:4"]
    assert sentence in exported.errors


def test_the_text_of_zookeeper_is_exported_and_imported(run: Run, model: ModelCluster, tmp_path: Path) -> None:
    file = str(tmp_path / "offsets.txt")
    lines = [f"/consumers/idle/offsets/{one}" for one in ("a/0:8", "a/1:9", "b/0:10")]
    assert run("export", "idle", "--format", "zookeeper").out.splitlines() == lines
    (tmp_path / "offsets.txt").write_text("\n".join(lines).replace(":9", ":4"))
    shown = run("import", file, "--execute")
    assert [(row["topic"], row["partition"], row["before"], row["after"]) for row in shown.rows] == [
        ("a", 0, 8, 8),
        ("a", 1, 9, 4),
        ("b", 0, 10, 10),
    ]
    assert model.groups["idle"].offsets["a", 1] == (4, -1, "")


def test_a_wrong_line_of_a_text_changes_nothing(run: Run, model: ModelCluster, tmp_path: Path) -> None:
    file = tmp_path / "offsets.txt"
    file.write_text("/consumers/idle/offsets/a/1:4\n/consumers/idle/offsets/a/2:x\n")
    shown = run("import", str(file), "--execute")
    assert (shown.code, shown.errors) == (
        1,
        [f"{file}: line 2: 'x' is no offset; write a whole number from 0 on"],
    )
    assert not model.of(OffsetCommitRequest)


def test_an_import_restores_an_export(run: Run, model: ModelCluster, tmp_path: Path) -> None:
    file = str(tmp_path / "offsets.json")
    assert run("export", "idle", "--output", file).errors == [f"3 offsets of 1 groups are in {file}"]
    before = dict(model.groups["idle"].offsets)
    model.groups["idle"].offsets["a", 0] = (1, 0, "")
    del model.groups["idle"].offsets["b", 0]
    shown = run("import", file)
    assert [(row["partition"], row["before"], row["after"], row["note"]) for row in shown.rows] == [
        (0, 1, 8, ""),
        (1, 9, 9, "unchanged"),
        (0, None, 10, ""),
    ]
    assert shown.errors == ["this was a dry run, nothing is changed; --execute does it"]
    assert not model.of(OffsetCommitRequest)
    assert run("import", file, "--execute").code == 0
    assert model.groups["idle"].offsets == before
    assert len(model.of(OffsetCommitRequest)) == 1


def test_one_active_group_stops_the_whole_import(run: Run, model: ModelCluster, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(run("export").out)
    model.groups["idle"].offsets["a", 0] = (1, 0, "")
    shown = run("import", str(file), "--execute")
    assert shown.code == 1
    assert shown.errors[0].startswith("group live is Stable, its offsets belong to its members: m-1 ")
    assert not model.of(OffsetCommitRequest)
    assert run("import", str(file), "--group", "idle", "--execute").code == 0
    assert offsets(model, "idle")["a", 0] == 8


def test_an_import_without_offsets_says_so(run: Run, model: ModelCluster, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    model.groups["idle"].offsets.clear()
    file.write_text(run("export", "idle").out)
    shown = run("import", str(file), "--execute")
    assert (shown.code, shown.out, shown.errors) == (0, "", [f"there are no offsets in {file}"])


def test_delete_removes_groups_without_members(run: Run, model: ModelCluster) -> None:
    shown = run("delete", "idle", "live", "none", "--dry-run")
    assert shown.rows == [{"group": "idle", "offsets": 3, "deleted": False}]
    assert "idle" in model.groups
    shown = run("delete", "idle", "live", "none")
    assert shown.rows == [{"group": "idle", "offsets": 3, "deleted": True}]
    assert shown.code == 1
    assert shown.errors == [
        "group none: there is no such group; `headgate groups list` shows all",
        "group live was not deleted, it is Stable: m-1 (client app at /10.0.0.1); stop them first",
    ]
    assert "idle" not in model.groups
    assert "live" in model.groups
    assert run("delete", "none", "--if-exists").code == 0


def test_delete_removes_offsets_of_topics(run: Run, model: ModelCluster) -> None:
    """Also of a topic that is gone."""
    model.groups["idle"].offsets["gone", 4] = (77, 0, "")
    arguments = ("delete", "idle", "--topic", "a:0", "--topic", "gone")
    assert [row["deleted"] for row in run(*arguments, "--dry-run").rows] == [False, False]
    assert not model.of(OffsetDeleteRequest)
    assert run(*arguments).rows == [
        {"group": "idle", "topic": "a", "partition": 0, "offset": 8, "deleted": True},
        {"group": "idle", "topic": "gone", "partition": 4, "offset": 77, "deleted": True},
    ]
    assert set(offsets(model, "idle")) == {("a", 1), ("b", 0)}
    shown = run(*arguments)
    assert shown.code == 1
    assert shown.errors == ["group idle has committed nothing for a:0", "group idle has committed nothing for gone"]
    assert run(*arguments, "--if-exists").code == 0


def test_offsets_in_use_are_not_deleted(run: Run, model: ModelCluster) -> None:
    shown = run("delete", "live", "--topic", "a")
    assert shown.code == 1
    (error,) = shown.errors
    assert error.startswith("group live: not deleted were the offsets of a-0: Offsets of a topic cannot be deleted")
    assert error.endswith("(GROUP_SUBSCRIBED_TO_TOPIC): m-1 (client app at /10.0.0.1); stop them first")
    assert offsets(model, "live") == {("a", 0): 10}


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ([], "required: list|describe|lag|reset|delete|export|import|migrate"),
        (["lst"], "invalid choice"),
        (["reset", "g", "--all-topics"], "one of the arguments --to --by --from-file is required"),
        (["reset", "g", "--to", "earliest"], "name the topics: --topic topic, or --all-topics"),
        (
            ["reset", "g", "--to", "erliest", "--all-topics"],
            "'erliest' is no target of a reset; write earliest, latest",
        ),
        (["reset", "g", "--to", "1", "--by", "1", "--topic", "a"], "not allowed with argument"),
        (["reset", "g", "--to", "1", "--topic", "a:x"], "'x' is no partition"),
        (["reset", "g", "--to", "1", "--topic", "a", "--execute", "--dry-run"], "not allowed with argument"),
        (["reset", "g", "--from-file", "x", "--topic", "a"], "the file of --from-file names the partitions"),
        (["lag", "--fail-above", "-1"], "'-1' is no whole number from 0 on"),
        (["lag", "--fail-above", "1.5"], "'1.5' is no whole number from 0 on"),
        (["lag", "--fail-above-seconds", "nan"], "'nan' is no number from 0 on"),
        (["lag", "--isolation-level", "x"], "'x' is no isolation level; write read_uncommitted or read_committed"),
        (["delete"], "the following arguments are required: group"),
        (["import"], "the following arguments are required: file"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    printed = capsys.readouterr().err
    assert "usage: headgate groups" in printed
    assert sentence in printed


@pytest.mark.parametrize("name", ["list", "lag", "describe"])
def test_a_cluster_without_groups_says_so(run: Run, model: ModelCluster, name: str) -> None:
    model.groups.clear()
    shown = run(name)
    assert (shown.code, shown.out, shown.errors) == (0, "", ["there are no groups yet"])


def test_a_group_without_offsets_says_so(run: Run, model: ModelCluster) -> None:
    model.groups["idle"].offsets.clear()
    assert run("describe", "idle", "--table").out.splitlines() == [
        "group idle: Empty, classic, coordinator 127.0.0.1:9093",
        "",
        "nothing is committed",
    ]


def test_control_characters_in_names_are_escaped(run: Run, model: ModelCluster) -> None:
    model.groups = {"\x1b[2J": ModelGroup("Stable", members=[ModelMember("\x1b[31m", {"a": [0]})])}
    printed = [
        run("describe", "--table").out,
        run("list", "--table").out,
        run("reset", "\x1b[2J", "--to", "1", "--topic", "a").errors[0],
    ]
    assert all("\\x1b[2J" in text and "\x1b" not in text for text in printed)


def test_a_command_without_a_broker_fails(run: Run, model: ModelCluster) -> None:
    model.dead = {0}
    shown = run("list")
    assert shown.code == 1
    assert shown.errors[0].startswith("no broker answers at 127.0.0.1:9092")
