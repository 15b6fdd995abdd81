"""Links: what an asker gets from either transport, whatever the other broker does."""

from __future__ import annotations

import errno
import itertools
import struct
from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.network.links import (
    RECONNECT_BACKOFF_MAX_MS,
    RECONNECT_BACKOFF_MS,
    REQUEST_TIMEOUT_MS,
)
from headgate.gateway.network.tests.link_conformance import (
    MAX_RESPONSE_BYTES,
    TABLE,
    TLS,
    Asked,
    Linked,
    Peer,
    Simulated,
    everywhere,
    run,
    simulated,
)
from headgate.gateway.runtime.broker_links import LinkLost
from headgate.protocol.client.tests.scripted_peer import respond
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headgate.protocol.messages.produce import ProduceRequest


def fetched(records: bytes) -> FetchResponse:
    """A Fetch response with these records."""
    partition = PartitionData(partition_index=0, high_watermark=9, records=memoryview(records))
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


def records_of(response: Any) -> memoryview:
    (topic,) = response.responses
    (partition,) = topic.partitions
    records: memoryview = partition.records
    return records


async def refused(asked: Asked, reason: str) -> None:
    result = await asked.result()
    assert isinstance(result, LinkLost), result
    assert reason in str(result)
    assert str(result).startswith("broker 2 at 127.0.0.1:")


@everywhere
def test_a_link_connects_and_asks_in_the_latest_common_version(kind: Any) -> None:
    async def scenario(linked: Linked) -> None:
        asked, peer = linked.ask(), await linked.accept()
        versions: list[int] = []

        def answer(request: Any, version: int) -> MetadataResponse:
            versions.append(version)
            return MetadataResponse(cluster_id="c")

        await peer.answer(TABLE)
        await peer.answer(answer)
        assert (await asked.result()).cluster_id == "c"
        asked = linked.ask(version=1)
        await peer.answer(answer)
        assert isinstance(await asked.result(), MetadataResponse)
        assert versions == [9, 1]

    run(kind, scenario)


@everywhere
def test_many_requests_in_flight_are_answered_in_order(kind: Any) -> None:
    async def scenario(linked: Linked) -> None:
        many = [linked.ask() for _ in range(50)]
        peer = await linked.accept()
        await peer.answer(TABLE)
        many += [linked.ask() for _ in range(50)]
        for number in range(100):
            await peer.answer(MetadataResponse(cluster_id=str(number)))
        assert [(await asked.result()).cluster_id for asked in many] == [str(number) for number in range(100)]
        assert len(linked.peers()) == 1

    run(kind, scenario)


@everywhere
def test_a_request_above_the_room_of_the_socket_arrives_whole(kind: Any) -> None:
    async def scenario(linked: Linked) -> None:
        peer = await linked.connect()
        topics = [MetadataRequestTopic(name=f"{number:0200}") for number in range(10_000)]
        asked = [linked.ask(MetadataRequest(topics=topics)), linked.ask()]
        assert len(await peer.request()) > 2_000_000
        assert len(await peer.request()) < 100
        assert not any(each.results for each in asked)

    run(kind, scenario)


@simulated
@pytest.mark.parametrize("portion", [1, 2, 5, 1 << 16])
def test_answers_in_portions_are_the_same_answers(kind: Any, portion: int) -> None:
    async def scenario(linked: Simulated) -> None:
        asked = [linked.ask(), linked.ask(FetchRequest()), linked.ask()]
        peer = await linked.accept()
        linked.kernel.opened[0].portion = portion
        await peer.answer(TABLE)
        await peer.answer(MetadataResponse(cluster_id="a"))
        await peer.answer(fetched(b"x" * 200))
        await peer.answer(MetadataResponse(cluster_id="b"))
        first, second, third = [await each.result() for each in asked]
        assert (first.cluster_id, bytes(records_of(second)), third.cluster_id) == ("a", b"x" * 200, "b")

    run(kind, scenario)


@simulated
@pytest.mark.parametrize("room", [1, 7])
def test_requests_in_portions_are_the_same_requests(kind: Any, room: int) -> None:
    async def scenario(linked: Simulated) -> None:
        peer = await linked.connect()
        linked.kernel.opened[0].room = room
        asked = [linked.ask()]
        await trio.testing.wait_all_tasks_blocked()
        asked.append(linked.ask())
        requests = [await peer.request(), await peer.request()]
        for request, name in zip(requests, "ab", strict=True):
            await peer.client.send(respond(request, lambda *_, name=name: MetadataResponse(cluster_id=name)))
        assert [(await each.result()).cluster_id for each in asked] == ["a", "b"]

    run(kind, scenario)


