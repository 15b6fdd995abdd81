"""Kafka Streams counts words exactly once, across SIGKILLs of the broker and of Streams itself.

Every count that Streams writes has to be one more than the last of its word: a word that was lost, counted twice, or
written again by a transaction that should have been aborted, leaves a gap or a repetition.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from compat_tests.families.confluent import new_consumer
from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import TOOL_OPTIONS
from compat_tests.harness.broker import Broker, running
from compat_tests.harness.soak import SOAK
from compat_tests.harness.stored import batches
from compat_tests.harness.topics import new_topic
from compat_tests.harness.waiting import until

ROUNDS = 10 if SOAK else 1
LINES_A_KILL = 1_500
WORDS_A_LINE = 4
WORDS = [f"word-{number}" for number in range(50)]
PARTITIONS = 2
LIMIT_S = 120.0
CONTROL = 0x20
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
# A killed Streams is missed for so long, and its transactions hold up readers
STREAMS = (
    "commit.interval.ms=100",
    "consumer.session.timeout.ms=4000",
    "consumer.heartbeat.interval.ms=500",
    "producer.transaction.timeout.ms=5000",
)


class Streams:
    """The program java/streams/src/WordCount.java in a process."""

    def __init__(self, bootstrap: str, source: str, sink: str, directory: Path) -> None:
        directory.mkdir()
        self.errors = directory / "stderr.log"
        java = [toolchain.program("java", "install a JDK"), "-Xmx256m", *TOOL_OPTIONS[1:]]
        logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        program = ["-cp", toolchain.compiled_java("streams"), "WordCount"]
        command = [*java, logging, *program, bootstrap, source, sink, str(directory / "state"), *STREAMS]
        pipe = subprocess.PIPE
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors)

    def wait_until_running(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"running\n", self.said()

    def said(self) -> str:
        return self.errors.read_text(errors="replace")[-5000:]

    def kill(self) -> None:
        self.process.kill()
        self.process.__exit__(None, None, None)

    def stop(self) -> None:
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()
        assert self.process.returncode == 0, self.said()


class Writer:
    """Writes lines of random words, some each millisecond, for the length of a with-block; counts its words."""

    def __init__(self, bootstrap: str, topic: str, lines: int) -> None:
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 2})
        self.topic = topic
        self.lines = lines
        self.written: Counter[str] = Counter()
        self.failures: list[KafkaError] = []
        self.is_ending = threading.Event()
        self.thread = threading.Thread(target=self.run, name="writer", daemon=True)

    def run(self) -> None:
        chance = random.Random(1)
        for number in range(self.lines):
            words = chance.choices(WORDS, k=WORDS_A_LINE)
            self.written.update(words)
            line = " ".join(words).encode()
            self.producer.produce(self.topic, line, partition=number % PARTITIONS, on_delivery=self.delivered)
            self.producer.poll(0.002)
            if self.is_ending.is_set():
                return

    def delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failures.append(error)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_ending.set()
        self.thread.join()

    def finish(self) -> None:
        """Wait until all is written and acknowledged."""
        self.thread.join(LIMIT_S)
        assert self.producer.flush(60) == 0
        assert not self.failures, self.failures[:3]


class Reader:
    """Reads committed counts from the beginning."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {"isolation.level": "read_committed", "enable.partition.eof": True}
        self.consumer: Consumer = new_consumer(bootstrap, settings)
        self.consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        self.counts: dict[str, list[int]] = defaultdict(list)
        self.at_end: set[int] = set()
        self.seen = 0

    def read(self) -> None:
        """Take what there is by now."""
        for message in self.consumer.consume(1000, 0.05):
            partition = message.partition()
            assert partition is not None
            if error := message.error():
                assert error.code() == KafkaError._PARTITION_EOF, error  # noqa: SLF001  its documented name
                self.at_end.add(partition)
                continue
            self.at_end.discard(partition)
            self.counts[(message.key() or b"").decode()].append(int.from_bytes(message.value() or b"", "big"))
            self.seen += 1

    def has_seen(self, count: int) -> bool:
        self.read()
        return self.seen >= count

    def is_at_end(self) -> bool:
        self.read()
        return len(self.at_end) == PARTITIONS


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running(tmp_path / "broker", SETTINGS) as broker:
        yield broker


def test_words_are_counted_once(broker: Broker, tmp_path: Path, figure: Callable[[str], None]) -> None:
    source, sink = (new_topic(broker.bootstrap, PARTITIONS) for _ in range(2))
    began = time.monotonic()
    streams = Streams(broker.bootstrap, source, sink, tmp_path / "streams-0")
    try:
        streams.wait_until_running()
        reader = Reader(broker.bootstrap, sink)
        with Writer(broker.bootstrap, source, 2 * ROUNDS * LINES_A_KILL) as writer:
            for number in range(ROUNDS):
                wait_for_progress(reader, streams, number)
                broker.kill()
                broker.start()
                wait_for_progress(reader, streams, number)
                streams.kill()
                streams = Streams(broker.bootstrap, source, sink, tmp_path / f"streams-{number + 1}")
            writer.finish()
        wait_for(reader, writer.written.total(), streams)
        streams.stop()
    finally:
        streams.kill()
    reader.consumer.close()
    assert_counts(broker, sink, writer.written)
    took_s = time.monotonic() - began
    figure(f"streams: {writer.written.total()} words counted across {2 * ROUNDS} kills in {took_s:.0f} s")


def wait_for_progress(reader: Reader, streams: Streams, seed: int) -> None:
    """Until many more counts are committed; then for a moment, so that the kill comes at any point of a transaction."""
    wait_for(reader, reader.seen + LINES_A_KILL * WORDS_A_LINE // 3, streams)
    time.sleep(random.Random(seed).uniform(0, 0.2))


def wait_for(reader: Reader, count: int, streams: Streams) -> None:
    try:
        until(lambda: reader.has_seen(count), f"{count} counts", LIMIT_S)
    except AssertionError as late:
        raise AssertionError(f"{late}, {reader.seen} came: {streams.said()}") from None


def assert_counts(broker: Broker, sink: str, written: Counter[str]) -> None:
    """From one on, in order, up to the last; and the output really is in transactions."""
    reader = Reader(broker.bootstrap, sink)
    until(reader.is_at_end, f"the end of {sink}", LIMIT_S)
    reader.consumer.close()
    assert reader.counts.keys() == written.keys()
    for word, counts in reader.counts.items():
        assert counts == list(range(1, written[word] + 1)), word
    for partition in range(PARTITIONS):
        stored = batches(broker.partition_directory(sink, partition))
        assert any(batch.attributes & CONTROL for batch in stored)
