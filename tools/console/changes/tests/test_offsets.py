"""Offsets are moved as the preview says: to a number, a time, an end, or by a number of records."""

from __future__ import annotations

import pytest

from headgate.protocol.messages.offset_commit import OffsetCommitRequest
from headgate.tools.console.changes.offsets import reset_offsets
from headgate.tools.console.changes.plan import ChangeLine, ChangePlan
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.output import UsageError
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, ModelMember, opened

TIME = "1970-01-01T00:00:01.045Z"


def populate(model: ModelCluster) -> None:
    """orders-0 has the offsets 10 to 20 with the times 900 to 1090, orders-1 0 to 2,000; audit has one partition."""
    log = Log()
    log.append(*range(900, 1100, 10))
    log.start = 10
    model.topics |= {"orders": [log, Log(end=2000)], "audit": [Log(leader=1, end=50)]}
    model.nodes = [0, 1]
    model.groups["billing"] = ModelGroup(
        offsets={("orders", 0): (12, 4, "note"), ("orders", 1): (1500, -1, ""), ("audit", 0): (50, -1, "")}
    )


def parameters(**values: str | list[str]) -> Parameters:
    given = {"group": "billing"} | values
    return Parameters(
        [(name, each) for name, value in given.items() for each in ([value] if isinstance(value, str) else value)]
    )


def plan_of(**values: str | list[str]) -> ChangePlan:
    with opened() as cluster:
        return reset_offsets(cluster, parameters(**values))


def offsets_of(model: ModelCluster, group: str = "billing") -> dict[str, int]:
    return {f"{topic}-{number}": row[0] for (topic, number), row in model.groups[group].offsets.items()}


def applied(plan: ChangePlan) -> tuple[list[str], list[str]]:
    with opened() as cluster:
        done, failures, _ = plan.apply(cluster)
    return list(done), list(failures)


def test_every_offset_of_a_group_to_the_start(model: ModelCluster) -> None:
    populate(model)
    plan = plan_of(all_topics="true", to="earliest")
    assert plan.summary == "Move 3 offsets of the group billing to the start: 1,552 records are read again"
    assert plan.lines == [
        ChangeLine("audit-0", "50", "start", "offset 0; 50 records are read again; lag 0 → 50"),
        ChangeLine("orders-0", "12", "start", "offset 10; 2 records are read again; lag 8 → 10"),
        ChangeLine("orders-1", "1,500", "start", "offset 0; 1,500 records are read again; lag 500 → 2,000"),
    ]
    assert plan.command == "headgate groups reset billing --to earliest --all-topics --execute"
    assert (plan.problems, plan.warnings, plan.confirmation) == ([], [], "")
    assert offsets_of(model)["orders-1"] == 1500, "a plan only reads"
    assert applied(plan) == (["3 offsets of the group billing are changed"], [])
    assert offsets_of(model) == {"audit-0": 0, "orders-0": 10, "orders-1": 0}


def test_topics_to_a_time(model: ModelCluster) -> None:
    populate(model)
    plan = plan_of(topic=["orders:0", "audit"], to=TIME)
    assert plan.summary == f"Move 1 offset of the group billing to {TIME}: 3 records are skipped"
    assert plan.lines == [
        ChangeLine("audit-0", "50", "end", "offset 50; unchanged; lag 0; nothing is so new: the end"),
        ChangeLine("orders-0", "12", "15", "3 records are skipped; lag 8 → 5"),
    ]
    assert plan.command == f"headgate groups reset billing --to {TIME} --topic orders:0 --topic audit --execute"
    assert applied(plan) == (["1 offset of the group billing is changed"], [])
    [request] = model.of(OffsetCommitRequest)
    assert [topic.name for topic in request.topics] == ["orders"]


@pytest.mark.parametrize(
    "by, line, command",
    [
        (
            "-100",
            ChangeLine("orders-1", "1,500", "1,400", "100 records are read again; lag 500 → 600"),
            "--by -100",
        ),
        ("+1", ChangeLine("orders-1", "1,500", "1,501", "1 record is skipped; lag 500 → 499"), "--by 1"),
        (
            "900",
            ChangeLine(
                "orders-1",
                "1,500",
                "end",
                "offset 2,000; 500 records are skipped; lag 500 → 0; 2400 is beyond the end",
            ),
            "--by 900",
        ),
    ],
)
def test_a_shift(model: ModelCluster, by: str, line: ChangeLine, command: str) -> None:
    populate(model)
    plan = plan_of(topic="orders:1", by=by)
    assert plan.lines == [line]
    assert plan.command == f"headgate groups reset billing {command} --topic orders:1 --execute"


