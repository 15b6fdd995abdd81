"""Searches over three modelled brokers: places to start, pages, transactions, damage, bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headgate.protocol.records import batch, compression, message_set
from headgate.protocol.records.batch import Record
from headgate.tools.client.client import ClientError
from headgate.tools.console.messages.query import MessageQuery, parse_ranges
from headgate.tools.console.messages.search import LONGEST_S, READ_BYTES_PER_S
from headgate.tools.console.messages.tests.partitions import (
    Clock,
    append,
    append_marker,
    fill,
    query_of,
    rows_of,
    run,
    text,
    values_of,
)
from headgate.tools.console.parameters import BadParameter
from headgate.tools.tests.model_cluster import Log, ModelCluster


def in_order(count: int, partitions: int = 3) -> list[str]:
    """The values of `fill` by time."""
    return [f"{number % partitions}/{number // partitions}" for number in range(count)]


def test_the_newest_messages_come_first(model: ModelCluster) -> None:
    fill(model)
    assert values_of(run(query_of(limit=7))) == in_order(60)[:-8:-1]


def test_the_oldest_messages_come_first(model: ModelCluster) -> None:
    fill(model)
    assert values_of(run(query_of(start="oldest", limit=7))) == in_order(60)[:7]


@pytest.mark.parametrize("start", ["oldest", "newest"])
def test_pages_go_on_where_the_last_one_ended(model: ModelCluster, start: str) -> None:
    fill(model)
    found: list[str | None] = []
    query: MessageQuery | None = query_of(start=start, limit=7)
    while query is not None:
        events = run(query)
        found += values_of(events)
        rest = events[-1]["rest"]
        assert (events[-1]["reason"] == "all") is (rest is None)
        query = rest and query_of(start=start, limit=7, ranges=parse_ranges(rest))
    assert found == (in_order(60) if start == "oldest" else in_order(60)[::-1])


def test_a_search_begins_at_an_offset_and_at_a_time(model: ModelCluster) -> None:
    fill(model)
    assert values_of(run(query_of(start="offset", offset=19))) == ["0/19", "1/19", "2/19"]
    assert values_of(run(query_of(start="time", time_ms=57))) == ["0/19", "1/19", "2/19"]
    assert values_of(run(query_of(start="time", time_ms=54, until_ms=57))) == ["0/18", "1/18", "2/18"]
    assert values_of(run(query_of(start="time", time_ms=1000))) == []


def test_partitions_and_filters_narrow_a_search(model: ModelCluster) -> None:
    fill(model)
    assert values_of(run(query_of(partitions=(1,), limit=2))) == ["1/19", "1/18"]
    found = values_of(run(query_of(filters={"text": "/^[12].1?7$/"})))
    assert found == ["2/17", "1/17", "2/7", "1/7"]


def test_progress_counts_up_to_the_whole(model: ModelCluster) -> None:
    fill(model)
    *_, end = run(query_of(filters={"text": "nothing"}), Clock(step_s=0.05))
    assert (end["offsets_scanned"], end["offsets_total"], end["records_matched"]) == (60, 60, 0)
    assert end["records_scanned"] >= 60
    assert end["bytes_scanned"] > 0
    assert end["partitions"] == []


def test_transactions_are_marked_or_left_out(model: ModelCluster) -> None:
    log = Log()
    model.topics["t"].append(log)
    transactional: dict[str, Any] = {"producer_epoch": 0, "is_transactional": True}
    append(log, [text(1, "kept")], producer_id=7, base_sequence=0, **transactional)
    append_marker(log, 7, 2, is_commit=True)
    append(log, [text(3, "thrown away")], producer_id=7, base_sequence=1, **transactional)
    append(log, [text(4, "plain")])
    append_marker(log, 7, 5, is_commit=False)
    append(log, [text(6, "open")], producer_id=8, base_sequence=0, **transactional)
    log.aborted, log.stable = [(7, 2)], 5
    everything = rows_of(run(query_of(start="oldest")))
    assert [(row["kind"], row["transaction"]) for row in everything] == [
        ("message", "committed"),
        ("control", None),
        ("message", "aborted"),
        ("message", None),
        ("control", None),
        ("message", "pending"),
    ]
    assert json.loads(everything[1]["key"]["text"]) == {"type": "COMMIT"}
    assert values_of(run(query_of(start="oldest", isolation="read_committed"))) == ["kept", "plain"]
    assert values_of(run(query_of(isolation="read_committed", limit=1))) == ["plain"]


@pytest.mark.parametrize("codec", range(5))
def test_batches_of_every_codec_are_read(model: ModelCluster, codec: int) -> None:
    log = Log()
    model.topics["t"].append(log)
    append(log, [text(at, f"message {at}") for at in range(100)], compression=codec)
    assert values_of(run(query_of(start="oldest", limit=500))) == [f"message {at}" for at in range(100)]
    assert values_of(run(query_of(limit=2))) == ["message 99", "message 98"]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [compression.NONE, compression.GZIP, compression.SNAPPY, compression.LZ4])
def test_message_sets_of_old_clients_are_read(model: ModelCluster, magic: int, codec: int) -> None:
    log = Log()
    model.topics["t"].append(log)
    for start in (0, 10):
        records = [Record(start + at, 5, b"k", b"%d" % (start + at)) for at in range(10)]
        log.batches.append(bytes(message_set.build(records, magic, base_offset=start, codec=codec)))
        log.end += 10
    append(log, [text(7, "20")])
    assert values_of(run(query_of(start="oldest", limit=3))) == ["0", "1", "2"]
    assert values_of(run(query_of(start="newest", limit=3))) == ["20", "19", "18"]
    [*_, row] = rows_of(run(query_of(limit=3)))
    assert (row["timestamp_ms"], row["timestamp_type"]) == ((5, "CreateTime") if magic else (None, None))


def test_the_old_sets_page_completely(model: ModelCluster) -> None:
    log = Log()
    model.topics["t"].append(log)
    for start in range(0, 100, 10):
        records = [Record(start + at, start, None, b"%d" % (start + at)) for at in range(10)]
        log.batches.append(bytes(message_set.build(records, 1, base_offset=start, codec=compression.GZIP)))
        log.end += 10
    found: list[str | None] = []
    rest: str | None = "0:0-100"
    while rest is not None:
        events = run(query_of(limit=7, ranges=parse_ranges(rest)))
        found += values_of(events)
        rest = events[-1]["rest"]
    assert found == [str(at) for at in reversed(range(100))]


def test_tombstones_and_headers_have_their_place(model: ModelCluster) -> None:
    log = Log()
    model.topics["t"].append(log)
    append(log, [text(1, None, "gone", trace="abc")], log_append_time_ms=9)
    [row] = rows_of(run(query_of()))
    assert (row["kind"], row["value"], row["key"]["text"]) == ("tombstone", None, "gone")
    assert (row["headers"], row["headers_count"]) == ([["trace", "abc"]], 1)
    assert (row["timestamp_ms"], row["timestamp_type"]) == (9, "LogAppendTime")


@pytest.mark.parametrize("start", ["oldest", "newest"])
def test_an_unreadable_batch_is_one_row_between_others(model: ModelCluster, start: str) -> None:
    log = Log()
    model.topics["t"].append(log)
    append(log, [text(1, "before")])
    append(log, [text(2, "damaged" * 20)] * 5, compression=compression.ZSTD)
    damaged = bytearray(log.batches[-1])
    damaged[70:90] = bytes(20)
    log.batches[-1] = bytes(damaged)
    append(log, [text(3, "after")])
    found: list[dict[str, Any]] = []
    rest: str | None = "0:0-7"
    while rest:
        events = run(query_of(start=start, limit=1, ranges=parse_ranges(rest)))
        found += rows_of(events)
        rest = events[-1]["rest"]
    kinds = [(row["offset"], row["kind"]) for row in found]
    assert kinds == sorted([(0, "message"), (1, "unreadable"), (6, "message")], reverse=start == "newest")
    assert "zstd" in found[1]["problem"]


def test_a_bomb_of_a_batch_is_one_row(model: ModelCluster) -> None:
    log = Log()
    model.topics["t"].append(log)
    plain = bytes(100 << 20)
    header = batch.read_header(batch.build([text(1, "x")], compression=compression.ZSTD))
    packed = compression.compress(compression.ZSTD, plain)
    assert len(packed) < 20_000
    log.batches.append(bytes(batch.with_records(header, packed)))
    log.end = 1
    [row] = rows_of(run(query_of()))
    assert row["kind"] == "unreadable"
    assert "more than 67108864 bytes" in row["problem"]


def test_gaps_of_compaction_end_a_search(model: ModelCluster) -> None:
    log = Log()
    model.topics["t"].append(log)
    append(log, [text(1, "first")])
    log.end = 500
    append(log, [text(2, "last")])
    log.end = 1000
    for start in ("oldest", "newest"):
        events = run(query_of(start=start))
        assert set(values_of(events)) == {"first", "last"}
        assert events[-1]["reason"] == "all"


def test_retention_may_overtake_a_page(model: ModelCluster) -> None:
    fill(model, partitions=1)
    log = model.topics["t"][0]
    log.start = 10
    del log.batches[:2]
    assert values_of(run(query_of(start="oldest", ranges=parse_ranges("0:0-20"), limit=2))) == ["0/10", "0/11"]


def test_a_large_batch_is_fetched_whole(model: ModelCluster) -> None:
    for _ in range(2):
        model.topics["t"].append(Log())
        append(model.topics["t"][-1], [text(1, "x" * 3_000_000)])
    found = rows_of(run(query_of()))
    assert [row["value"]["bytes"] for row in found] == [3_000_000, 3_000_000]
    assert all(row["value"]["is_cut"] and len(row["value"]["text"]) == 600 for row in found)


def test_a_failing_partition_leaves_the_others(model: ModelCluster) -> None:
    fill(model)

    def disturb(node: int, request: Any, version: int) -> Any:
        if not isinstance(request, FetchRequest) or node != 1:
            return None
        row = PartitionData(1, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, records=b"")
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])

    model.disturb = disturb
    events = run(query_of(start="oldest", limit=500))
    assert values_of(events) == [value for value in in_order(60) if not value.startswith("1/")]
    assert "t-1 cannot be read further" in events[-1]["problems"][0]
    assert events[-1]["rest"] == "1:0-20"


def test_damage_between_batches_ends_the_partition(model: ModelCluster) -> None:
    fill(model, partitions=2)
    log = model.topics["t"][1]
    log.batches[1] = log.batches[1][:16] + b"\x09" + log.batches[1][17:]
    log.read = lambda offset, room, is_first, end: b"".join(log.batches)  # type: ignore[method-assign]
    events = run(query_of(start="oldest", limit=500))
    assert len([value for value in values_of(events) if value and value.startswith("0/")]) == 20
    assert events[-1]["problems"]


def test_time_bounds_a_page(model: ModelCluster) -> None:
    fill(model, each=5_000)
    *_, end = run(query_of(start="oldest", filters={"text": "nothing"}), Clock(step_s=LONGEST_S))
    assert end["reason"] == "time"
    assert 0 < end["offsets_scanned"] < end["offsets_total"]
    assert end["rest"] is not None


def test_a_search_keeps_its_pace(model: ModelCluster) -> None:
    clock = Clock()
    log = Log()
    model.topics["t"].append(log)
    for at in range(40):
        append(log, [text(at, "x" * 900_000)])
    *_, end = run(query_of(filters={"text": "nothing"}), clock)
    assert sum(clock.slept) >= (end["bytes_scanned"] / READ_BYTES_PER_S) * 0.9


def test_what_does_not_exist_is_a_sentence(model: ModelCluster) -> None:
    fill(model)
    with pytest.raises(ClientError, match="there is no topic none"):
        run(query_of("none"))
    with pytest.raises(ClientError, match="has no partition 9; it has 3"):
        run(query_of(partitions=(1, 9)))
    model.topics["wide"] = [Log() for _ in range(300)]
    with pytest.raises(BadParameter, match="300 partitions are too many"):
        run(query_of("wide"))


def test_a_large_search_tells_its_bytes(model: ModelCluster) -> None:
    fill(model, partitions=1, each=20_000)
    sizes = DescribeLogDirsTopic("t", [DescribeLogDirsPartition(0, 1_000_000)])
    model.log_directories[0] = [DescribeLogDirsResult(log_dir="/data", topics=[sizes])]
    events = run(query_of(start="offset", offset=10_000, limit=1, ranges=None))
    assert events[-1]["bytes_total_estimate"] is None
    events = run(query_of(start="oldest", limit=1))
    assert events[-1]["bytes_total_estimate"] == 1_000_000
