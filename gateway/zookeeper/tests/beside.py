"""How long a small producer waits while the broker reads from ZooKeeper, by the number of outstanding requests.

    .venv/bin/python -m headgate.gateway.zookeeper.tests.beside 1 16 64

A broker, its session with a real ZooKeeper, and in a process of its own one producer of a record every 2 ms. Reads of
10,000 nodes follow each other for SECONDS. Printed are the producer's latencies alone and for each number, reads a
second and the broker's CPU time for 10,000 reads. `MAX_OUTSTANDING` in `client.py` was chosen by this.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import time
from typing import Any, Final

import trio

from compat_tests.harness.zookeeper import ZooKeeper
from headgate.gateway.app.broker import Broker
from headgate.gateway.config import BrokerConfig
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.tests.requests import produce_request
from headgate.gateway.zookeeper.client import ZooKeeperClient
from headgate.gateway.zookeeper.session import Create, SessionEvent
from headgate.gateway.zookeeper.tests.proxy import HOST
from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.records.batch import Record, build

SECONDS: Final = 6.0
INTERVAL_S: Final = 0.002
READS: Final = 10_000
SLICE: Final = 100
TOPIC: Final = "bystander"


def produce(port: int) -> None:
    """The producer: prints its latencies in milliseconds; a wait counts for all requests that were due in it."""
    connection = ClientConnection("bystander")
    batch = build([Record(offset=0, timestamp=0, key=None, value=b"0123456789")])
    request = produce_request(batch, TOPIC, acks=1)
    waits_ms: list[float] = []
    with socket.create_connection((HOST, port)) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        due_s = began_s = time.perf_counter()
        while due_s < began_s + SECONDS:
            time.sleep(max(0.0, due_s - time.perf_counter()))
            sent_s = time.perf_counter()
            stream.sendall(connection.request(request, 7))
            while not connection.receive(stream.recv(65536)):
                pass
            took_s = time.perf_counter() - sent_s
            while took_s > 0:
                waits_ms.append(took_s * 1000)
                took_s -= INTERVAL_S
            due_s = max(due_s + INTERVAL_S, time.perf_counter())
    waits_ms.sort()
    quantiles = {name: round(waits_ms[int(len(waits_ms) * share)], 2) for name, share in (("p50", 0.5), ("p99", 0.99))}
    print(json.dumps(quantiles | {"max": round(waits_ms[-1], 2)}))


class Reads:
    """READS reads, again and again. They are asked for in slices: also to ask takes time, some microseconds each."""

    def __init__(self, client: ZooKeeperClient, scheduler: Scheduler) -> None:
        self.client = client
        self.count = 0
        self.is_running = True
        self._scheduler = scheduler
        self._asked = self._answered = 0

    def begin(self) -> None:
        self._asked = self._answered = 0
        self._ask()

    def _ask(self) -> None:
        for number in range(SLICE):
            self.client.get(f"/n{number}", self._read)
        self._asked += SLICE
        if self._asked < READS:
            self._scheduler.call_from_thread(self._ask)

    def _read(self, _result: object) -> None:
        self.count += 1
        self._answered += 1
        if self._answered == READS and self.is_running:
            self.begin()


async def measure(broker: Broker, zookeeper: ZooKeeper, outstanding: int) -> dict[str, Any]:
    """The figures beside reads with so many outstanding requests; 0: no reads."""
    port = int(broker.endpoints[0].rpartition(":")[2])
    connected, closed = trio.Event(), trio.Event()

    def follow(event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED:
            for number in range(100):
                client.create(Create(f"/n{number}", bytes(100)), lambda _: None)
            client.sync("/", lambda _: connected.set())

    client = ZooKeeperClient(zookeeper.connect, 30_000, broker.services.scheduler, follow, outstanding or 1)
    client.start()
    await connected.wait()
    reads = Reads(client, broker.services.scheduler)
    if outstanding:
        reads.begin()
    command = [sys.executable, "-m", "headgate.gateway.zookeeper.tests.beside", "produce", str(port)]
    began_s, cpu_s = time.perf_counter(), time.process_time()
    count = reads.count
    ended = await trio.run_process(command, capture_stdout=True)
    took_s, cpu_s, count = time.perf_counter() - began_s, time.process_time() - cpu_s, reads.count - count
    reads.is_running = False
    client.close(lambda _: closed.set())
    await closed.wait()
    more = {"reads/s": round(count / took_s), "CPU s for 10,000": round(cpu_s / count * READS, 2)} if count else {}
    return {"outstanding": outstanding, **json.loads(ended.stdout), **more, "CPU s/s": round(cpu_s / took_s, 2)}


async def run(numbers: list[int]) -> None:
    with tempfile.TemporaryDirectory() as directory, ZooKeeper() as zookeeper:
        settings = {"listeners": f"PLAINTEXT://{HOST}:0", "log.dirs": directory}
        broker = Broker(BrokerConfig.load("", settings))
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            broker.services.metadata.create_topic(TOPIC, 1, 1)
            for number in [0, *numbers]:
                print(await measure(broker, zookeeper, number), flush=True)
            await broker.stop()


if __name__ == "__main__":
    if sys.argv[1] == "produce":
        produce(int(sys.argv[2]))
    else:
        trio.run(run, [int(number) for number in sys.argv[1:]])
