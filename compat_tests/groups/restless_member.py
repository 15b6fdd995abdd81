"""A member of confluent-kafka that reads a record, commits that, and so on, and after a moment leaves and joins anew.

    {"owned": [0, 2], "committed": {"0": 8}}   many times a second: what is assigned to it now, and the offsets whose
                                               commit was answered without an error since the line before

Told to `stay`, it leaves no more; at the end of its input it leaves, and ends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from compat_tests.groups.lines import SERVER

SHORTEST_S, LONGEST_S = 0.3, 1.5
PAUSE_S = 0.02
SESSION_MS = 2_000
REBALANCE_MS = 6_000

stays, closes = threading.Event(), threading.Event()


def listen() -> None:
    for _ in sys.stdin:
        stays.set()
    closes.set()


def settings(options: argparse.Namespace) -> dict[str, str | int | bool]:
    found: dict[str, str | int | bool] = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "max.poll.interval.ms": REBALANCE_MS,
        "reconnect.backoff.max.ms": 200,
        "socket.timeout.ms": 5_000,
        "log_level": 2,
    }
    if options.assignor == SERVER:
        return {**found, "group.protocol": "consumer"}
    return {
        **found,
        "partition.assignment.strategy": options.assignor,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": 200,
    }


def be_member(consumer: Consumer, topic: str, seconds: float) -> None:
    consumer.subscribe([topic])
    until = time.monotonic() + seconds
    while not closes.is_set() and (stays.is_set() or time.monotonic() < until):
        say([one.partition for one in consumer.assignment()], read(consumer, topic))


def read(consumer: Consumer, topic: str) -> dict[int, int]:
    """Read a record and commit it; what was committed."""
    message = consumer.poll(PAUSE_S)
    if message is None:
        return {}
    error, partition, offset = message.error(), message.partition(), message.offset()
    if error is not None:
        if error.fatal():
            raise KafkaException(error)
        return {}
    assert partition is not None
    assert offset is not None
    time.sleep(PAUSE_S)
    with contextlib.suppress(KafkaException):  # another owns it by now, or the broker is away
        committed = consumer.commit(offsets=[TopicPartition(topic, partition, offset + 1)], asynchronous=False) or []
        return {one.partition: one.offset for one in committed if one.error is None}
    return {}


def say(owned: list[int], committed: dict[int, int]) -> None:
    sys.stdout.write(json.dumps({"owned": owned, "committed": committed}) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic", "group", "assignor", "seed"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    threading.Thread(target=listen, daemon=True).start()
    while not closes.is_set():
        consumer = Consumer(settings(options))
        be_member(consumer, options.topic, chance.uniform(SHORTEST_S, LONGEST_S))
        say([], {})
        consumer.close()
    os._exit(0)


if __name__ == "__main__":
    main()
