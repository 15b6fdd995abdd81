"""Every kind of hostile client at once, on a broker that runs out of descriptors: who behaves is served all the same.

A producer and a consumer exchange records at a fixed pace. In turns the attackers go on and are held (SIGSTOP), so that
the same client on the same machine tells the difference; what is compared are medians over such turns, by a clock that
does not count what other programs take from the machine.
`make test` does this for a few seconds, `make soak` for a minute under attack.
"""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.soak import SOAK
from compat_tests.harness.steady import FairClock, Steady, create_topics, end_offset, p99, produce_request, record_batch
from compat_tests.harness.waiting import until
from compat_tests.harness.wire import connect, receive_frame
from compat_tests.hostile.attackers import ATTACKS, address_of
from compat_tests.hostile.hostile_bytes import MemoryWatch

MEGABYTE = 1 << 20
BOUND_BYTES = 64 * MEGABYTE
FLOOR_S = 0.005
DESCRIPTORS = 256
ATTACKED_S, HELD_S = 2.5, 2.0
TURNS = 25 if SOAK else 3
PACE_S = 0.01
# Of one kind and address: five lines in ten seconds, and one that counts what was left out
LINES, LINES_INTERVAL_S = 6, 10.0

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(TARGET != "headgate", reason="it allocates what is announced, and logs otherwise"),
]


@contextlib.contextmanager
def attackers(broker: Broker, topic: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "compat_tests.hostile.attackers", broker.bootstrap, topic]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=Path(__file__).parents[2])
    try:
        yield process
        assert process.poll() is None, "the attackers gave up"
    finally:
        process.kill()
        process.wait()


def fill(bootstrap: str, topic: str) -> None:
    """32 MB, for those who ask and do not read."""
    request = produce_request(topic, 1, record_batch(bytes(MEGABYTE - 1024)))
    with connect(bootstrap, 60) as stream:
        for _ in range(32):
            stream.sendall(request)
            receive_frame(stream)


def stored(broker: Broker) -> int:
    """How many records of the client that behaves the broker has, asked by a new connection."""
    with connect(broker.bootstrap) as stream:
        return end_offset(stream, "work")


def paced(client: Steady, clock: FairClock, for_s: float) -> list[float]:
    """Exchanges at a fixed pace; seconds of each from when it was due, so that none hides behind a slow one."""
    took_s = []
    began_s = clock.now_s()
    for number in range(int(for_s / PACE_S)):
        due_s = began_s + number * PACE_S
        time.sleep(max(due_s - clock.now_s(), 0))
        client.exchange()
        took_s.append(clock.now_s() - due_s)
    return took_s


def under_attack(broker: Broker, client: Steady) -> tuple[list[list[float]], list[list[float]]]:
    """The client's exchanges in turns of attack, and in turns of rest."""
    attacked, held, clock = [], [], FairClock(broker)
    with attackers(broker, "bait") as process:
        until(lambda: all_were_told_of(broker), "a line about every kind of attack that ends a connection")
        for _ in range(TURNS):
            attacked.append(paced(client, clock, ATTACKED_S))
            process.send_signal(signal.SIGSTOP)
            client.window(20)  # what they left behind is done with
            held.append(paced(client, clock, HELD_S))
            process.send_signal(signal.SIGCONT)
    return attacked, held


def told(lines: list[str], name: str) -> list[str]:
    """The lines about one kind of attack, by the address it comes from."""
    return [line for line in lines if re.search(rf"\b{re.escape(address_of(name))}\b", line)]


def all_were_told_of(broker: Broker) -> bool:
    lines = broker.error_lines()
    return all(told(lines, name) for name, attack in ATTACKS.items() if attack.says) and bool(exhausted(lines))


def exhausted(lines: list[str]) -> list[str]:
    return [line for line in lines if "cannot accept connections: Too many open files" in line]


def assert_lines(lines: list[str], for_s: float) -> None:
    """Of each kind a clear line, and few of them; no traceback."""
    most = LINES * (for_s // LINES_INTERVAL_S + 1)
    for name, attack in ATTACKS.items():
        said = told(lines, name)
        assert len(said) <= most, f"{len(said)} lines about {name}, the last: {said[-3:]}"
        if attack.says:
            assert any(re.search(attack.says, line) for line in said), f"{name}: {said}"
    assert 1 <= len(exhausted(lines)) <= most, f"{len(exhausted(lines))} lines about descriptors"
    assert not [line for line in lines if "Traceback" in line]


def test_a_client_that_behaves_is_served(tmp_path: Path, figure: Callable[[str], None]) -> None:
    with running(tmp_path) as broker:
        create_topics(broker.bootstrap, ["bait", "work"], 1)
        fill(broker.bootstrap, "bait")
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        with Steady(broker.bootstrap, "work") as client:
            client.window(200)
            files, watch, began_s = broker.open_files(), MemoryWatch(broker), time.monotonic()
            try:
                attacked, held = under_attack(broker, client)
            finally:
                grown = watch.end()
            until(lambda: broker.open_files() <= files, "the broker to let go of the attackers' connections")
            assert client.offset == stored(broker)
        lines, lines_s = broker.error_lines(), time.monotonic() - began_s
    attacked_s, held_s = (statistics.median(map(p99, windows)) for windows in (attacked, held))
    worst_s = max(map(max, attacked))
    figure(
        f"beside {len(ATTACKS)} kinds of hostile clients: p99 {attacked_s * 1000:.1f} ms, {held_s * 1000:.1f} ms while"
        f" they are held; slowest {worst_s * 1000:.0f} ms; memory grew by {grown / MEGABYTE:.1f} MB at most"
    )
    assert attacked_s <= 2 * held_s + FLOOR_S
    assert grown < BOUND_BYTES
    assert_lines(lines, lines_s)
