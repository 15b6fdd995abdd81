"""A producer that lost an answer sends the batch again: each of the last five is recognised, also after a restart.

The batches are taken from the segment file, where a stock idempotent client put them, and sent again with the base
offset 0 that a client gives: what a broker sets in a batch is outside of its checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from compat_tests.harness import wire
from compat_tests.harness.broker import TARGET, Broker
from compat_tests.harness.stored import Batch, batches

# Batches that a producer may have in flight, and so may send again (KIP-98)
WINDOW = 5
# Of what is older: known after all, OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER
NOT_WRITTEN = (0, 45, 46)


def produce_batches(bootstrap: str, topic: str, count: int) -> None:
    """So many records to partition 0, a batch each."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 2})
    for number in range(count):
        producer.produce(topic, b"batch %d" % number, partition=0)
        assert producer.flush(60) == 0


def send_again(broker: Broker, topic: str, batch: Batch) -> tuple[int, int]:
    """Produce v3 of a stored batch; the error code and the base offset of the answer."""
    path = broker.partition_directory(topic, 0) / f"{batch.segment:020}.log"
    data = bytes(8) + path.read_bytes()[batch.position + 8 : batch.position + batch.size]
    head = struct.pack(">hhii", -1, -1, 10_000, 1) + wire.string(topic)
    body = head + struct.pack(">iii", 1, 0, len(data)) + data
    with wire.connect(broker.bootstrap, 60) as stream:
        answer = wire.ask(stream, wire.PRODUCE, 3, body)
    start = len(struct.pack(">i", 1) + wire.string(topic) + struct.pack(">ii", 1, 0))
    error, offset = struct.unpack_from(">hq", answer, start)
    return error, offset


def nothing(broker: Broker) -> None:
    pass


def stop_and_start(broker: Broker) -> None:
    broker.restart()


def kill_and_start(broker: Broker) -> None:
    broker.kill()
    broker.start()


@pytest.mark.parametrize("meanwhile", [nothing, stop_and_start, kill_and_start])
def test_the_last_five_batches_are_recognised(
    broker: Broker, topic: Callable[..., str], meanwhile: Callable[[Broker], None]
) -> None:
    name = topic(1)
    produce_batches(broker.bootstrap, name, 2 * WINDOW)
    written = batches(broker.partition_directory(name, 0))
    assert len(written) == 2 * WINDOW
    meanwhile(broker)
    # Apache Kafka's snapshot of a producer has room for one
    remembered = WINDOW if TARGET == "headgate" or meanwhile is nothing else 1
    for batch in written[-remembered:]:
        assert send_again(broker, name, batch) == (0, batch.base_offset)
    error, _ = send_again(broker, name, written[0])
    assert error in NOT_WRITTEN
    assert batches(broker.partition_directory(name, 0)) == written, "something was written again"
