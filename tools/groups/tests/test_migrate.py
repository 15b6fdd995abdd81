"""`headgate groups migrate` as it is typed: there and back, dry runs, stops, patterns, and its sentences."""

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_configs import DescribeConfigsRequest
from headgate.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from headgate.protocol.messages.offset_fetch import OffsetFetchResponsePartition as Partition
from headgate.protocol.messages.offset_fetch import OffsetFetchResponseTopic as Topic
from headgate.tools.groups import command, migrate
from headgate.tools.tests.command_output import CommandOutput, Run
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, ModelMember

STORE, SOURCE, STATUS = "headgate.offsets.store", "headgate.offsets.source", "headgate.offsets.status"


@pytest.fixture
def run(model: ModelCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Two groups in ZooKeeper, of which `app-a` has offsets of its own in the coordinator, and `new` without any."""
    monkeypatch.setattr("headgate.tools.groups.migrate.time.sleep", lambda seconds: None)
    model.topics["t"] = [Log(), Log(), Log()]
    model.zookeeper["app-a"] = {("t", 0): 5, ("t", 1): 6, ("t", 2): 7}
    model.zookeeper["app-b"] = {("t", 0): 8}
    model.groups = {
        "app-a": ModelGroup(offsets={("t", 0): (5, -1, ""), ("t", 1): (9, 0, "kept")}),
        "app-b": ModelGroup("Stable", "zookeeper", members=[ModelMember("b-1", client_id="zookeeper")]),
        "new": ModelGroup(offsets={("t", 0): (3, -1, "")}),
    }
    for name in model.groups:
        model.group_configs[name] = {STORE: "separate"}
    model.on_group_configs = lambda group: carry(model, group)

    def run_command(*arguments: str) -> CommandOutput:
        code = command.main(["migrate", *arguments])
        captured = capsys.readouterr()
        return CommandOutput(code, captured.out, captured.err)

    return run_command


def carry(model: ModelCluster, group: str) -> str:
    """The broker: the side that leads wins, at once."""
    configs = model.group_configs[group]
    if configs[STORE] == "dual":
        ours, theirs = model.zookeeper[group], model.groups[group].offsets
        if configs[SOURCE] == "zookeeper":
            theirs |= {one: (offset or 0, -1, "") for one, offset in ours.items()}
        else:
            ours |= {one: row[0] for one, row in theirs.items()}
        configs[STATUS] = "carried"
    else:
        configs.pop(STATUS, None)
    return ""


def test_the_plan_names_every_offset_that_would_change(run: Run, model: ModelCluster) -> None:
    shown = run("plan", "app-*")
    assert [(row["group"], row["partition"], row["after"], row["change"]) for row in shown.rows] == [
        ("app-a", 1, 6, "kafka moves by -3"),
        ("app-a", 2, 7, "kafka gets it"),
        ("app-b", 0, 8, "kafka gets it"),
    ]
    assert shown.errors == [
        "2 groups would go on, 0 are there; 1 of their offsets are the same in both stores",
        "this was a dry run, nothing is changed; --execute does it",
    ]
    assert not model.of(IncrementalAlterConfigsRequest)


def test_there_and_back(run: Run, model: ModelCluster) -> None:
    assert run("start", "app-*").rows
    assert model.group_configs["app-a"] == {STORE: "separate"}
    assert run("start", "app-*", "--execute").rows == [
        {"group": "app-a", "before": "separate", "after": "dual", "status": "carried"},
        {"group": "app-b", "before": "separate", "after": "dual", "status": "carried"},
    ]
    assert model.groups["app-a"].offsets["t", 1] == (6, -1, "")
    assert run("verify", "app-*").errors == ["4 offsets of 2 groups are the same in both stores"]
    shown = run("finish", "app-*", "--execute")
    assert shown.code == 1
    assert shown.errors[0].startswith("group app-b: its members may commit to ZooKeeper")
    assert [(row["group"], row["after"]) for row in shown.rows] == [("app-a", "kafka")]
    assert run("finish", "app-b", "--force", "--execute").code == 0
    model.groups["app-a"].offsets["t", 0] = (50, -1, "")
    assert [row["change"] for row in run("back", "app-a").rows] == ["zookeeper moves by +45"]
    assert run("back", "app-*", "--execute").code == 0
    assert model.zookeeper["app-a"]["t", 0] == 50
    assert run("finish", "app-*", "--in", "zookeeper", "--execute").code == 0
    assert model.group_configs["app-a"] == {STORE: "separate"}


def test_a_step_that_was_made_changes_nothing(run: Run, model: ModelCluster) -> None:
    run("start", "app-a", "--execute")
    model.asked.clear()
    shown = run("start", "app-a", "--execute")
    assert shown.rows == [{"group": "app-a", "before": "dual", "after": "dual", "status": "carried"}]
    assert not model.of(IncrementalAlterConfigsRequest)


def test_a_group_that_is_named_need_not_be_listed(run: Run, model: ModelCluster) -> None:
    del model.groups["app-b"]
    assert [row["group"] for row in run("plan", "app-b").rows] == ["app-b"]
    assert run("plan", "nothing-*").errors[0].startswith("0 groups would go on")


def test_verify_fails_with_each_difference(run: Run, model: ModelCluster) -> None:
    model.zookeeper["app-b"]["u", 0] = None
    shown = run("verify", "app-*")
    assert shown.code == 1
    assert [(row["topic"], row["partition"], row["cause"]) for row in shown.rows if row["group"] == "app-b"] == [
        ("t", 0, "only ZooKeeper has an offset; the stores are separate"),
        ("u", 0, "the node in ZooKeeper cannot be read: its data are no number; there is no such topic"),
    ]
    assert shown.errors[0] == "the stores differ in 4 partitions of 2 groups"


def test_offsets_of_unknown_topics_and_bad_nodes_are_named(run: Run, model: ModelCluster) -> None:
    model.zookeeper["app-b"]["later", 0] = 77
    model.zookeeper["app-b"]["t", 1] = None
    shown = run("plan", "app-b")
    assert [(row["topic"], row["partition"], row["after"], row["change"]) for row in shown.rows] == [
        ("later", 0, 77, "kafka gets it; there is no such topic"),
        ("t", 0, 8, "kafka gets it"),
        ("t", 1, None, "the node in ZooKeeper cannot be read: its data are no number"),
    ]
    del model.zookeeper["app-b"]["t", 1]
    run("start", "app-b", "--execute")
    shown = run("verify", "app-b")
    assert shown.code == 0
    assert shown.errors == [
        "2 offsets of 1 groups are the same in both stores",
        "offsets are kept of partitions that do not exist here: later-0: there is no such topic",
    ]
    del model.groups["app-b"].offsets["later", 0]
    shown = run("verify", "app-b")
    assert shown.code == 1
    assert shown.rows[0]["cause"] == "only ZooKeeper has an offset; there is no such topic"


def test_a_refused_finish_tells_how_long_members_stay(run: Run, model: ModelCluster) -> None:
    run("start", "app-b", "--execute")
    shown = run("finish", "app-b", "--execute")
    assert "until its session ends: zookeeper.session.timeout.ms of that client, 6 s by default" in shown.errors[0]


def test_a_commit_between_two_reads_is_no_difference(run: Run, model: ModelCluster) -> None:
    run("start", "app-b", "--execute")

    def commit(node: int, request: object, version: int) -> None:
        if isinstance(request, OffsetFetchRequest) and version:
            for number in model.zookeeper["app-b"]:
                offset = (model.zookeeper["app-b"][number] or 0) + 1
                model.zookeeper["app-b"][number] = offset
                model.groups["app-b"].offsets[number] = (offset, -1, "")

    model.disturb = commit
    assert run("verify", "app-b").code == 0
    assert run("finish", "app-b", "--force").code == 0


def test_a_difference_that_stays_refuses_a_finish(run: Run, model: ModelCluster) -> None:
    run("start", "app-b", "--execute")
    model.zookeeper["app-b"]["t", 0] = 99
    shown = run("finish", "app-b", "--force")
    assert shown.errors[0] == "group app-b: the stores differ in t-0; `verify` says why"


def test_partitions_that_differ_one_after_the_other_are_no_difference(run: Run, model: ModelCluster) -> None:
    """A commit of another partition falls into each look."""
    run("start", "app-a", "--execute")
    looks = 0

    def commit(node: int, request: object, version: int) -> None:
        nonlocal looks
        if isinstance(request, OffsetFetchRequest) and version:
            looks += 1
            partition = ("t", looks % 3)
            model.zookeeper["app-a"][partition] = 100 + looks
            model.groups["app-a"].offsets[partition] = (100 + looks, -1, "")

    model.disturb = commit
    assert run("verify", "app-a").code == 0


def test_the_status_of_each_group(run: Run, model: ModelCluster) -> None:
    model.group_configs["app-b"] = {STORE: "dual", SOURCE: "zookeeper", STATUS: "failed: ZooKeeper is gone"}
    assert run("status").rows[:2] == [
        {
            "group": "app-a",
            "store": "separate",
            "source": None,
            "zookeeper_members": 0,
            "kafka_members": 0,
            "zookeeper_offsets": 3,
            "kafka_offsets": 2,
            "different": 2,
            "records_apart": 3,
            "status": None,
        },
        {
            "group": "app-b",
            "store": "dual",
            "source": "zookeeper",
            "zookeeper_members": 1,
            "kafka_members": 0,
            "zookeeper_offsets": 1,
            "kafka_offsets": 0,
            "different": 1,
            "records_apart": 0,
            "status": "failed: ZooKeeper is gone",
        },
    ]


def test_a_status_without_zookeeper_has_the_error(run: Run, model: ModelCluster) -> None:
    gone = OffsetFetchResponse(topics=[Topic("", [Partition(-1, -1, -1, "", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)])])
    model.disturb = lambda node, request, version: (
        gone if isinstance(request, OffsetFetchRequest) and not version and request.group_id == "app-b" else None
    )
    shown = run("status", "app-a", "app-b", "--timeout", "0.01")
    assert shown.code == 1
    assert [(row["group"], row["store"], row["kafka_offsets"]) for row in shown.rows] == [
        ("app-a", "separate", 2),
        ("app-b", "separate", None),
    ]
    assert "COORDINATOR_LOAD_IN_PROGRESS" in shown.rows[1]["status"]
    assert shown.errors[0].endswith("; perhaps it waits for ZooKeeper: see the broker's log")


def test_the_tool_waits_for_the_carry_over(run: Run, model: ModelCluster) -> None:
    looks = 0

    def carry_slowly(node: int, request: object, version: int) -> None:
        nonlocal looks
        if isinstance(request, DescribeConfigsRequest) and STATUS in model.group_configs["app-b"]:
            looks += 1
            model.group_configs["app-b"][STATUS] = "carried" if looks > 3 else "carrying"

    model.disturb = carry_slowly
    (row,) = run("start", "app-b", "--execute").rows
    assert (row["status"], looks) == ("carried", 4)


def test_a_carry_over_that_fails_is_told_at_the_end(run: Run, model: ModelCluster) -> None:
    model.on_group_configs = lambda group: (
        model.group_configs[group].update({STATUS: "failed: ZooKeeper is gone"}) or ""
    )
    shown = run("start", "app-b", "--execute", "--timeout", "0.01")
    assert shown.errors == ["group app-b: not carried over yet: failed: ZooKeeper is gone"]
    assert shown.code == 1


def test_a_refusal_of_the_broker_stops_that_group_alone(run: Run, model: ModelCluster) -> None:
    model.on_group_configs = lambda group: "no such thing" if group == "app-a" else carry(model, group)
    shown = run("start", "app-*", "--execute")
    assert shown.errors == ["group app-a: not changed: no such thing (INVALID_CONFIG)"]
    assert [row["group"] for row in shown.rows] == ["app-b"]


def test_a_stop_between_parts_is_continued(run: Run, model: ModelCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "_GROUPS_AT_ONCE", 1)

    def stop(node: int, request: object, version: int) -> None:
        if isinstance(request, IncrementalAlterConfigsRequest) and request.resources[0].resource_name == "app-b":
            raise KeyboardInterrupt

    model.disturb = stop
    with pytest.raises(KeyboardInterrupt):
        run("start", "app-*", "--execute")
    assert model.group_configs["app-a"][STORE] == "dual"
    model.disturb = lambda *_: None
    assert [row["before"] for row in run("start", "app-*", "--execute").rows] == ["dual", "separate"]


def test_another_broker_is_told_by_one_sentence_for_each_group(run: Run, model: ModelCluster) -> None:
    model.group_configs.clear()
    shown = run("plan", "app-a")
    assert shown.code == 1
    assert "has no headgate.offsets.store; it has to be Headgate with zookeeper.connect" in shown.errors[0]
