"""Restarts of a broker whose sockets stay open: no client is refused, and no record is lost or twice.

The clients are those of the histories, of librdkafka and Java: idempotent and transactional producers, consumers of
groups; the checker of the histories judges. Beside them idempotent producers send as fast as they can, and a client
connects anew all the time. 3 restarts; `make soak` has 50.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from compat_tests.families.confluent import Confluent
from compat_tests.families.family import FromOffset
from compat_tests.harness import wire
from compat_tests.harness.records import Received
from compat_tests.harness.soak import SOAK
from compat_tests.harness.topics import create_topics
from compat_tests.harness.waiting import until
from compat_tests.histories.checker import report
from compat_tests.histories.confluent_worker import MAX_MESSAGE_BYTES
from compat_tests.histories.history import OK
from compat_tests.histories.round import PARTITIONS, SETTINGS, Plan, Round, Target
from compat_tests.service.manager import Notifications, ServiceBroker
from compat_tests.storage.load import Load

RESTARTS = 50 if SOAK else 3
PRODUCERS = 2
LIMIT_S = 60.0
PAUSE_S = 0.002


@dataclass(frozen=True)
class ServiceTarget(Target):
    """A broker that clients reach at its own address."""

    address: str = ""

    @property
    def bootstrap(self) -> str:
        return self.address


class Restarts(Round):
    """A round with clean restarts in place of faults, each after every client has written."""

    def __init__(self, broker: ServiceBroker, topic: str, path: Path) -> None:
        target = ServiceTarget([], _nothing, _nothing, _nothing, lambda: None, broker.bootstrap)
        super().__init__(target, topic, 1, Plan(0, 0, 0), path)
        self.broker = broker
        self.stopped_s: list[float] = []
        self.started_s: list[float] = []

    def _disturb(self) -> None:
        for number in range(RESTARTS):
            self._wait_for_writes()
            note = self.recorder.invoke("faults", "fault")
            began_s = time.monotonic()
            self.broker.stop()
            self.stopped_s.append(time.monotonic() - began_s)
            self.started_s.append(self.broker.start())
            note(OK, text=f"restart {number}")

    def _wait_for_writes(self) -> None:
        before = dict(self.recorder.acknowledged)
        until(
            lambda: all(count > before.get(process, 0) for process, count in self.recorder.acknowledged.items()),
            "each client to write",
            LIMIT_S,
        )


class Newcomers:
    """Clients that connect and ask, one after another, for the length of a with-block."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.answered = 0
        self.refused = 0
        self.dropped = 0
        """Accepted, and closed without an answer: the broker had begun to stop."""
        self.longest_s = 0.0
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="newcomers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ending.set()
        self._thread.join(LIMIT_S)

    def _run(self) -> None:
        while not self._is_ending.wait(PAUSE_S):
            began_s = time.monotonic()
            try:
                with closing(wire.connect(self.bootstrap, LIMIT_S)) as stream:
                    wire.ask(stream, wire.API_VERSIONS, 0, b"")
            except ConnectionRefusedError:
                self.refused += 1
            except ConnectionError:
                self.dropped += 1
            else:
                self.answered += 1
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)


def _nothing(_number: int) -> None:
    """A restart is no fault."""


def assert_stored(broker: ServiceBroker, load: Load) -> None:
    """Each record of the load is stored once, where it was acknowledged."""
    load.assert_no_failure()
    counts = {one: sum(len(worker.offsets[one]) for worker in load.workers) for one in range(PARTITIONS)}
    start = FromOffset(dict.fromkeys(counts, 0))
    found: dict[int, list[Received]] = {one: [] for one in counts}
    for record in Confluent().consume(broker.bootstrap, "load", start, counts):
        found[record.partition].append(record)
    for one, records in found.items():
        load.assert_stored(one, records)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServiceBroker]:
    with closing(Notifications(str(tmp_path / "notify"))) as notifications:
        broker = ServiceBroker(tmp_path / "broker", notifications, SETTINGS)
        with closing(broker):
            broker.start()
            yield broker


def test_clients_bear_restarts_of_a_service(
    broker: ServiceBroker, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    topics = {"restarts": {"max.message.bytes": str(MAX_MESSAGE_BYTES)}, "load": {}}
    create_topics(broker.bootstrap, topics, PARTITIONS, 1)
    played = Restarts(broker, "restarts", tmp_path / "history.jsonl")
    load = Load(broker.bootstrap, "load", PARTITIONS, PRODUCERS)
    with Newcomers(broker.bootstrap) as newcomers, load:
        anomalies = played.play()
    assert not anomalies, report(anomalies)
    assert_stored(broker, load)
    assert newcomers.refused == 0
    assert newcomers.answered > RESTARTS
    assert broker.notifications is not None
    assert broker.notifications.count("READY", "1") == RESTARTS + 1
    records = sum(worker.acknowledged for worker in load.workers)
    figure(
        f"{RESTARTS} restarts, {records} records, {sum(played.recorder.acknowledged.values())} writes,"
        f" {newcomers.answered} newcomers: {newcomers.refused} refused, {newcomers.dropped} dropped unanswered,"
        f" the longest wait {newcomers.longest_s:.2f} s, the longest stop {max(played.stopped_s):.2f} s,"
        f" the longest start {max(played.started_s):.2f} s"
    )
