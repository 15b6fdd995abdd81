"""The row of a partition: positions that its log does not have, histories that diverge, and who leads it."""

import pytest

from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.fetch.plan import FetchPlan
from headgate.gateway.api.fetch.rows import PartitionReader
from headgate.gateway.api.fetch.tests.fetches import append, from_offset, old, put, request, rows, sizes, wanted
from headgate.gateway.tests.builders import HandlerBroker, led_elsewhere, over_the_wire
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.fetch import FetchPartition


def test_an_epoch_newer_than_the_leaders_is_refused(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    append(node, "t", b"a")
    fetch = request(wanted(node, "t", 12, from_offset(1, last_fetched_epoch=7)), max_wait_ms=500)
    assert [row.error_code for row in rows(node.handle(fetch, 12))] == [ErrorCode.OFFSET_OUT_OF_RANGE]


@pytest.mark.parametrize(
    "version, partition, code",
    [
        (12, from_offset(9), ErrorCode.OFFSET_OUT_OF_RANGE),
        (12, from_offset(-1), ErrorCode.OFFSET_OUT_OF_RANGE),
        (12, from_offset(0, 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (12, from_offset(0, current_leader_epoch=9), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_errors_are_told_without_waiting(
    node: HandlerBroker, version: int, partition: FetchPartition, code: ErrorCode
) -> None:
    node.services.metadata.create_topic("t", 1)
    response = node.handle(request(wanted(node, "t", version, partition), max_wait_ms=30_000), version)
    assert [row.error_code for row in rows(response)] == [code]


def test_an_unknown_id_and_an_unknown_name(node: HandlerBroker) -> None:
    for version, code in ((12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (13, ErrorCode.UNKNOWN_TOPIC_ID)):
        response = node.handle(request(wanted(node, "t", version, from_offset(0)), max_wait_ms=30_000), version)
        assert [row.error_code for row in rows(response)] == [code]


def test_a_history_that_diverges_is_told_where(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    partition = node.services.partitions.get("t", 0)
    partition.leader_epoch = 1
    append(node, "t", b"a")
    partition.leader_epoch = 4
    append(node, "t", b"b")
    response = node.handle(request(wanted(node, "t", 12, from_offset(2, last_fetched_epoch=3)), max_wait_ms=30_000), 12)
    (row,) = rows(response)
    assert (row.error_code, row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (0, 1, 1)
    assert len(row.records) == 0
    agrees = node.handle(request(wanted(node, "t", 12, from_offset(1, last_fetched_epoch=1))), 12)
    assert rows(agrees)[0].diverging_epoch.epoch == -1
    assert sizes(agrees)[0] > 0


@pytest.mark.parametrize("last_fetched_epoch, diverging", [(0, (-1, -1)), (1, (0, 2)), (3, (0, 2)), (4, (-1, -1))])
def test_before_its_first_record_an_epoch_begins_at_the_log_end(
    node: HandlerBroker, last_fetched_epoch: int, diverging: tuple[int, int]
) -> None:
    """Kafka notes the epoch there when it becomes leader."""
    node.services.metadata.create_topic("t", 1)
    append(node, "t", b"a", b"b")
    node.services.partitions.get("t", 0).leader_epoch = 4
    position = from_offset(2, last_fetched_epoch=last_fetched_epoch)
    (row,) = rows(node.handle(request(wanted(node, "t", 12, position)), 12))
    assert (row.error_code, row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (0, *diverging)


@pytest.mark.parametrize("version", range(19))
def test_who_leads_a_partition_is_told(node: HandlerBroker, version: int) -> None:
    led_elsewhere(node, 5, "t")
    (row,) = rows(response := old(node, version, from_offset(0), max_wait_ms=500))
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    response = over_the_wire(response, version)
    hint = rows(response)[0].current_leader
    assert (hint.leader_id, hint.leader_epoch) == ((5, 7) if version >= 12 else (-1, -1))
    found = [(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
    assert found == ([(5, "five.example", 9095, "r5")] if version >= 16 else [])


@pytest.mark.parametrize("version", [9, 12, 16, 18])
def test_who_knows_an_older_leader_is_told_the_present_one(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 1)
    node.services.partitions.get("t", 0).leader_epoch = 3
    (row,) = rows(response := old(node, version, from_offset(0, current_leader_epoch=2)))
    assert row.error_code == ErrorCode.FENCED_LEADER_EPOCH
    hint = rows(over_the_wire(response, version))[0].current_leader
    assert hint.leader_id == (0 if version >= 12 else -1)


@pytest.mark.parametrize("version, code", [(0, 6), (5, 6), (6, 56), (12, 56)])
def test_a_version_without_the_storage_error_is_told_to_retry(
    node: HandlerBroker, version: int, code: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node.services.metadata.create_topic("t", 1)
    put(node)

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(type(node.services.partitions.get("t", 0)), "read", fail)
    assert [row.error_code for row in rows(old(node, version, from_offset(0)))] == [code]
    assert caplog.messages == ["the store failed (t-0)"]


def test_a_topic_may_be_deleted_before_its_rows_are_sent(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    size = append(node, "t", b"a")
    fetch = request(wanted(node, "t", 13, from_offset(0)))
    reader = PartitionReader(HandlerContext(node.services, node.client, 13, None), 0)
    turn = node.services.fetch_sessions.begin(fetch, 13, 0.0)
    plan = FetchPlan(fetch, node.services, turn, 0.0, reader)
    planned = plan.few_rows()
    assert planned is not None
    node.services.metadata.delete_topic("t")
    node.time.advance()
    assert sizes(plan.response(planned)) == [size]
