"""Transactional batches from clients of both protocols, with the coordinator and the markers of a whole broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.runtime.tasks import Changes, Task, WaitList, value_of
from headgate.gateway.tests.harness import MemoryBroker, WireClient, run_broker
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.end_txn import EndTxnRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.find_coordinator import TRANSACTION, FindCoordinatorRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.records.aborted_batches import AbortedBatches
from headgate.protocol.records.batch import Record, build, iterate, split

NOW_MS = 1_700_000_000_000
OLD, NEW = 11, 12
"""Versions of Produce of the old and the new protocol."""
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH


class Producer:
    """A transactional producer: the requests of a client, one by one."""

    def __init__(self, client: WireClient, version: int) -> None:
        self.client = client
        self.version = version
        self.producer_id, self.epoch = -1, -1

    async def init(self) -> None:
        await self.client.ask(CreateTopicsRequest(topics=[CreatableTopic("t", 2, 1)]), 5)
        await self.client.ask(FindCoordinatorRequest(key="x", key_type=TRANSACTION), 3)
        response = await self.client.ask(InitProducerIdRequest("x", 60_000, -1, -1), 4)
        assert response.error_code == 0
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    async def add(self, *indexes: int) -> None:
        """Only clients of the old protocol add partitions."""
        if self.version < NEW:
            topics = [AddPartitionsToTxnTopic("t", list(indexes))]
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="x",
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=topics,
            )
            response = await self.client.ask(request, 3)
            rows = response.results_by_topic_v3_and_below[0].results_by_partition
            assert {row.partition_error_code for row in rows} == {0}

    def request(self, sequence: int, *indexes: int, epoch: int | None = None) -> ProduceRequest:
        def batch(index: int) -> memoryview:
            made = build(
                [Record(timestamp=NOW_MS, value=b"%d-%d" % (index, sequence))],
                producer_id=self.producer_id,
                producer_epoch=self.epoch if epoch is None else epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
            return memoryview(made)

        data = [PartitionProduceData(index, batch(index)) for index in indexes]
        return ProduceRequest("x", -1, 30_000, [TopicProduceData("t", partition_data=data)])

    async def send(self, sequence: int, *indexes: int, epoch: int | None = None) -> list[int]:
        """The error code of each partition."""
        response = await self.client.ask(self.request(sequence, *indexes, epoch=epoch), self.version)
        return [row.error_code for row in response.responses[0].partition_responses]

    async def end(self, is_commit: bool) -> None:
        version = 5 if self.version >= NEW else 4
        response = await self.client.ask(EndTxnRequest("x", self.producer_id, self.epoch, is_commit), version)
        assert response.error_code == 0
        if version == 5:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch


async def stable_end(client: WireClient, index: int = 0) -> int:
    """The last stable offset; no transaction is open if that is the end of the log."""
    ends: list[int] = []
    for level in (0, 1):
        topics = [ListOffsetsTopic("t", [ListOffsetsPartition(index, timestamp=-1)])]
        response = await client.ask(ListOffsetsRequest(-1, level, topics), 4)
        ends.append(response.topics[0].partitions[0].offset)
    assert ends[0] == ends[1], "a transaction is open"
    return ends[1]


async def committed(client: WireClient, index: int) -> list[bytes]:
    """What a read_committed consumer reads from offset 0 on."""
    topics = [FetchTopic("t", partitions=[FetchPartition(index, fetch_offset=0, partition_max_bytes=1 << 20)])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation_level=1, topics=topics)
    row = (await client.ask(request, 11)).responses[0].partitions[0]
    aborted = AbortedBatches((one.producer_id, one.first_offset) for one in row.aborted_transactions or ())
    values = []
    for header, view in split(bytes(row.records)):
        if not aborted.includes(header, view) and not header.is_control:
            values += [record.value or b"" for record in iterate(view)]
    return values


def run(tmp_path: Path, version: int, scenario: Callable[[MemoryBroker, Producer], Awaitable[None]]) -> None:
    async def main(memory: MemoryBroker) -> None:
        producer = Producer(memory.connect(), version)
        await producer.init()
        await scenario(memory, producer)

    few = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}
    run_broker(tmp_path / "data", main, **few)


@pytest.mark.parametrize("version", [3, 9, OLD, NEW])
def test_transactions_one_after_another(tmp_path: Path, version: int) -> None:
    async def scenario(memory: MemoryBroker, producer: Producer) -> None:
        sequence = 0
        for number, is_commit in enumerate([True, False, True, True]):
            await producer.add(0, 1)
            if version >= NEW:
                sequence = 0
            for _ in range(2):
                assert await producer.send(sequence, 0, 1) == [0, 0]
                sequence += 1
            await producer.end(is_commit)
            for index in (0, 1):
                assert await stable_end(producer.client, index) == 3 * (number + 1)
        wanted = (0, 1, 4, 5, 6, 7) if version < NEW else (0, 1) * 3
        assert await committed(producer.client, 1) == [b"1-%d" % one for one in wanted]

    run(tmp_path, version, scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_batch_after_its_marker_in_the_old_protocol(tmp_path: Path, is_commit: bool) -> None:
    """KIP-890: the client has given up a batch that is still on its way when the transaction ends."""

    async def scenario(memory: MemoryBroker, producer: Producer) -> None:
        late = ErrorCode.TRANSACTION_ABORTABLE
        await producer.add(0)
        await producer.end(is_commit)
        assert await producer.send(0, 0) == [late]
        assert await stable_end(producer.client) == 1, "the marker alone"
        await producer.add(1)
        assert await producer.send(0, 1, 0) == [0, late], "the next transaction does not have the partition"
        assert await stable_end(producer.client) == 1
        await producer.add(0)
        assert await producer.send(0, 0) == [0], "with the same epoch nobody can tell that it is late"
        await producer.end(True)
        assert await stable_end(producer.client) == 3

    run(tmp_path, OLD, scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_batch_after_its_marker_in_the_new_protocol(tmp_path: Path, is_commit: bool) -> None:
    async def scenario(memory: MemoryBroker, producer: Producer) -> None:
        assert await producer.send(0, 0) == [0]
        epoch = producer.epoch
        await producer.end(is_commit)
        assert producer.epoch == epoch + 1
        assert await producer.send(1, 0, epoch=epoch) == [FENCED]
        assert await producer.send(0, 1, epoch=epoch) == [FENCED], "also where no marker is"
        assert await stable_end(producer.client) == 2
        assert await producer.send(0, 0, 1) == [0, 0]
        assert await producer.send(2, 0, epoch=epoch) == [FENCED]
        await producer.end(True)
        assert (await stable_end(producer.client), await stable_end(producer.client, 1)) == (4, 2)

    run(tmp_path, NEW, scenario)


@pytest.mark.parametrize("version", [OLD, NEW])
def test_batches_of_a_connection_stay_in_order(tmp_path: Path, version: int) -> None:
    """The first is parked until the coordinator answers; the later ones wait behind it, and other clients do not."""

    async def scenario(memory: MemoryBroker, producer: Producer) -> None:
        services = memory.broker.parts.services
        held, ask = WaitList(), services.transactions.verify

        def verify(*arguments: Any, **options: Any) -> Task[Any]:
            yield Changes([held])
            return (yield from value_of(ask(*arguments, **options)))

        services.transactions.verify = verify  # type: ignore[method-assign]
        services.transactions.confirm = lambda *_, **__: False  # type: ignore[method-assign]
        await producer.add(0)
        for sequence in range(4):
            await producer.client.send(producer.request(sequence, 0), version)
        other = memory.connect()
        plain = build([Record(timestamp=NOW_MS, value=b"other")])
        response = await other.ask(produce_request(plain), version)
        assert response.responses[0].partition_responses[0].base_offset == 0
        services.tasks.touch(held)
        rows = [(await producer.client.receive()).responses[0].partition_responses[0] for _ in range(4)]
        assert [(row.error_code, row.base_offset) for row in rows] == [(0, 1), (0, 2), (0, 3), (0, 4)]
        await producer.end(True)
        assert await committed(other, 0) == [b"other", b"0-0", b"0-1", b"0-2", b"0-3"]

    run(tmp_path, version, scenario)
