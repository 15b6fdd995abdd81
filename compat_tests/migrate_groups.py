"""Measures `headgate groups migrate` with a real ZooKeeper: offsets a second, memory, and a client beside it.

    python -m compat_tests.migrate_groups [groups] [partitions]

One line for each step: seconds, offsets a second, p50, p99 and the longest latency of a Metadata request beside it (one
every 5 ms, from another process's point of view), resident memory of the broker and of the tool, in MB.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from compat_tests.zookeeper import ZooKeeper
from headgate.gateway.app.headgate import Headgate
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.tools.client import Client

_PAUSE_S = 0.005
_CREATED_AT_ONCE = 200


def main(groups: int, partitions: int) -> None:
    """Run all steps, there and back."""
    with ZooKeeper(heap="512m") as zookeeper, Headgate({"zookeeper.connect": zookeeper.connect}) as broker:
        broker.create_topic("orders", partitions)
        began = time.monotonic()
        _create(zookeeper.connect, groups, partitions)
        print(f"{groups * partitions} offsets created in {time.monotonic() - began:.1f} s")
        steps = (
            ("plan", "app-*"),
            ("start", "app-*", "--execute"),
            ("verify", "app-*"),
            ("finish", "app-*", "--execute"),
            ("back", "app-*", "--execute"),
            ("finish", "app-*", "--in", "zookeeper", "--execute"),
        )
        for step in steps:
            _measure(broker, step, groups * partitions)


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


def _measure(broker: Headgate, step: tuple[str, ...], offsets: int) -> None:
    command = [sys.executable, "-m", "headgate", "groups", "migrate", *step, "--bootstrap-server", broker.bootstrap]
    with _beside(broker.bootstrap) as latencies_ms:
        began = time.monotonic()
        result = subprocess.run([*command, "--timeout", "120"], capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
    latencies_ms.sort()
    shown = [latencies_ms[int(len(latencies_ms) * share)] for share in (0.5, 0.99)] + [latencies_ms[-1]]
    tool_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    lines = [line for line in result.stderr.splitlines() if not line.startswith("{")]
    print(
        f"{' '.join(step)}: exit {result.returncode}, {seconds:.1f} s, {offsets / seconds:,.0f} offsets/s, beside it"
        f" p50 {shown[0]:.1f} p99 {shown[1]:.1f} longest {shown[2]:.1f} ms, broker {_resident_mb(broker.pid):.0f} MB,"
        f" tool at most {tool_mb:.0f} MB; {' | '.join(lines[:3])}",
        flush=True,
    )


@contextmanager
def _beside(bootstrap: str) -> Iterator[list[float]]:
    """A client that asks for one topic, again and again; its latencies."""
    latencies_ms: list[float] = []
    is_over = threading.Event()

    def ask() -> None:
        with Client(bootstrap) as client:
            while not is_over.wait(_PAUSE_S):
                began = time.perf_counter()
                client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 12)
                latencies_ms.append((time.perf_counter() - began) * 1000)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield latencies_ms
    finally:
        is_over.set()
        thread.join()


def _resident_mb(pid: int) -> float:
    (line,) = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ("1000", "100")))
