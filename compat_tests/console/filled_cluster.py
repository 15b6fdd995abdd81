"""A cluster with all that the console shows: topics, records, groups with members, transactions, and hostile names.

The clients are librdkafka's: the same steps fill Headgate, and Apache Kafka 4.1 and 2.8.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer

from compat_tests.harness.topics import create_topics
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import commit

SCRIPT: Final = "<img src=x onerror='window.attacked=1'><script>window.attacked=1</script>"
"""A text that runs wherever it becomes HTML."""
ORDERS, AUDIT, HOSTILE = "orders", "audit", "hostile"
BILLING, BEHIND, MARKED = "billing", "behind", f"group {SCRIPT}"
PAYMENTS, MARKED_ID = "payments", f"transaction {SCRIPT}"
RECORDS: Final = 300
_LASTING: Final = {"transaction.timeout.ms": 900_000}
"""A coordinator aborts a transaction after this time."""


@contextmanager
def filled(bootstrap: str, security: dict[str, str] | None = None) -> Iterator[None]:
    """Fill the cluster; members and open transactions stay until the end."""
    common = {"bootstrap.servers": bootstrap, **(security or {})}
    create_topics(bootstrap, {ORDERS: {"cleanup.policy": "delete", "retention.ms": "86400000"}}, 3)
    create_topics(bootstrap, {AUDIT: {}, HOSTILE: {}})
    _write(common)
    commit(bootstrap, BEHIND, ORDERS, {0: 1, 1: 0, 2: 0})
    with ExitStack() as stack:
        for group, client_id, topic in ((BILLING, "billing-1", ORDERS), (MARKED, SCRIPT, HOSTILE)):
            stack.enter_context(_member(common, group, client_id, topic))
        for transactional_id, topic in ((PAYMENTS, ORDERS), (MARKED_ID, HOSTILE)):
            stack.enter_context(_open_transaction(common, transactional_id, topic))
        yield


def _write(common: dict[str, str]) -> None:
    producer = Producer({**common, "client.id": "shop", "linger.ms": 5, "enable.idempotence": True})
    for number in range(RECORDS):
        order = {"id": number, "customer": f"customer-{number % 7}", "total": number * 1.5, "lines": [{"sku": "A-1"}]}
        producer.produce(ORDERS, json.dumps(order), f"order-{number}", headers=[("trace", f"t-{number}")])
    for value in (SCRIPT, json.dumps({SCRIPT: [SCRIPT]}), SCRIPT.encode("utf-16"), None):
        producer.produce(HOSTILE, value, SCRIPT, headers=[(SCRIPT, SCRIPT), ("binary", b"\x00\xff")])
    assert producer.flush(60) == 0


@contextmanager
def _member(common: dict[str, str], group: str, client_id: str, topic: str) -> Iterator[None]:
    """A member of a group that has read once, and polls until the end."""
    is_over, has_read = threading.Event(), threading.Event()
    settings = {"group.id": group, "client.id": client_id, "auto.offset.reset": "earliest", "enable.auto.commit": False}

    def poll() -> None:
        with closing(Consumer({**common, **settings})) as consumer:
            consumer.subscribe([topic])
            while not is_over.is_set():
                record = consumer.poll(0.1)
                if record is not None and not record.error() and not has_read.is_set():
                    consumer.commit(message=record, asynchronous=False)
                    has_read.set()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        until(lambda: has_read.is_set() or not thread.is_alive(), f"a member of {group}")
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def _open_transaction(common: dict[str, str], transactional_id: str, topic: str) -> Iterator[None]:
    """A transaction with one record; it is aborted at the end, or by the broker before, once its timeout is over."""
    producer = Producer({**common, "transactional.id": transactional_id, "client.id": "payer", **_LASTING})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"pending", b"key")
    producer.flush(60)
    yield
    with suppress(KafkaException):
        producer.abort_transaction(60)
