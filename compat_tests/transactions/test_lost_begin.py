"""A transaction whose first request is lost with the connection to its coordinator: librdkafka makes the abort fatal.

AddPartitionsToTxn is held before the broker, every connection ends, and the broker is out of reach until the records
have timed out. The coordinator refuses the abort of a transaction that never began; a new producer copies the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from compat_tests.harness import wire
from compat_tests.harness.broker import running
from compat_tests.harness.proxy import Proxy
from compat_tests.harness.waiting import until
from compat_tests.transactions.copiers.committed_values import committed_values
from compat_tests.transactions.copiers.copier import KINDS, SESSION_MS, STEADY
from compat_tests.transactions.copiers.pipeline import Pipeline

SETTINGS: Final = {
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
TIMEOUT_MS: Final = 1_000
FED: Final = 400
STUCK_S: Final = 60.0
NOWHERE: Final = "127.0.0.1:1"


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """In front of a broker whose groups let members go soon."""
    with Proxy() as proxy:
        settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://{proxy.bootstrap}"}
        with running(tmp_path / "broker", settings) as broker:
            proxy.target = broker.bootstrap
            yield proxy


def test_a_new_producer_goes_on_after_a_lost_begin(proxy: Proxy, tmp_path: Path) -> None:
    (kind,) = (kind for kind in KINDS if kind.name == "confluent-kafka")
    pipeline = Pipeline(proxy.bootstrap, replace(kind, members=1, partitions=1, timeout_ms=TIMEOUT_MS), tmp_path)
    (copier,) = pipeline.copiers
    producer = Producer({"bootstrap.servers": proxy.bootstrap, "log_level": 2})
    pipeline.feed(producer, FED)
    assert producer.flush(STUCK_S) == 0

    def has_said(words: str) -> bool:
        return any(words in log.read_text(errors="replace") for log in tmp_path.glob(f"{copier.name}-*.log"))

    def is_drained() -> bool:
        pipeline.keep_alive(STEADY)
        return pipeline.is_drained()

    pipeline.start(STEADY)
    try:
        until(lambda: pipeline.commits > 0, "a commit", STUCK_S)
        proxy.hold(wire.ADD_PARTITIONS_TO_TXN, STUCK_S)
        until(lambda: proxy.held > 0, "the request that begins a transaction", STUCK_S)
        broker, proxy.target = proxy.target, NOWHERE
        proxy.cut()
        until(lambda: has_said("timed out"), "the records to time out", STUCK_S)
        proxy.target = broker
        until(is_drained, "all records to be copied", STUCK_S)
    finally:
        pipeline.kill()
    assert has_said("INVALID_TXN_STATE"), "the transaction has begun"
    pipeline.assert_copied(committed_values(proxy.bootstrap, pipeline.places))