@everywhere
def test_a_large_answer_owns_its_bytes(kind: Any) -> None:
    """Answers that come later do not overwrite it; nor do small ones overwrite each other."""

    async def scenario(linked: Linked) -> None:
        peer = await linked.connect()
        sizes = [10, 3_000_000, 60_000, 20]
        asked = [linked.ask(FetchRequest()) for _ in sizes]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_all, peer, sizes)
            for each, size in zip(asked, sizes, strict=True):
                assert bytes(records_of(await each.result())) == bytes([size % 251]) * size
        for each, size in zip(asked, sizes, strict=True):
            assert bytes(records_of(each.results[0])) == bytes([size % 251]) * size

    run(kind, scenario)


async def answer_all(peer: Peer, sizes: list[int]) -> None:
    for size in sizes:
        await peer.answer(fetched(bytes([size % 251]) * size))


@everywhere
@pytest.mark.parametrize("way", ["reset", "close", "in mid-answer"])
def test_a_lost_connection_loses_all_requests_and_the_next_connects(kind: Any, way: str) -> None:
    async def scenario(linked: Linked) -> None:
        peer = await linked.connect()
        asked = [linked.ask(), linked.ask()]
        request = await peer.request()
        if way == "reset":
            await peer.client.reset()
        else:
            if way == "in mid-answer":
                await peer.client.send(struct.pack(">i", 1_000) + request[8:12] + bytes(500))
            await peer.client.close()
        for each in asked:
            # OpenSSL does not tell a reset from an end without close_notify
            await refused(each, "the connection failed" if way == "reset" and kind not in TLS else "connection")
        again, peer = linked.ask(), await linked.accept()
        await peer.answer(TABLE)
        await peer.answer(MetadataResponse(cluster_id="again"))
        assert (await again.result()).cluster_id == "again"

    run(kind, scenario)


@simulated
def test_an_answer_before_the_end_of_the_connection_counts(kind: Any) -> None:
    async def scenario(linked: Simulated) -> None:
        peer = await linked.connect()
        asked = [linked.ask(), linked.ask()]
        await peer.answer(MetadataResponse(cluster_id="last"))
        await peer.client.send_eof()
        assert (await asked[0].result()).cluster_id == "last"
        await refused(asked[1], "it has closed the connection")

    run(kind, scenario)


@simulated
@pytest.mark.parametrize("stage", ["connect", "versions", "answer", "mid-answer"])
def test_a_silent_peer_ends_at_the_deadline(kind: Any, stage: str) -> None:
    async def scenario(linked: Simulated) -> None:
        linked.kernel.refusals.extend([0] if stage == "connect" else [])
        start = trio.current_time()
        asked, later = linked.ask(timeout_ms=5_000), linked.ask()
        peer = await linked.accept()
        if stage not in ("connect", "versions"):
            await peer.answer(TABLE)
        if stage == "mid-answer":
            await peer.client.send(struct.pack(">i", 1_000) + bytes(500))
        assert asked.results == []
        await trio.sleep(5)
        await refused(asked, "its answer to MetadataRequest did not come in time")
        await refused(later, "its answer to MetadataRequest did not come in time")
        assert trio.current_time() - start < 5.1
        assert linked.kernel.opened[0].is_closed

    run(kind, scenario)


@simulated
def test_the_deadline_is_that_of_the_link(kind: Any) -> None:
    async def scenario(linked: Simulated) -> None:
        linked.link = linked.links.open(2, *linked.address(), "broker-1", timeout_ms=2_000)
        asked = linked.ask()
        await linked.accept()
        await trio.sleep(1.9)
        assert not asked.results
        await trio.sleep(0.2)
        await refused(asked, "did not come in time")

    run(kind, scenario)


@simulated
def test_each_request_has_its_own_deadline(kind: Any) -> None:
    async def scenario(linked: Simulated) -> None:
        peer = await linked.connect()
        for _ in range(3):
            asked = linked.ask()
            await trio.sleep(REQUEST_TIMEOUT_MS / 1000 - 0.1)
            await peer.answer(MetadataResponse(cluster_id="just in time"))
            assert (await asked.result()).cluster_id == "just in time"
        answered, silent = linked.ask(timeout_ms=1_000), linked.ask(timeout_ms=2_000)
        await peer.answer(MetadataResponse())
        assert isinstance(await answered.result(), MetadataResponse)
        await trio.sleep(1.9)
        assert not silent.results
        await trio.sleep(0.2)
        await refused(silent, "did not come in time")
        await linked.connect()
        late, short = linked.ask(), linked.ask(timeout_ms=100)
        await trio.sleep(0.2)
        await refused(short, "did not come in time")
        await refused(late, "did not come in time")
        await trio.sleep(100)
        assert len(linked.kernel.opened) == 2

    run(kind, scenario)


@everywhere
def test_the_answer_of_a_cancelled_asker_goes_to_nobody_else(kind: Any) -> None:
    async def scenario(linked: Linked) -> None:
        peer = await linked.connect()
        cancelled, asked = linked.ask(), linked.ask()
        cancelled.running.cancel()
        await peer.answer(MetadataResponse(cluster_id="dropped"))
        await peer.answer(MetadataResponse(cluster_id="mine"))
        assert (await asked.result()).cluster_id == "mine"
        assert cancelled.results == []

    run(kind, scenario)