def test_a_shift_leaves_out_partitions_without_an_offset(model: ModelCluster) -> None:
    populate(model)
    del model.groups["billing"].offsets["orders", 1]
    plan = plan_of(topic=["orders", "audit"], by="-1")
    assert [line.subject for line in plan.lines] == ["audit-0", "orders-0"]
    assert plan.problems == []
    assert plan.warnings == ["the group billing has committed nothing for orders-1: left out"]
    assert plan.command == "headgate groups reset billing --by -1 --topic audit:0 --topic orders:0 --execute"
    model.groups["billing"].offsets.clear()
    assert plan_of(topic="orders", by="-1").problems == ["no partition is chosen that has a committed offset"]


def test_offsets_of_single_partitions(model: ModelCluster) -> None:
    populate(model)
    plan = plan_of(target=["orders:1=7", "audit:0=99", "orders:0=3"])
    assert plan.summary == "Set 2 offsets of the group billing: 1,495 records are read again"
    assert [line[:3] for line in plan.lines] == [
        ("audit-0", "50", "end"),
        ("orders-0", "12", "start"),
        ("orders-1", "1,500", "7"),
    ]
    assert plan.command == (
        r"printf '%s\n' orders,1,7 audit,0,99 orders,0,3 | headgate groups reset billing --from-file - --execute"
    )
    assert applied(plan) == (["2 offsets of the group billing are changed"], [])
    assert offsets_of(model) == {"audit-0": 50, "orders-0": 10, "orders-1": 7}


def test_the_plan_stays_the_same_while_others_write(model: ModelCluster) -> None:
    populate(model)
    wanted: list[dict[str, str | list[str]]] = [
        {"all_topics": "true", "to": "latest"},
        {"target": ["orders:1=5000", "audit:0=3"]},
        {"topic": "orders", "by": "600"},
        {"topic": "orders", "to": TIME},
    ]
    before = [plan_of(**each).answer() for each in wanted]
    for log in (*model.topics["orders"], *model.topics["audit"]):
        log.append(1, 2)
    after = [plan_of(**each).answer() for each in wanted]
    assert [each["digest"] for each in before] == [each["digest"] for each in after]
    assert [each["summary"] for each in before] != [each["summary"] for each in after]
    model.groups["billing"].offsets["orders", 1] = (1501, -1, "")
    assert plan_of(**wanted[0]).answer()["digest"] != before[0]["digest"]


def test_several_groups_stand_before_their_partitions(model: ModelCluster) -> None:
    populate(model)
    plan = plan_of(group=["billing", "copy of billing"], topic="orders:1", to="1600")
    assert plan.summary == "Move 2 offsets of 2 groups to 1600: 100 records are skipped"
    assert plan.lines == [
        ChangeLine("billing orders-1", "1,500", "1,600", "100 records are skipped; lag 500 → 400"),
        ChangeLine("copy of billing orders-1", None, "1,600", "lag 400; the group is new"),
    ]
    assert plan.warnings == ["the group copy of billing is new: the change makes it"]
    assert plan.command == (
        "headgate groups reset billing --to 1600 --topic orders:1 --execute && "
        "headgate groups reset 'copy of billing' --to 1600 --topic orders:1 --execute"
    )
    done, failures = applied(plan)
    assert done == ["1 offset of the group billing is changed", "1 offset of the group copy of billing is changed"]
    assert failures == []
    assert offsets_of(model, "copy of billing") == {"orders-1": 1600}


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_an_active_group_is_a_problem_that_names_its_members(model: ModelCluster, kind: str) -> None:
    populate(model)
    group = model.groups["billing"]
    group.state, group.type, group.members = "Stable", kind, [ModelMember("m-1")]
    plan = plan_of(all_topics="true", to="latest")
    assert plan.summary == "The offsets of the group billing cannot be changed"
    assert plan.problems == [
        "group billing is Stable, its offsets belong to its members: m-1 (client app at /10.0.0.1); stop them first"
    ]


def test_an_empty_consumer_group_is_moved(model: ModelCluster) -> None:
    populate(model)
    model.groups["billing"].type = "consumer"
    assert applied(plan_of(topic="orders:1", to="3")) == (["1 offset of the group billing is changed"], [])


def test_a_member_that_joins_after_the_preview_stops_the_change(model: ModelCluster) -> None:
    populate(model)
    plan = plan_of(topic="orders:1", to="3")
    model.groups["billing"].members = [ModelMember("late")]
    done, [failure] = applied(plan)
    assert done == []
    assert failure.endswith("a member has joined meanwhile")


