"""kafka-python 3, in this process."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from compat_tests.families.family import Family, FromOffset, FromStart, FromTime, Gathered, Start, Tail
from compat_tests.harness import toolchain
from compat_tests.harness.records import Received, Sent, Traits

with warnings.catch_warnings():
    # It reads its message definitions in a way that Python 3.11 deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.net.sasl.oauth import AbstractTokenProvider


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Always the same token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


class KafkaPython(Family):
    name = "kafka-python"
    traits = Traits(null_headers=False)
    # A busy machine may begin with a batch of a few short ones
    uncompressed_records = 3

    def check(self) -> None:
        for codec in ("snappy", "lz4", "zstandard"):
            toolchain.module(codec, "pip install kafka-python[snappy,lz4,zstd]")

    def settings(self) -> dict[str, Any]:
        if self.security is None:
            return {}
        settings, login = self.security.of_kafka_python(), self.security.login
        if login is not None and login.mechanism == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = Tokens(login.bearer)
        return settings

    def produce(self, bootstrap: str, topic: str, records: Iterable[Sent], codec: str) -> None:
        compression = None if codec == "none" else codec
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=compression,
            linger_ms=5,
            enable_idempotence=True,
            **self.settings(),
        )
        try:
            sent = [
                producer.send(topic, one.value, one.key, list(one.headers), one.partition, one.timestamp_ms)
                for one in records
            ]
            producer.flush(60)
            failures = [future.exception for future in sent if not future.succeeded()]
            assert not failures, failures[:3]
        finally:
            producer.close(10)

    def consume(self, bootstrap: str, topic: str, start: Start, limits: Mapping[int, int]) -> list[Received]:
        gathered = Gathered(limits)
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="none", **self.settings()
        )
        try:
            partitions = [TopicPartition(topic, partition) for partition in limits]
            consumer.assign(partitions)
            seek(consumer, partitions, start)
            while gathered.is_waiting():
                for messages in consumer.poll(200, 2000).values():
                    for one in messages:
                        headers = tuple(map(tuple, one.headers))
                        gathered.add(Received(one.partition, one.offset, one.timestamp, one.key, one.value, headers))
        finally:
            consumer.close()
        return gathered.records

    def tail(self, bootstrap: str, topic: str) -> Tail:
        def run(tail: Tail) -> None:
            consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **self.settings())
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek_to_end(partition)
            consumer.position(partition)
            consumer.poll(200)
            tail.is_parked.set()
            while not tail.is_closing.is_set():
                for message in consumer.poll(200).get(partition, ()):
                    tail.arrived(message.value)
            consumer.close()

        return Tail(run)


def seek(consumer: KafkaConsumer, partitions: list[TopicPartition], start: Start) -> None:
    match start:
        case FromStart():
            consumer.seek_to_beginning(*partitions)
        case FromOffset(offsets):
            for one in partitions:
                consumer.seek(one, offsets[one.partition])
        case FromTime(timestamp_ms):
            for one, found in consumer.offsets_for_times(dict.fromkeys(partitions, timestamp_ms)).items():
                if found is None:
                    consumer.seek_to_end(one)
                else:
                    consumer.seek(one, found.offset)
