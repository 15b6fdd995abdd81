"""A thousand clients begin their TLS handshakes in one moment, with a key of RSA: others are served meanwhile."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.harness.apache_kafka import ROOT
from compat_tests.harness.broker import TARGET
from compat_tests.harness.soak import SOAK
from compat_tests.harness.steady import FairClock, Steady, create_topics, p99
from compat_tests.security.secure_broker import TLS, SecureBroker

COUNT = 1_000
ROUNDS = 5 if SOAK else 1
LIMIT_S = 0.005
PACE_S = 0.002
ISSUE = """
import sys
from pathlib import Path
from headgate.protocol.security.tls.tests.certificates import Authority, rsa_key
directory = Path(sys.argv[1])
authority = Authority()
(directory / "ca.pem").write_text(authority.pem())
(directory / "broker.pem").write_text(authority.issue("broker", key=rsa_key()).pem())
"""

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for TLS by its command line"),
]


class Storm:
    """Handshakes of another process."""

    def __init__(self, port: int) -> None:
        command = [sys.executable, "-m", "compat_tests.hostile.handshakes", str(port), str(COUNT), str(ROUNDS)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True)
        self.is_under_way = threading.Event()
        self.took_s: list[float] = []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.startswith("begun"):
                    self.is_under_way.set()
                else:
                    self.is_under_way.clear()
                    self.took_s.append(float(line))

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None and not self.thread.is_alive()


def test_a_thousand_handshakes_delay_nobody(tmp_path: Path, figure: Callable[[str], None]) -> None:
    subprocess.run([sys.executable, "-c", ISSUE, str(tmp_path)], cwd=ROOT, check=True, timeout=60)
    broker = SecureBroker(tmp_path / "broker", certificates=tmp_path)
    broker.start()
    try:
        create_topics(broker.bootstrap, ["work"], 1)
        with Steady(broker.bootstrap, "work") as client:
            client.window(300)
            clock = FairClock(broker)
            quiet = [exchange(client, clock) for _ in range(500)]
            during: list[tuple[float, float]] = []
            storm = Storm(broker.ports()[TLS])
            while not storm.is_over:
                is_under_way = storm.is_under_way.is_set()
                took = exchange(client, clock)
                if is_under_way:
                    during.append(took)
        assert storm.process.returncode == 0
        assert len(storm.took_s) == ROUNDS, "not every handshake succeeded"
    finally:
        broker.stop()
    fair_s, wall_s = (p99([took[place] for took in during]) for place in (0, 1))
    figure(
        f"{COUNT} handshakes with RSA-2048 in {statistics.median(storm.took_s):.2f} s: another client's p99"
        f" {fair_s * 1000:.1f} ms, {wall_s * 1000:.1f} ms with the waits for a core; before them"
        f" {p99([took[0] for took in quiet]) * 1000:.1f} ms; {len(during)} exchanges"
    )
    assert fair_s < LIMIT_S


def exchange(client: Steady, clock: FairClock) -> tuple[float, float]:
    """Seconds of one exchange: by the fair clock, and by the clock on the wall."""
    began_s = time.perf_counter()
    fair_s = client.exchange(clock.now_s)
    took_s = time.perf_counter() - began_s
    time.sleep(max(PACE_S - took_s, 0))
    return fair_s, took_s