@pytest.mark.parametrize(
    "kind, sentence",
    [
        ("share", "group billing is a share group; Kafka's kafka-share-groups.sh changes its offsets"),
        ("streams", "group billing is a streams group; Kafka's kafka-streams-groups.sh changes its offsets"),
        (
            "zookeeper",
            (
                "group billing has its offsets in ZooKeeper alone; `headgate groups migrate start billing --execute` "
                "joins the stores, and the console changes both then"
            ),
        ),
    ],
)
def test_groups_with_another_store_have_a_sentence(model: ModelCluster, kind: str, sentence: str) -> None:
    populate(model)
    model.groups["billing"].type = kind
    plan = plan_of(topic="orders:1", to="3")
    assert (plan.problems, plan.lines, plan.command) == ([sentence], [], "")


def test_topics_that_are_not_there_are_problems(model: ModelCluster) -> None:
    populate(model)
    model.groups["billing"].offsets["gone", 0] = (3, -1, "")
    assert plan_of(topic=["orders:7", "none"], to="3").problems == [
        "none: there is no such topic; `headgate topics list` shows all",
        "orders-7: there is no such partition: the topic has 2",
    ]
    [problem] = plan_of(all_topics="true", to="latest").problems
    assert problem.startswith("gone-0: there is no such topic")
    assert plan_of(group="new", all_topics="true", to="latest").problems == [
        "the group new has committed nothing; name the topics"
    ]


def test_what_is_there_already_is_no_change(model: ModelCluster) -> None:
    populate(model)
    plan = plan_of(target="orders:1=1500")
    assert plan.summary == "Nothing changes: the offsets of the group billing are there already"
    assert plan.lines == [ChangeLine("orders-1", "1,500", "1,500", "unchanged; lag 500")]
    assert applied(plan) == (["Nothing had to be changed"], [])
    assert model.of(OffsetCommitRequest) == []


@pytest.mark.parametrize(
    "values, sentence",
    [
        ({"group": []}, "group is missing"),
        ({"to": "latest"}, "give topic or all_topics=true"),
        ({"topic": "a"}, "give topic or all_topics=true"),
        ({"topic": "a", "to": "1", "by": "1"}, "give topic or all_topics=true"),
        ({"topic": "a", "target": "a:0=1"}, "give topic or all_topics=true"),
        ({"topic": "a", "by": "two"}, "by=two is no number of records"),
        ({"topic": "a", "to": "2h"}, "to=2h moves with the clock"),
        ({"topic": "a", "to": "soon"}, "'soon' is no target of a reset"),
        ({"topic": "a:x", "to": "1"}, "'x' is no partition"),
        ({"target": "orders"}, "target=orders is not as orders:3=1200"),
        ({"target": "orders:0=-1"}, "'-1' is no offset"),
        ({"target": "orders:0-2=1"}, "give one offset for each partition"),
        ({"target": ["orders:0=1", "orders:0=2"]}, "give one offset for each partition"),
        ({"topic": "a:0-999999999", "to": "1"}, "more than 200000 partitions are named"),
        ({"topic": "a:0-10000", "to": "1"}, "1 groups and 10001 partitions are more than 10000 offsets"),
        ({"group": [f"g{n}" for n in range(200)], "topic": "a:0-50", "by": "1"}, "200 groups and 51 partitions"),
        (
            {"group": [f"g{n}" for n in range(200)], "target": [f"orders:{n}=1" for n in range(51)]},
            "200 groups and 51 partitions are more",
        ),
        ({"group": [f"g{n}" for n in range(200)], "topic": "a" * 20_000, "to": "1"}, "1 topics are too long"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_parameters_are_sentences(model: ModelCluster, values: dict[str, str | list[str]], sentence: str) -> None:
    populate(model)
    with opened() as cluster, pytest.raises((BadParameter, UsageError), match=sentence):
        reset_offsets(cluster, parameters(**values))


def test_many_groups_of_a_large_topic_are_too_many(model: ModelCluster) -> None:
    model.topics["large"] = [Log() for _ in range(51)]
    names = [f"g{number}" for number in range(200)]
    model.groups = {name: ModelGroup(offsets={("large", 0): (0, -1, "")}) for name in names}
    for target in ({"to": "latest"}, {"by": "1"}):
        with pytest.raises(BadParameter, match="200 groups and 51 partitions are more than 10000 offsets"):
            plan_of(group=names, topic="large", **target)
