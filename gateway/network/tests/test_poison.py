"""Nobody keeps a view of a receive buffer beyond its time: it is spoilt after every receive, and all is still right.

Real requests, pipelined and parked, to the real dispatcher through both drivers, cut at every byte. What the broker
answers and what it has stored show whether somebody looked at the buffer too late.
"""

from pathlib import Path
from typing import Any

import pytest
import trio.testing

from headgate.gateway.network.tests.conformance import SIMULATED, Client, Simulated, run, simulated
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.records.batch import Record, build, check_crc, iterate, split
from headgate.protocol.tests.examples import first_in_unit

PARTITIONS = 3
LONG_MS = 600_000
PARTS = 5
"""The cuts go to as many tests, each with every fifth of them; `make soak` has all."""


def batch(value: bytes) -> bytearray:
    return build([Record(0, 1_700_000_000_000, None, value, [])])


def produce(partition: int, acks: int, *values: bytes) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=batch(value)) for value in values]
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=data)])


def long_poll(partition: int, offset: int) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[wanted])]
    return FetchRequest(max_wait_ms=LONG_MS, min_bytes=1, max_bytes=1 << 20, topics=topics)


def set_retention(value: str) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name="retention.ms", config_operation=0, value=value)
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])]
    )


class Poisoned:
    """Clients of a node behind one driver, and what they have sent so far."""

    def __init__(self, served: Simulated, node: HandlerBroker) -> None:
        self.served = served
        self.node = node
        self.stored: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        served.dispatcher = node.parts.dispatcher  # type: ignore[assignment]
        served.dispatcher.complain = self._report_fault  # type: ignore[method-assign]

    def _report_fault(self, client: object, reason: str) -> None:
        raise AssertionError(f"{client}: {reason}")

    async def run_due(self) -> None:
        await trio.testing.wait_all_tasks_blocked()
        self.node.time.advance()
        await trio.testing.wait_all_tasks_blocked()

    async def answers(self, client: Client, peer: ClientConnection, count: int) -> list[Any]:
        await self.run_due()
        answered: list[Any] = []
        while len(answered) < count:
            data = await client.receive(1 << 20)
            assert data, f"{count - len(answered)} answers are missing"
            answered += [response for _, response in peer.receive(data)]
        return answered

    def stream(self, peer: ClientConnection, name: bytes) -> bytes:
        """Requests one behind another; the seventh waits until partition 2 has more."""
        stored = self.stored
        stored[0] += [b"0 " + name, b"0 again " + name]
        stored[1] += [b"1 " + name, b"unacknowledged " + name]
        return b"".join(
            (
                peer.request(ApiVersionsRequest(client_software_name="poison", client_software_version="1"), 3),
                peer.request(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9),
                peer.request(produce(0, 1, b"0 " + name), 7),
                peer.request(produce(1, -1, b"1 " + name), 9),
                peer.request(produce(1, 0, b"unacknowledged " + name), 9),
                peer.request(set_retention(str(100_000 + len(stored[0]))), 1),
                peer.request(long_poll(2, len(stored[2])), 11),
                peer.request(produce(0, 1, b"0 again " + name), 3),
                peer.request(
                    ListOffsetsRequest(
                        replica_id=-1,
                        topics=[
                            ListOffsetsTopic(
                                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
                            )
                        ],
                    ),
                    5,
                ),
            )
        )

    async def put(self, name: bytes, cut: int, portion: int) -> int:
        """Send the stream up to `cut`, then in portions; wake what waits; look at every answer. Gives its length."""
        client, peer = await self.served.connect(), ClientConnection("a client whose name is kept")
        before = len(self.stored[0])
        stream = self.stream(peer, name)
        await client.send(stream[:cut])
        for start in range(cut, len(stream), portion):
            await client.send(stream[start : start + portion])
        await self.run_due()
        other, other_peer = await self.served.connect(), ClientConnection("other")
        await other.send(other_peer.request(produce(2, 1, b"2 " + name), 7))
        self.stored[2].append(b"2 " + name)
        await self.answers(other, other_peer, 1)
        await self.check(await self.answers(client, peer, 8), before, name)
        await client.close()
        await other.close()
        return len(stream)

    async def check(self, answers: list[Any], before: int, name: bytes) -> None:
        versions, metadata, first, second, altered, fetched, third, offsets = answers
        assert versions.error_code == ErrorCode.NONE
        assert [topic.name for topic in metadata.topics] == ["t"]
        rows = [answer.responses[0].partition_responses[0] for answer in (first, second, third)]
        assert [row.error_code for row in rows] == [ErrorCode.NONE] * 3
        assert [row.base_offset for row in rows] == [before, before, before + 1]
        assert altered.responses[0].error_code == ErrorCode.NONE
        assert altered.responses[0].resource_name == "t"
        assert values(fetched.responses[0].partitions[0].records) == [b"2 " + name]
        assert offsets.topics[0].partitions[0].offset == before + 2

    def check_stored(self) -> None:
        for index, expected in enumerate(self.stored):
            replica = self.node.services.partitions.get("t", index)
            piece = replica.read(0, 1 << 30, 0, at_least_one=True)
            assert piece is not None
            assert values(piece.read()) == expected
        settings = self.node.services.metadata.image.topic("t").configs
        assert settings["retention.ms"] == str(100_000 + len(self.stored[0]))


def values(records: Any) -> list[bytes | None]:
    found: list[bytes | None] = []
    for header, view in split(records):
        assert check_crc(view)
        assert header.base_offset == len(found) or len(found) == 0
        found += [record.value for record in iterate(view)]
    return found


async def begin(served: Simulated, node: HandlerBroker) -> Poisoned:
    created = node.ask(
        CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)], timeout_ms=1_000
        ),
        7,
    )
    assert created.topics[0].error_code == ErrorCode.NONE
    return Poisoned(served, node)


@pytest.mark.slow
@simulated
@pytest.mark.parametrize("first", list(first_in_unit(range(PARTS), some=2)))
def test_a_stream_cut_anywhere_is_answered_and_stored_as_sent(
    kind: type[Simulated], first: int, tmp_path: Path
) -> None:
    node = HandlerBroker(tmp_path)

    async def scenario(served: Simulated) -> None:
        poisoned, cut, length = await begin(served, node), first, PARTS
        while cut < length:
            length = await poisoned.put(b"%04d" % cut, cut, 1 << 20)
            cut += PARTS
        assert cut > 500
        poisoned.check_stored()

    run(kind, scenario)
    node.close()


@simulated
@pytest.mark.parametrize("portion", [3, 64, 500])
def test_a_stream_in_portions_is_answered_and_stored_as_sent(
    kind: type[Simulated], portion: int, tmp_path: Path
) -> None:
    node = HandlerBroker(tmp_path)

    async def scenario(served: Simulated) -> None:
        poisoned = await begin(served, node)
        await poisoned.put(b"first", 0, portion)
        await poisoned.put(b"second", 0, portion)
        poisoned.check_stored()

    run(kind, scenario)
    node.close()


def test_the_poison_works() -> None:
    kept: list[memoryview] = []

    class Keeping:
        def dispatch(self, frame: memoryview, *_: object) -> list[bytes]:
            kept.append(frame)
            return []

    async def scenario(served: Simulated) -> None:
        served.dispatcher.dispatch = Keeping().dispatch  # type: ignore[assignment,method-assign]
        client = await served.connect()
        await client.send(b"\0\0\0\x03one")

    run(SIMULATED[-1], scenario)
    assert bytes(kept[0]) == b"\xdd" * 3