@everywhere
def test_an_answer_above_the_limit_ends_the_connection(kind: Any) -> None:
    async def scenario(linked: Linked) -> None:
        peer = await linked.connect()
        asked = linked.ask()
        await peer.request()
        await peer.client.send(struct.pack(">i", MAX_RESPONSE_BYTES + 1))
        await refused(asked, f"a frame claims {MAX_RESPONSE_BYTES + 1} bytes; the limit is {MAX_RESPONSE_BYTES}")
        assert await peer.client.is_closed()

    run(kind, scenario)


@everywhere
@pytest.mark.parametrize("what", ["other correlation id", "no answer", "without a request"])
def test_bytes_that_are_no_answer_end_the_connection(kind: Any, what: str) -> None:
    async def scenario(linked: Linked) -> None:
        peer = await linked.connect()
        asked = linked.ask()
        request = await peer.request()
        if what == "without a request":
            await peer.client.send(struct.pack(">iiii", 0, 4, 7, 0) + b"x")
        elif what == "no answer":
            await peer.client.send(struct.pack(">i", 9) + request[8:12] + b"\xff" * 5)
        else:
            await peer.client.send(struct.pack(">ii", 4, 77))
        await refused(asked, "it does not answer as a Kafka broker does")
        assert await peer.client.is_closed()

    run(kind, scenario)


@everywhere
def test_a_broker_that_refuses_api_versions_is_lost(kind: Any) -> None:
    async def scenario(linked: Linked) -> None:
        asked, peer = linked.ask(), await linked.accept()
        await peer.answer(ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        await refused(asked, "it refuses ApiVersions: CLUSTER_AUTHORIZATION_FAILED")
        assert await peer.client.is_closed()

    run(kind, scenario)


@simulated
def test_an_older_broker_is_asked_again_in_version_0(kind: Any) -> None:
    async def scenario(linked: Simulated) -> None:
        asked, peer = Asked(linked, linked.link.versions()), await linked.accept()

        def refuse(request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
            assert version == 3
            return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)

        await peer.answer(refuse)
        await peer.answer(lambda _, version: TABLE if version == 0 else None)
        versions = await asked.result()
        assert {key: (served.first, served.last) for key, served in versions.items()} == {
            1: (4, 12),
            3: (0, 9),
            18: (0, 3),
        }

    run(kind, scenario)


@simulated
def test_a_request_that_the_broker_does_not_serve_is_refused(kind: Any) -> None:
    async def scenario(linked: Simulated) -> None:
        unserved, asked = linked.ask(ProduceRequest(acks=1)), linked.ask()
        peer = await linked.accept()
        await peer.answer(TABLE)
        await peer.answer(MetadataResponse(cluster_id="c"))
        refusal = await unserved.result()
        assert isinstance(refusal, KafkaError)
        assert refusal.code == ErrorCode.UNSUPPORTED_VERSION
        assert (await asked.result()).cluster_id == "c"

    run(kind, scenario)


@simulated
def test_a_link_that_cannot_connect_waits_longer_each_time(kind: Any) -> None:
    async def scenario(linked: Simulated) -> None:
        linked.kernel.refusals.extend([errno.ECONNREFUSED] * 8)
        for _ in range(8):
            asked = linked.ask()
            await refused(asked, "it cannot be reached: Connection refused")
        times = [sock.connected_at for sock in linked.kernel.opened]
        waits = [round((after - before) * 1000) for before, after in itertools.pairwise(times)]
        assert waits == [RECONNECT_BACKOFF_MS, 100, 200, 400, 800, RECONNECT_BACKOFF_MAX_MS, RECONNECT_BACKOFF_MAX_MS]
        linked.skip(8)
        peer = await linked.connect()
        await peer.client.close()
        lost_at = trio.current_time()
        await linked.connect()
        waited = linked.kernel.opened[-1].connected_at - lost_at
        assert round(waited * 1000) == RECONNECT_BACKOFF_MS, "a connection that was made ends the longer waits"

    run(kind, scenario)


@everywhere
def test_a_closed_link_loses_its_requests_and_all_later_ones(kind: Any) -> None:
    async def scenario(linked: Linked) -> None:
        peer = await linked.connect()
        asked = linked.ask()
        await peer.request()
        linked.link.close()
        await refused(asked, "this broker has closed the link")
        await refused(linked.ask(), "this broker has closed the link")
        assert await peer.client.is_closed()
        assert len(linked.peers()) == 1

    run(kind, scenario)


@simulated
def test_an_idle_link_that_is_closed_connects_for_the_next_request(kind: Any) -> None:
    async def scenario(linked: Simulated) -> None:
        peer = await linked.connect()
        await peer.client.close()
        await trio.sleep(1_000)
        assert len(linked.kernel.opened) == 1, "a link without requests stays closed"
        await linked.connect()

    run(kind, scenario)
