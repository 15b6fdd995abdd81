"""Where groups are: committed offsets, ends, times and owners brought together."""

import pytest

from headgate.protocol.messages.fetch import FetchRequest
from headgate.protocol.messages.list_offsets import ListOffsetsRequest
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.groups.lag import NO_SUCH_PARTITION, UNKNOWN, PartitionLag, measure_lag
from headgate.tools.groups.members import describe_groups
from headgate.tools.groups.offsets import READ_COMMITTED, READ_UNCOMMITTED
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, ModelMember, opened

NOW_MS = 1_700_000_000_000


def ask(
    model: ModelCluster, *names: str, isolation_level: int = READ_UNCOMMITTED
) -> tuple[dict[tuple[str, str], PartitionLag], list[str]]:
    with opened() as cluster:
        groups, _ = describe_groups(cluster, names or model.groups)
        rows, failures = measure_lag(cluster, groups, lambda: NOW_MS, isolation_level)
    return {(row.group, str(row.partition)): row for row in rows}, failures


def populate(model: ModelCluster) -> None:
    """Topic a has ten records a second apart, the last one a second old; half of b is gone; c is empty."""
    model.topics = model.topics | {"a": [Log(1)], "b": [Log(2)], "c": [Log()]}
    for age_s in range(10, 0, -1):
        model.topics["a"][0].append(NOW_MS - age_s * 1000)
    model.topics["b"][0].append(*(NOW_MS - age_s * 1000 for age_s in (40, 30, 20, 10)))
    model.topics["b"][0].start = 2
    model.groups["g"] = ModelGroup(
        "Stable",
        members=[ModelMember("m", {"a": [0], "c": [0]})],
        offsets={("a", 0): (7, 0, "note"), ("b", 0): (1, 0, ""), ("gone", 3): (5, 0, "")},
    )
    model.groups["h"] = ModelGroup(offsets={("a", 0): (10, 0, ""), ("b", 0): (9, 0, ""), ("c", 0): (0, 0, "")})


def test_lag_in_records_and_in_seconds(model: ModelCluster) -> None:
    populate(model)
    rows, failures = ask(model)
    shown = {
        key: (row.start, row.end, row.records, row.seconds, row.status, row.leader, row.owner and row.owner.member_id)
        for key, row in rows.items()
    }
    assert shown == {
        ("g", "a-0"): (0, 10, 3, 3.0, "ok", 1, "m"),
        ("g", "b-0"): (2, 4, 3, 20.0, "below the start", 2, None),
        ("g", "c-0"): (0, 0, None, None, "no offset", 0, "m"),
        ("g", "gone-3"): (None, None, None, None, NO_SUCH_PARTITION, None, None),
        ("h", "a-0"): (0, 10, 0, 0.0, "ok", 1, None),
        ("h", "b-0"): (2, 4, 0, 0.0, "beyond the end", 2, None),
        ("h", "c-0"): (0, 0, 0, 0.0, "ok", 0, None),
    }
    assert {key for key, row in rows.items() if row.is_out_of_range} == {("g", "b-0"), ("h", "b-0")}
    assert not failures
    committed = rows["g", "a-0"].committed
    assert committed is not None
    assert committed.metadata == "note"


def test_readers_of_committed_records_read_to_the_last_stable_offset(model: ModelCluster) -> None:
    populate(model)
    model.topics["a"][0].stable = 9
    model.topics["b"][0].stable = 4
    rows, failures = ask(model, isolation_level=READ_COMMITTED)
    assert {key: (row.end, row.records, row.seconds, row.status) for key, row in rows.items()} == {
        ("g", "a-0"): (9, 2, 3.0, "ok"),
        ("g", "b-0"): (4, 3, 20.0, "below the start"),
        ("g", "c-0"): (0, None, None, "no offset"),
        ("g", "gone-3"): (None, None, None, NO_SUCH_PARTITION),
        ("h", "a-0"): (10, 0, 0.0, "ok"),  # behind the open transaction, but not beyond the end
        ("h", "b-0"): (4, 0, 0.0, "beyond the end"),
        ("h", "c-0"): (0, 0, 0.0, "ok"),
    }
    assert not failures
    rows, _ = ask(model)
    assert rows["g", "a-0"].end == 10


def test_a_broker_that_knows_no_transactions_cannot_say_what_is_stable(model: ModelCluster) -> None:
    populate(model)
    model.served[ListOffsetsRequest] = (0, 1)
    rows, failures = ask(model, "h", isolation_level=READ_COMMITTED)
    assert {row.status for row in rows.values()} == {UNKNOWN}
    assert any("ListOffsets" in failure for failure in failures)


def test_offsets_of_all_groups_are_asked_before_the_ends(model: ModelCluster) -> None:
    populate(model)
    ask(model)
    kinds = [type(request) for _, request, _ in model.asked]
    assert kinds.index(OffsetFetchRequest) < kinds.index(ListOffsetsRequest)
    assert kinds.count(OffsetFetchRequest) == 1
    assert kinds.count(ListOffsetsRequest) == 6, "two for each leader"
    assert kinds.count(FetchRequest) == 2, "only of partitions with something to read"


def test_a_group_that_commits_meanwhile_is_never_beyond_the_end(model: ModelCluster) -> None:
    populate(model)

    def goes_on(node: int, request: object, version: int) -> None:
        if isinstance(request, ListOffsetsRequest):
            model.topics["a"][0].append(NOW_MS)
            model.groups["h"].offsets["a", 0] = (model.topics["a"][0].end, 0, "")

    model.disturb = goes_on
    rows, _ = ask(model)
    assert rows["h", "a-0"].status == "ok"
    assert rows["h", "a-0"].records


@pytest.mark.parametrize("is_dead", [True, False])
def test_a_leader_without_an_answer_is_a_failure(model: ModelCluster, is_dead: bool) -> None:
    populate(model)
    if is_dead:
        model.dead = {2}
    else:
        model.topics["b"][0].leader = -1
    rows, failures = ask(model, "g")
    assert rows["g", "b-0"].status == UNKNOWN
    assert rows["g", "a-0"].records == 3
    assert len(failures) == 1
    assert failures[0].startswith(
        "b-0: broker 2 is advertised" if is_dead else "b-0: the partition has no leader at the moment"
    )


def test_a_refusing_coordinator_is_a_failure(model: ModelCluster) -> None:
    populate(model)
    model.served[OffsetFetchRequest] = (0, 0)
    rows, failures = ask(model, "g")
    assert not rows
    assert failures[0].startswith("the offsets of group g are not known: ")


def test_without_times_the_lag_in_seconds_is_unknown(model: ModelCluster) -> None:
    populate(model)
    model.served[FetchRequest] = (0, 3)
    rows, failures = ask(model, "h", "g")
    assert (rows["g", "a-0"].records, rows["g", "a-0"].seconds) == (3, None)
    assert rows["h", "a-0"].seconds == 0.0
    assert not failures


def test_a_deleted_partition_has_a_status(model: ModelCluster) -> None:
    populate(model)
    model.groups["g"].offsets["a", 7] = (1, 0, "")
    rows, failures = ask(model, "g")
    assert rows["g", "a-7"].status == NO_SUCH_PARTITION
    assert not failures
    assert TopicPartition("a", 7) in [row.partition for row in rows.values()]
