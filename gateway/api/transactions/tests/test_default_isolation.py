"""Readers that cannot ask for an isolation level: Fetch 0 to 3, ListOffsets 0 and 1."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headgate.gateway.api.transactions.default_isolation import default_isolation
from headgate.gateway.replication.append import ACKS_ALL
from headgate.gateway.replication.replica import READ_COMMITTED, READ_UNCOMMITTED
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import HandlerBroker, over_the_wire
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.records import control, legacy
from headgate.protocol.records.batch import Record, build
from headgate.protocol.records.control import Marker
from headgate.protocol.tests.examples import first_in_unit
from headgate.storage.log import rolling
from headgate.storage.log.validation import BROKER

NOW_MS = 1_700_000_000_000
NAME = "headgate.fetch.isolation.default"
OLD = range(4)
LATEST = -1


class Bench:
    """A topic with transactions, and an old client of it."""

    def __init__(self, node: HandlerBroker, **configs: str) -> None:
        self.node = node
        node.services.metadata.create_topic("t", 1, configs={name.replace("_", "."): configs[name] for name in configs})
        self.partition = node.services.partitions.get("t", 0)

    def write(self, producer_id: int = -1, sequence: int = 0, count: int = 1) -> None:
        is_transactional = producer_id >= 0
        numbers: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        end = self.partition.log.end_offset
        records = [Record(timestamp=NOW_MS + end + number, value=b"%d" % (end + number)) for number in range(count)]
        made = build(records, is_transactional=is_transactional, **numbers if is_transactional else {})
        self.partition.append(memoryview(made), ACKS_ALL, NOW_MS, BROKER)

    def end(self, producer_id: int, is_commit: bool) -> None:
        made = control.build(Marker(is_commit, 0), producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS)
        self.partition.append(memoryview(made), ACKS_ALL, NOW_MS, BROKER)

    def fetch(self, version: int, offset: int = 0, *, max_bytes: int = 1 << 20, max_wait_ms: int = 0) -> Any:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
        topics = [FetchTopic(topic="t", partitions=[wanted])]
        request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics)
        outcome = self.node.handle(over_the_wire(request, version), version)
        return outcome if is_task(outcome) else self.row(outcome, version)

    def row(self, response: Any, version: int) -> Any:
        (row,) = over_the_wire(response, version).responses[0].partitions
        return row

    def offsets(self, version: int, offset: int = 0, **options: int) -> list[int]:
        row = self.fetch(version, offset, **options)
        records = list(legacy.iterate(bytes(row.records)))
        assert [record.value for record in records] == [b"%d" % record.offset for record in records]
        return [record.offset for record in records if record.offset >= offset]

    def list(self, version: int, timestamp: int = LATEST) -> Any:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=9)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", [wanted])])
        (row,) = self.node.ask(request, version).topics[0].partitions
        return row.old_style_offsets if version == 0 else row.offset


@pytest.mark.parametrize("version", OLD)
def test_the_default_is_to_read_everything(node: HandlerBroker, version: int) -> None:
    bench = Bench(node)
    bench.write(7, 0, 2)
    bench.end(7, is_commit=False)
    bench.write(8)
    assert bench.offsets(version) == [0, 1, 3]
    assert bench.fetch(version).high_watermark == 4
    assert (bench.list(1), bench.list(0)) == (4, [4, 0])


@pytest.mark.parametrize("version", OLD)
def test_read_committed_ends_before_the_first_open_transaction(node: HandlerBroker, version: int) -> None:
    bench = Bench(node, headgate_fetch_isolation_default="read_committed")
    bench.write(7, 0, 2)
    bench.write(8, 0)
    bench.end(7, is_commit=False)
    bench.write()
    assert bench.offsets(version) == []
    assert bench.fetch(version).high_watermark == 2
    assert (bench.list(1), bench.list(0)) == (2, [2, 0])
    assert (bench.list(1, NOW_MS + 1), bench.list(1, NOW_MS + 2)) == (1, -1)
    bench.end(8, is_commit=True)
    assert bench.offsets(version) == [2, 4]
    assert bench.offsets(version, 3) == [4]
    assert bench.fetch(version).high_watermark == bench.list(1) == 6


@pytest.mark.parametrize("version", range(4, 19))
def test_clients_that_can_ask_are_asked(node: HandlerBroker, version: int) -> None:
    bench = Bench(node, headgate_fetch_isolation_default="read_committed")
    bench.write(7)
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic_id = node.services.metadata.image.topics["t"].topic_id if version >= 13 else bytes(16)
    request = FetchRequest(min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic("t", topic_id, [wanted])])
    response: Any = node.handle(over_the_wire(request, version), version)
    row = response.responses[0].partitions[0]
    assert (row.high_watermark, row.last_stable_offset, len(row.records) > 0) == (1, 0, True)
    assert (bench.list(2), bench.list(11)) == (1, 1)


def test_the_setting_of_the_broker_and_its_change(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path / "data", headgate_fetch_isolation_default="read_committed")
    bench = Bench(node)
    bench.write(7)
    assert (bench.offsets(0), bench.list(1)) == ([], 0)
    node.services.metadata.change_topic_configs("t", {NAME: "read_uncommitted"})
    assert (bench.offsets(0), bench.list(1)) == ([0], 1)
    node.close()


@pytest.mark.parametrize("of_topic", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("of_listener", ["read_committed", "read_uncommitted"])
def test_the_value_of_a_listener_counts_before_that_of_a_topic(tmp_path: Path, of_listener: str, of_topic: str) -> None:
    node = HandlerBroker(tmp_path / "data", **{f"listener.name.legacy.{NAME}": of_listener})
    bench = Bench(node, headgate_fetch_isolation_default=of_topic)
    bench.write(7)
    for listener, level in (("PLAINTEXT", of_topic), ("LEGACY", of_listener)):
        node.client.listener = listener
        end = 0 if level == "read_committed" else 1
        assert (bench.list(1), bench.list(0)[0], bench.fetch(3).high_watermark) == (end, end, end)
    node.close()


def test_a_follower_reads_everything(node: HandlerBroker) -> None:
    bench = Bench(node, headgate_fetch_isolation_default="read_committed")
    context = node.context(3)
    assert default_isolation(context, -1)(bench.partition) == READ_COMMITTED
    assert default_isolation(context, 2)(bench.partition) == READ_UNCOMMITTED


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_waiting_client_hears_of_what_is_committed(node: HandlerBroker, is_commit: bool) -> None:
    bench = Bench(node, headgate_fetch_isolation_default="read_committed")
    bench.write(7)
    waiting, replies = bench.fetch(2, max_wait_ms=500), list[Any]()
    assert is_task(waiting)
    node.services.tasks.start(waiting, replies.append)
    bench.end(7, is_commit)
    node.time.advance()
    if is_commit:
        assert [record.offset for record in legacy.iterate(bytes(bench.row(replies[0], 2).records))] == [0]
    else:
        assert replies == [], "nothing came but an aborted record"
        bench.write()
        node.time.advance()
        assert [record.offset for record in legacy.iterate(bytes(bench.row(replies[0], 2).records))] == [2]


def written(bench: Bench, random: Random) -> tuple[list[int], int]:
    """A random history; the offsets that are committed, and the end of what is stable."""
    opened: dict[int, list[int]] = {}
    sequences = dict.fromkeys(range(4), 0)
    committed: list[int] = []
    log = bench.partition.log
    for _ in range(random.randint(10, 60)):
        producer_id, count, before = random.randrange(5), random.randint(1, 3), log.end_offset
        written: Iterable[int] = range(before, before + count)
        if producer_id == 4:
            bench.write(count=count)
            committed += written
        elif random.random() < 0.6:
            bench.write(producer_id, sequences[producer_id], count)
            sequences[producer_id] += count
            opened.setdefault(producer_id, []).extend(written)
        else:
            is_commit = random.random() < 0.5
            bench.end(producer_id, is_commit)
            committed += opened.pop(producer_id, []) if is_commit else []
            opened.pop(producer_id, None)
        if random.random() < 0.1:
            rolling.roll(log, NOW_MS)
    stable = min((offsets[0] for offsets in opened.values()), default=log.end_offset)
    return sorted(offset for offset in committed if offset < stable), stable


@pytest.mark.slow
@pytest.mark.parametrize("seed", list(first_in_unit(range(30), 6)))
def test_old_clients_read_exactly_what_is_committed(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    node = HandlerBroker(tmp_path / "data")
    bench = Bench(node, headgate_fetch_isolation_default="read_committed")
    committed, stable = written(bench, random)
    assert bench.list(1) == stable
    for version in OLD:
        offset, seen = 0, list[int]()
        while offset < stable:
            found = bench.offsets(version, offset, max_bytes=random.choice([100, 300, 1 << 20]))
            if not found:
                assert not [one for one in committed if one >= offset]
                break
            seen += found
            offset = found[-1] + 1
        assert seen == committed
        start = random.randrange(stable + 1)
        found, wanted = bench.offsets(version, start), [one for one in committed if one >= start]
        assert found == wanted[: len(found)]
        assert bool(found) is bool(wanted)
    node.close()
