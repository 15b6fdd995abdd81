"""Batches with lying headers beside real clients; HEADGATE_COMPAT_TARGET=kafka and kafka39 show what Kafka answers."""

from __future__ import annotations

import time

import lz4.frame
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from compat_tests.harness.broker import TARGET, Broker
from compat_tests.harness.topics import new_topic
from compat_tests.hostile.claimed_times import claiming, of_records, produce

LIMIT_S = 30
LZ4 = 3
INVALID_TIMESTAMP, INVALID_RECORD, UNKNOWN_SERVER_ERROR = 32, 87, -1
DAY_MS = 86_400_000


@pytest.mark.parametrize("claim", ["-1", "base", "too late"])
def test_times_find_their_records_whatever_headers_claim(broker: Broker, claim: str) -> None:
    """Kafka 3.9 and 4.1: 450 and 999."""
    topic, start = new_topic(broker.bootstrap, 1), int(time.time() * 1000) - DAY_MS
    for first in range(start, start + 1_000, 100):
        header = {"-1": -1, "base": first, "too late": start + 10 * DAY_MS}[claim]
        assert produce(broker.bootstrap, topic, claiming(header, range(first, first + 100))) == 0
    with Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "times"}) as consumer:
        found = consumer.offsets_for_times([TopicPartition(topic, 0, start + 450)], LIMIT_S)
    assert [one.offset for one in found] == [450]
    admin, partition = AdminClient({"bootstrap.servers": broker.bootstrap}), TopicPartition(topic, 0)
    newest = admin.list_offsets({partition: OffsetSpec.max_timestamp()})[partition].result(LIMIT_S)  # type: ignore[no-untyped-call]
    assert (newest.offset, newest.timestamp) == (999, start + 999)


def test_records_ahead_of_time_are_refused_whatever_headers_claim(broker: Broker) -> None:
    limit = {"message.timestamp.after.max.ms": "3600000"}  # the default since Kafka 4.0
    topic, now_ms = new_topic(broker.bootstrap, 1, limit), int(time.time() * 1000)
    ahead = claiming(-1, [now_ms, now_ms + 10 * DAY_MS])
    assert produce(broker.bootstrap, topic, ahead) == INVALID_TIMESTAMP
    assert produce(broker.bootstrap, topic, claiming(now_ms + 10 * DAY_MS, [now_ms])) == 0


def test_linked_blocks_of_lz4_are_refused(broker: Broker) -> None:
    """Kafka 3.9 and 4.1: UNKNOWN_SERVER_ERROR."""
    topic, now_ms = new_topic(broker.bootstrap, 1), int(time.time() * 1000)
    records = claiming(now_ms, [now_ms] * 20_000)[61:]
    for is_linked, code in ((True, INVALID_RECORD if TARGET == "headgate" else UNKNOWN_SERVER_ERROR), (False, 0)):
        content = lz4.frame.compress(records, block_linked=is_linked)
        assert produce(broker.bootstrap, topic, of_records(content, 20_000, now_ms, now_ms, LZ4)) == code
