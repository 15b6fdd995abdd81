"""The whole broker over memory streams: what a client sees, without a port and without waiting."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.app.broker import FREEZE_PARTITIONS, Broker, freezing, serve
from headgate.gateway.config import BrokerConfig
from headgate.gateway.config.http.http_addresses import HttpAddress
from headgate.gateway.metadata import snapshot
from headgate.gateway.metadata.metadata_log import replay
from headgate.gateway.network.addresses import Addresses
from headgate.gateway.tests.builders import records
from headgate.gateway.tests.harness import MemoryBroker, WireClient, run_broker
from headgate.gateway.tests.requests import commit_request, produce_request
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.metadata import BROKER_RESOURCE, MetadataRecord
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.incremental_alter_configs import (
    SET,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.messages.metadata import MetadataRequest
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from headgate.protocol.records.batch import Record, build, iterate, split
from headgate.protocol.security.tls.tests.certificates import Authority
from headgate.storage.log.log import Log
from headgate.storage.segment.file_slice import FileSlice


def test_the_garbage_collector_passes_over_new_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    partitions = [0] * 7
    monkeypatch.setattr("headgate.gateway.app.broker.gc.freeze", lambda: frozen.append(len(partitions)))
    changed = freezing(partitions)
    for count in (7 + FREEZE_PARTITIONS - 1, 7 + FREEZE_PARTITIONS, 7 + FREEZE_PARTITIONS + 1):
        partitions[:] = [0] * count
        changed()
    assert frozen == [7 + FREEZE_PARTITIONS]
    partitions.clear()
    changed()
    partitions[:] = [0] * FREEZE_PARTITIONS
    changed()
    assert frozen == [7 + FREEZE_PARTITIONS, FREEZE_PARTITIONS]


def batch(*values: bytes, timestamp: int = 1_700_000_000_000) -> bytearray:
    return build([Record(offset, timestamp + offset, None, value, []) for offset, value in enumerate(values)])


async def create(client: WireClient, name: str, partitions: int = 1) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    response = await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)
    assert response.topics[0].error_code == ErrorCode.NONE


def fetch(name: str, offset: int, max_wait_ms: int = 500, min_bytes: int = 1, **options: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=name, partitions=[partition])],
        **options,
    )


def values(response: Any) -> list[bytes | None]:
    rows = [row for topic in response.responses for row in topic.partitions]
    return [record.value for row in rows for _, view in split(row.records) for record in iterate(view)]


def test_the_metadata_log_is_read_once_at_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        if not memory.broker.services.metadata.image.topics:
            await create(memory.connect(), "t", 3)
        else:
            assert len(memory.broker.services.metadata.image.topic("t").partitions) == 3

    run_broker(tmp_path, scenario)
    read: list[Log] = []

    def note(log: Log, offset: int = 0) -> Iterator[MetadataRecord]:
        read.append(log)
        return replay(log, offset)

    monkeypatch.setattr(snapshot, "replay", note)
    run_broker(tmp_path, scenario)
    assert len(read) == 1


@pytest.mark.slow
def test_a_broker_replaces_its_metadata_log_by_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of topics that were deleted nothing is left, not even their ids; what was written is still there."""
    monkeypatch.setattr("headgate.gateway.metadata.snapshot.MIN_BYTES", 500)
    directory = tmp_path / "__headgate_metadata-0"
    known = list[int]()

    async def fill(memory: MemoryBroker) -> None:
        client = memory.connect()
        await create(client, "kept", 3)
        await client.ask(produce_request(batch(b"v"), "kept"), 9)
        for number in range(4):
            await create(client, f"t{number}")
            await client.ask(DeleteTopicsRequest(topic_names=[f"t{number}"], timeout_ms=1_000), 3)
        known.append(len(memory.broker.parts.log_manager.removed))
        await trio.sleep(31)
        await create(client, "last")
        await trio.sleep(61)
        known.append(len(memory.broker.parts.log_manager.removed))

    run_broker(tmp_path, fill)
    (snapshot,) = directory.glob("*.checkpoint")
    (segment,) = directory.glob("*.log")
    assert snapshot.name[:20] == segment.name[:20] > f"{10:020d}"
    assert known == [4, 0]

    async def look(memory: MemoryBroker) -> None:
        client = memory.connect()
        described = await client.ask(MetadataRequest(topics=None), 9)
        assert {topic.name: len(topic.partitions) for topic in described.topics} == {"kept": 3, "last": 1}
        assert values(await client.ask(fetch("kept", 0), 11)) == [b"v"]
        await create(client, "t0")

    run_broker(tmp_path, look)


