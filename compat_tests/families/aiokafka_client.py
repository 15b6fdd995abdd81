"""aiokafka, on an event loop of its own in this process."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider

from compat_tests.families.family import (
    CONSUME_LIMIT_S,
    Family,
    FromOffset,
    FromStart,
    FromTime,
    Gathered,
    Start,
    Tail,
)
from compat_tests.harness.records import Received, Sent
from compat_tests.security.client_security import Security

CHUNK = 200


class Aiokafka(Family):
    name = "aiokafka"

    def check(self) -> None:
        """Imported above: these tests require it."""

    def produce(self, bootstrap: str, topic: str, records: Iterable[Sent], codec: str) -> None:
        asyncio.run(produce(bootstrap, topic, records, None if codec == "none" else codec, settings(self.security)))

    def consume(self, bootstrap: str, topic: str, start: Start, limits: Mapping[int, int]) -> list[Received]:
        return asyncio.run(consume(bootstrap, topic, start, limits, settings(self.security)))

    def tail(self, bootstrap: str, topic: str) -> Tail:
        return Tail(lambda tail: asyncio.run(follow(bootstrap, topic, tail, settings(self.security))))


def settings(security: Security | None) -> dict[str, Any]:
    if security is None:
        return {}
    files = security.pem()
    context = ssl.create_default_context(cafile=files["ca"])
    if security.certificate:
        context.load_cert_chain(files["certificate"], files["key"])
    login = security.login
    if login is None:
        return {"security_protocol": "SSL", "ssl_context": context}
    more = {"sasl_oauth_token_provider": Tokens(login.bearer)} if login.mechanism == "OAUTHBEARER" else {}
    return {**security.of_python_login(login), "ssl_context": context, **more}


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Always the same token."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


async def produce(
    bootstrap: str, topic: str, records: Iterable[Sent], codec: str | None, more: Mapping[str, Any]
) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5, enable_idempotence=True, **more
    )
    try:
        await producer.start()
        pending: list[asyncio.Future[object]] = []
        source = iter(records)
        # The source may take its time (a broker restarts meanwhile): it must not hold up the client's loop
        while chunk := await asyncio.to_thread(lambda: list(itertools.islice(source, CHUNK))):
            for one in chunk:
                headers = list(one.headers)
                sent = await producer.send(topic, one.value, one.key, one.partition, one.timestamp_ms, headers)
                pending.append(sent)
        await asyncio.gather(*pending)
    finally:
        await producer.stop()


async def consume(
    bootstrap: str, topic: str, start: Start, limits: Mapping[int, int], more: Mapping[str, Any]
) -> list[Received]:
    gathered = Gathered(limits)
    usual = {"bootstrap_servers": bootstrap, "enable_auto_commit": False, "auto_offset_reset": "none"}
    consumer = AIOKafkaConsumer(**usual, **more)
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, partition) for partition in limits]
        consumer.assign(partitions)
        await asyncio.wait_for(seek(consumer, partitions, start), CONSUME_LIMIT_S)
        while gathered.is_waiting():
            for messages in (await consumer.getmany(timeout_ms=200, max_records=2000)).values():
                for one in messages:
                    gathered.add(
                        Received(one.partition, one.offset, one.timestamp, one.key, one.value, tuple(one.headers))
                    )
    finally:
        await consumer.stop()
    return gathered.records


async def seek(consumer: AIOKafkaConsumer, partitions: list[TopicPartition], start: Start) -> None:
    match start:
        case FromStart():
            await consumer.seek_to_beginning(*partitions)
        case FromOffset(offsets):
            for one in partitions:
                consumer.seek(one, offsets[one.partition])
        case FromTime(timestamp_ms):
            for one, found in (await consumer.offsets_for_times(dict.fromkeys(partitions, timestamp_ms))).items():
                if found is None:
                    await consumer.seek_to_end(one)
                else:
                    consumer.seek(one, found.offset)


async def follow(bootstrap: str, topic: str, tail: Tail, more: Mapping[str, Any]) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **more)
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_end(partition)
        await consumer.position(partition)
        await consumer.getmany(timeout_ms=200)
        tail.is_parked.set()
        while not tail.is_closing.is_set():
            for message in (await consumer.getmany(timeout_ms=200)).get(partition, ()):
                tail.arrived(message.value)
    finally:
        await consumer.stop()
