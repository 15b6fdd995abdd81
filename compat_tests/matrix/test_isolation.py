"""The oldest client of each family reads a topic with aborted and open transactions, record by record.

Most cannot ask for what is committed: `headgate.fetch.isolation.default` of the topic says what they read. A client
that asks by itself reads the same under both values.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
from confluent_kafka import KafkaError, Message, Producer

from compat_tests.families.confluent import send
from compat_tests.harness.broker import TARGET
from compat_tests.harness.proxy import Proxy
from compat_tests.harness.records import Sent, Traits
from compat_tests.harness.topics import new_topic
from compat_tests.harness.waiting import until
from compat_tests.matrix.carried import assert_carried_at, records_of
from compat_tests.matrix.client import MODERN, Abilities, Client
from compat_tests.matrix.rows import OLDEST

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the setting is Headgate's")

FETCH: Final = 1
LIMIT_S: Final = 60
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
# What the oldest client of a family asks for by default, if it can
ASKED: Final = {"aiokafka": UNCOMMITTED, "kafkajs": COMMITTED}
# An aborted transaction of many batches, more than old clients fetch at once
MANY: Final = 300
FILLING: Final = bytes(1000)

Placed = list[tuple[int, Sent]]


class Writers:
    """Three transactional producers and a plain one of a topic of one partition; `written` has the offset of all."""

    def __init__(self, bootstrap: str, topic: str, reader: Abilities) -> None:
        self.topic = topic
        self.traits = Traits(null_headers=reader.traits.null_headers)
        self.written: Placed = []
        common = {
            "bootstrap.servers": bootstrap,
            "compression.type": "lz4" if "gzip" in reader.reads else "none",
            "linger.ms": 0,
            "batch.num.messages": 10,
        }
        self.plain = Producer(common)
        names = (f"{topic}-{number}" for number in range(3))
        self.first, self.second, self.third = (Producer({**common, "transactional.id": name}) for name in names)
        for producer in (self.first, self.second, self.third):
            producer.init_transactions(LIMIT_S)

    def write(self, producer: Producer, count: int, filling: bytes = b"") -> Placed:
        """So many records, which are stored when this returns; returns them with their offsets."""
        offsets: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            assert error is None, error
            assert offset is not None
            offsets.append(offset)

        records = [
            record._replace(partition=0, value=record.value and record.value + filling)
            for record in records_of(Abilities(traits=self.traits), count, seed=len(self.written))
        ]
        for record in records:
            send(producer, self.topic, record, delivered)
        assert producer.flush(LIMIT_S) == 0
        placed = list(zip(offsets, records, strict=True))
        self.written += placed
        return placed

    def end(self, producer: Producer, is_commit: bool) -> None:
        (producer.commit_transaction if is_commit else producer.abort_transaction)(LIMIT_S)

    def write_ended(self) -> Placed:
        """Plain records, and transactions that are over, of which two run beside each other; returns what counts."""
        counting = self.write(self.plain, 3)
        self.first.begin_transaction()
        counting += self.write(self.first, 20)
        self.end(self.first, is_commit=True)
        self.second.begin_transaction()
        self.write(self.second, MANY, FILLING)
        self.end(self.second, is_commit=False)
        self.first.begin_transaction()
        self.second.begin_transaction()
        for _ in range(2):
            counting += self.write(self.first, 5)
            self.write(self.second, 5)
        self.end(self.second, is_commit=False)
        counting += self.write(self.first, 5)
        self.end(self.first, is_commit=True)
        return counting + self.write(self.plain, 3)

    def write_open(self) -> Placed:
        """The first and the second producer open a transaction, of which the second one will be committed.

        What counts then is returned, also what is stored behind their records.
        """
        self.first.begin_transaction()
        self.write(self.first, 5)
        self.second.begin_transaction()
        counting = self.write(self.second, 5)
        self.third.begin_transaction()
        counting += self.write(self.third, 5)
        self.end(self.third, is_commit=True)
        return counting + self.write(self.plain, 3)


@pytest.mark.parametrize("isolation", [UNCOMMITTED, COMMITTED])
@pytest.mark.parametrize("client", OLDEST, ids=[client.name.replace(" ", "-") for client in OLDEST])
def test_it_reads_what_is_committed_or_all(client: Client, isolation: str, proxy: Proxy) -> None:
    """Nothing that was aborted, and nothing behind an open transaction until that is over; or all, at once."""
    client.command()
    topic = new_topic(proxy.target, 1, {"headgate.fetch.isolation.default": isolation})
    writers = Writers(proxy.target, topic, client.abilities)
    ended, later = writers.write_ended(), writers.write_open()
    if ASKED.get(client.family, isolation) == UNCOMMITTED:
        wanted, found = writers.written, client.read(proxy.bootstrap, topic, len(writers.written))
    else:
        wanted = ended + later
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(client.read, proxy.bootstrap, topic, len(wanted))
            until(lambda: proxy.is_parked(FETCH) or reading.done(), f"{client.name} to wait for records")
            assert not reading.done(), reading.result()
            # The records of the first one never count: whoever was shown them shows too much
            writers.end(writers.first, is_commit=False)
            writers.end(writers.second, is_commit=True)
            found = reading.result()
    assert_carried_at(wanted, found, MODERN, client.abilities)