def test_a_stop_writes_down_the_high_watermarks(tmp_path: Path) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        await create(memory.connect(), "t")
        memory.broker.services.partitions.get("t", 0).append(records(b"v", timestamp=1), 1, 1)

    run_broker(tmp_path, scenario)
    (checkpoint,) = tmp_path.rglob("replication-offset-checkpoint")
    assert checkpoint.read_text() == "0\n1\nt 0 1\n"


@pytest.mark.slow
def test_committed_offsets_that_are_not_in_the_page_cache_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read in a thread then, while the broker starts."""

    async def commit(memory: MemoryBroker) -> None:
        client = memory.connect()
        await create(client, "t")
        response = await client.ask(commit_request("g", {0: 7}), 2)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE

    async def fetch_offset(memory: MemoryBroker) -> None:
        client = memory.connect()
        request = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic("t", [0])])
        while (response := await client.ask(request, 5)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            await trio.testing.wait_all_tasks_blocked()
        assert response.topics[0].partitions[0].committed_offset == 7
        assert reads

    run_broker(tmp_path, commit)
    reads: list[int] = []

    def nothing_cached(_: FileSlice, position: int, __: int) -> None:
        reads.append(position)

    monkeypatch.setattr(FileSlice, "read_cached", nothing_cached)
    run_broker(tmp_path, fetch_offset)


@pytest.mark.parametrize("version", [3, 7, 9, 11])
def test_a_produced_record_is_fetched(tmp_path: Path, version: int) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        client = memory.connect()
        await create(client, "t")
        produced = await client.ask(produce_request(batch(b"a", b"b")), version)
        row = produced.responses[0].partition_responses[0]
        assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 0)
        fetched = await client.ask(fetch("t", 0), 12)
        assert values(fetched) == [b"a", b"b"]
        assert fetched.responses[0].partitions[0].high_watermark == 2

    run_broker(tmp_path, scenario)


def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        client = memory.connect()
        await create(client, "t")
        for number in range(5):
            await client.send(produce_request(batch(b"%d" % number)), 7)
        offsets: list[int] = []
        while len(offsets) < 5:
            offsets += [
                response.responses[0].partition_responses[0].base_offset for response in await client.receive_some()
            ]
        assert offsets == [0, 1, 2, 3, 4]

    run_broker(tmp_path, scenario)


def test_a_long_poll_is_woken_by_an_append(tmp_path: Path) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        client, other = memory.connect(), memory.connect()
        await create(other, "t")
        start = trio.current_time()
        await client.send(fetch("t", 0, max_wait_ms=30_000), 12)
        await trio.sleep(5)
        await other.ask(produce_request(batch(b"late")), 7)
        assert values(await client.receive()) == [b"late"]
        assert trio.current_time() - start == pytest.approx(5, abs=0.001)

    run_broker(tmp_path, scenario)


def test_a_long_poll_ends_at_its_time(tmp_path: Path) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        client = memory.connect()
        await create(client, "t")
        start = trio.current_time()
        response = await client.ask(fetch("t", 0, max_wait_ms=700), 12)
        assert values(response) == []
        assert trio.current_time() - start == pytest.approx(0.7, abs=0.001)

    run_broker(tmp_path, scenario)


def test_min_bytes_are_waited_for(tmp_path: Path) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        client, other = memory.connect(), memory.connect()
        await create(other, "t")
        await client.send(fetch("t", 0, max_wait_ms=30_000, min_bytes=250), 12)
        start = trio.current_time()
        for _ in range(3):
            await trio.sleep(1)
            await other.ask(produce_request(batch(bytes(30))), 7)
        assert len(values(await client.receive())) == 3
        assert trio.current_time() - start == pytest.approx(3, abs=0.001)

    run_broker(tmp_path, scenario)


def test_acks_0_gets_no_reply_and_an_error_hangs_up(tmp_path: Path) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        client = memory.connect()
        await create(client, "t")
        await client.send(produce_request(batch(b"quiet"), acks=0), 7)
        assert values(await client.ask(fetch("t", 0), 12)) == [b"quiet"]
        await client.send(produce_request(batch(b"lost"), "nowhere", acks=0), 7)
        with pytest.raises(EOFError):
            await client.receive()

    run_broker(tmp_path, scenario)


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_offsets_by_time_and_at_the_ends(tmp_path: Path, isolation_level: int) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        client = memory.connect()
        await create(client, "t")
        await client.ask(produce_request(batch(b"a", b"b", b"c", timestamp=1_000)), 7)
        found = {}
        for timestamp in (-1, -2, -3, 1_001, 2_000):
            wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
            topic = ListOffsetsTopic(name="t", partitions=[wanted])
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[topic])
            row = (await client.ask(request, 7)).topics[0].partitions[0]
            found[timestamp] = (row.error_code, row.offset, row.timestamp)
        assert found == {-1: (0, 3, -1), -2: (0, 0, -1), -3: (0, 2, 1_002), 1_001: (0, 1, 1_001), 2_000: (0, -1, -1)}

    run_broker(tmp_path, scenario)


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    async def write(memory: MemoryBroker) -> None:
        client = memory.connect()
        await create(client, "t")
        await client.ask(produce_request(batch(b"kept")), 7)

    async def read(memory: MemoryBroker) -> None:
        assert values(await memory.connect().ask(fetch("t", 0), 12)) == [b"kept"]

    run_broker(tmp_path, write)
    run_broker(tmp_path, read)


def test_a_stop_answers_what_is_parked(tmp_path: Path) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        client = memory.connect()
        await create(client, "t")
        await client.send(fetch("t", 0, max_wait_ms=60_000), 12)
        await trio.testing.wait_all_tasks_blocked()
        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(memory.broker.stop)
            assert values(await client.receive()) == []
        assert trio.current_time() - start < 2

    run_broker(tmp_path, scenario)


def test_an_unknown_api_hangs_up_and_others_are_served(tmp_path: Path) -> None:
    async def scenario(memory: MemoryBroker) -> None:
        bad, good = memory.connect(), memory.connect()
        await bad.stream.send_all(bytes([0, 0, 0, 10, 0x7F, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0xFF]))
        assert await bad.stream.receive_some(100) == b""
        await create(good, "t")

    run_broker(tmp_path, scenario)


def test_a_connection_limit_changes_at_once_and_survives_a_restart(tmp_path: Path) -> None:
    limit = AlterConfigsResource(BROKER_RESOURCE, "", [AlterableConfig("max.connections", SET, "1")])

    async def lower_it(memory: MemoryBroker) -> None:
        client = memory.connect()
        response = await client.ask(IncrementalAlterConfigsRequest([limit]), 1)
        assert response.responses[0].error_code == ErrorCode.NONE
        await only_one(memory, client)

    async def only_one(memory: MemoryBroker, client: WireClient | None = None) -> None:
        client = client or memory.connect()
        await client.ask(MetadataRequest([]), 1)
        with pytest.raises((EOFError, trio.BrokenResourceError)):
            await memory.connect().ask(MetadataRequest([]), 1)
        await client.ask(MetadataRequest([]), 1)

    run_broker(tmp_path, lower_it)
    run_broker(tmp_path, only_one)


def run_with_http(directory: Path, scenario: Callable[[Broker, int], Awaitable[None]]) -> None:
    """Run `scenario` beside a broker with real sockets and real time: it gets the port of HTTP."""
    overrides = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "headgate.http.listeners": "http://127.0.0.1:0",
        "log.dirs": str(directory),
    }

    async def main() -> None:
        broker = Broker(BrokerConfig.load("", overrides))
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            (endpoint,) = broker.state.http_endpoints
            await scenario(broker, int(endpoint.rpartition(":")[2]))
            await broker.stop()

    trio.run(main)


async def ask_http(port: int, request: bytes) -> bytes:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request)
        return b"".join([data async for data in stream])


@pytest.mark.sockets
def test_http_is_served_where_it_is_asked_for(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        client = WireClient(await trio.open_tcp_stream("127.0.0.1", int(broker.endpoints[0].rpartition(":")[2])))
        await client.ask(MetadataRequest(None), 9)
        text = await ask_http(port, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for line in (
            b'headgate_requests_total{api="Metadata",version="9"} 1.0',
            b"headgate_connections 1.0",
            b"headgate_disk_offline_directories 0.0",
            b"headgate_compaction_runs_total 0.0",
            b"process_open_fds ",
        ):
            assert b"\n" + line in text
        await client.stream.aclose()

    run_with_http(tmp_path, scenario)


@pytest.mark.sockets
def test_a_refused_request_of_a_large_body_is_told_why(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        request = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50_000
        for _number in range(20):
            text = await ask_http(port, request)
            assert text.endswith(b"POST is not served here, GET and HEAD are\n"), "the system has reset the connection"

    run_with_http(tmp_path, scenario)


@pytest.mark.sockets
def test_a_broker_starts_though_the_usual_http_address_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two brokers on one machine, both without a setting: whichever starts second has none."""
    config = BrokerConfig.load("", {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = HttpAddress("http", "127.0.0.1", taken.getsockname()[1])
        monkeypatch.setattr(config, "headgate_http_listeners", (address,))

        async def main() -> None:
            broker = Broker(config)
            async with trio.open_nursery() as nursery:
                await nursery.start(broker.run)
                assert broker.state.http_endpoints == []
                client = WireClient(await trio.open_tcp_stream("127.0.0.1", int(broker.endpoints[0].split(":")[-1])))
                assert (await client.ask(MetadataRequest([]), 1)).brokers
                await client.stream.aclose()
                await broker.stop()

        trio.run(main)
    assert f"cannot serve HTTP at {address} (Address already in use)" in caplog.text


START = """
import sys, trio
from headgate.gateway.app.broker import Broker
from headgate.gateway.config import BrokerConfig

async def main():
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "headgate.http.listeners": "http://127.0.0.1:0"}
    broker = Broker(BrokerConfig.load("", {**settings, "log.dirs": sys.argv[1]}))
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        assert broker.state.http_endpoints
        await broker.stop()

trio.run(main)
loaded = {"h11", "prometheus_client", "headgate.gateway.http.health", "headgate.gateway.http.access"} & set(sys.modules)
assert not loaded, loaded
"""


@pytest.mark.sockets
@pytest.mark.slow
def test_a_start_loads_nothing_that_only_a_peer_of_http_needs(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", START, str(tmp_path)], check=False).returncode == 0


@pytest.mark.sockets
@pytest.mark.slow
def test_clients_of_both_families_at_one_listener(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An IPv4 client has an IPv4 address: in what is advertised, in the limit for each address, and in the log."""
    key_store = tmp_path / "broker.pem"
    key_store.write_text(Authority().issue("broker").pem())
    overrides = {
        "listeners": "PLAINTEXT://[::]:0",
        "headgate.http.listeners": "https://[::]:0",
        "listener.name.http.ssl.keystore.type": "PEM",
        "listener.name.http.ssl.keystore.location": str(key_store),
        "log.dirs": str(tmp_path / "log"),
        "max.connections.per.ip": "1",
    }

    async def connect(broker: Broker, host: str) -> WireClient:
        return WireClient(await trio.open_tcp_stream(host, int(broker.endpoints[0].rpartition(":")[2])))

    async def main() -> None:
        broker = Broker(BrokerConfig.load("", overrides))
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            assert len(broker.endpoints) == 1
            clients = []
            for host in ("127.0.0.1", "::1"):
                clients.append(await connect(broker, host))
                response = await clients[-1].ask(MetadataRequest([]), 1)
                assert [one.host for one in response.brokers] == [host]
                clients.append(await connect(broker, host))
                with pytest.raises((EOFError, trio.BrokenResourceError)):
                    await clients[-1].ask(MetadataRequest([]), 1)
                (endpoint,) = broker.state.http_endpoints
                assert endpoint.startswith("https://[::]:")
                await (await trio.open_tcp_stream(host, int(endpoint.rpartition(":")[2]))).aclose()
            for client in clients:
                await client.stream.aclose()
            await broker.stop()

    trio.run(main)
    refused = [message for message in caplog.messages if "refused a connection" in message]
    assert len(refused) == 2
    assert "127.0.0.1:" in refused[0]
    assert "ffff" not in caplog.text


@pytest.mark.sockets
def test_a_signal_ends_a_start_that_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a start does that ZooKeeper keeps waiting; the directories are left as after a clean stop."""

    def announce(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path), "headgate.http.listeners": ""}
    config, started = BrokerConfig.load("", settings), list[bool]()
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    monkeypatch.setattr("headgate.gateway.app.composition.BrokerParts.announce", announce)
    serve(config, lambda: started.append(True), Addresses.of(config))
    assert not started
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
    assert (tmp_path / ".kafka_cleanshutdown").exists()
