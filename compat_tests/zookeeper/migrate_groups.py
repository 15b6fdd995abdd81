"""Measures `headgate groups migrate` with a real ZooKeeper: offsets a second, memory, and a client beside it.

    python -m compat_tests.zookeeper.migrate_groups [groups] [partitions]

One line for each step: seconds, offsets a second, p50, p99 and the longest latency of a Metadata request beside it (one
every 5 ms, from another process's point of view), resident memory of the broker and of the tool, in MB.
"""

from __future__ import annotations

import resource
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient

from compat_tests.harness import wire
from compat_tests.harness.broker import Broker, HeadgateBroker, installed_command
from compat_tests.harness.topics import create_topics
from compat_tests.harness.zookeeper import ZooKeeper

_PAUSE_S: Final = 0.005
_CREATED_AT_ONCE: Final = 200
_TOPIC: Final = "orders"


def main(groups: int, partitions: int) -> None:
    """Run all steps, there and back."""
    steps = (
        ("plan", "app-*"),
        ("start", "app-*", "--execute"),
        ("verify", "app-*"),
        ("finish", "app-*", "--execute"),
        ("back", "app-*", "--execute"),
        ("finish", "app-*", "--in", "zookeeper", "--execute"),
    )
    with tempfile.TemporaryDirectory() as directory, ZooKeeper(heap="512m") as zookeeper:
        broker = HeadgateBroker(Path(directory), {"zookeeper.connect": zookeeper.connect})
        broker.start()
        try:
            create_topics(broker.bootstrap, {_TOPIC: {}}, partitions)
            began = time.monotonic()
            _create(zookeeper.connect, groups, partitions)
            print(f"{groups * partitions} offsets created in {time.monotonic() - began:.1f} s", flush=True)
            for step in steps:
                _measure(broker, step, groups * partitions)
        finally:
            broker.stop()


def _create(connect: str, groups: int, partitions: int) -> None:
    """Offsets as old consumers leave them."""
    client = KazooClient(connect)
    client.start()
    client.ensure_path("/consumers")
    for group in range(groups):
        path = f"/consumers/app-{group:04}"
        for start in range(0, partitions, _CREATED_AT_ONCE):
            transaction = client.transaction()
            if start == 0:
                for parent in (path, f"{path}/ids", f"{path}/owners", f"{path}/offsets", f"{path}/offsets/orders"):
                    transaction.create(parent)
            for partition in range(start, min(partitions, start + _CREATED_AT_ONCE)):
                transaction.create(f"{path}/offsets/orders/{partition}", b"%d" % (group + partition))
            assert not any(isinstance(result, Exception) for result in transaction.commit())
    client.stop()


def _measure(broker: Broker, step: tuple[str, ...], offsets: int) -> None:
    command = [*installed_command(), "groups", "migrate", *step, "--bootstrap-server", broker.bootstrap]
    with _beside(broker.bootstrap) as latencies_ms:
        began = time.monotonic()
        result = subprocess.run([*command, "--timeout", "120"], capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
    latencies_ms.sort()
    p50, p99 = (latencies_ms[int(len(latencies_ms) * share)] for share in (0.5, 0.99))
    tool_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    lines = [line for line in result.stderr.splitlines() if not line.startswith("{")]
    print(
        f"{' '.join(step)}: exit {result.returncode}, {seconds:.1f} s, {offsets / seconds:,.0f} offsets/s; beside it"
        f" p50 {p50:.1f}, p99 {p99:.1f}, longest {latencies_ms[-1]:.1f} ms; broker {broker.resident_bytes() >> 20} MB,"
        f" tool at most {tool_mb:.0f} MB; {' | '.join(lines[:3])}",
        flush=True,
    )


@contextmanager
def _beside(bootstrap: str) -> Iterator[list[float]]:
    """A client that asks for one topic, again and again; its latencies."""
    latencies_ms: list[float] = []
    is_over = threading.Event()
    request = struct.pack(">i", 1) + wire.string(_TOPIC)

    def ask() -> None:
        with wire.connect(bootstrap) as stream:
            while not is_over.wait(_PAUSE_S):
                began = time.perf_counter()
                wire.ask(stream, wire.METADATA, 1, request)
                latencies_ms.append((time.perf_counter() - began) * 1000)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield latencies_ms
    finally:
        is_over.set()
        thread.join()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ("1000", "100")))
