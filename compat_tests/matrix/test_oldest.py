"""The oldest client of each family where a hundred records show little: sets in many pieces, a long poll.

And the oldest that reads batches, where the broker itself compressed them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import pytest

from compat_tests.conftest import RECORDED_SETTINGS
from compat_tests.families.confluent import Confluent
from compat_tests.families.family import FromStart
from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.proxy import Proxy
from compat_tests.harness.records import Sent, Traits
from compat_tests.harness.stored import CODECS, batches
from compat_tests.harness.topics import new_topic, set_config
from compat_tests.harness.waiting import until
from compat_tests.matrix.carried import assert_carried, records_of
from compat_tests.matrix.client import MODERN, Abilities, Client
from compat_tests.matrix.rows import OLDEST, ROWS

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="Kafka pads the sets that it converts")

FETCH: Final = 1
# Those that are sent message sets
CLIENTS: Final = [client for client in OLDEST if not client.abilities.shows_headers]
OF_BATCHES: Final = tuple({row.family: row for row in reversed(ROWS) if row.abilities.shows_headers}.values())
OF_EACH_CODEC: Final = 1000
OF_EACH_BATCH: Final = 20
# More than sarama fetches of a partition at first; with 64 KiB others would be stuck for ever
LARGE_BYTES: Final = 40_000


class Shared(NamedTuple):
    """A topic of one partition that the newest client wrote."""

    topic: str
    sent: list[Sent]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One whose groups begin at once: kafkajs reads in no other way."""
    with running(tmp_path_factory.mktemp("oldest"), RECORDED_SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="module")
def shared(broker: Broker) -> dict[tuple[str, ...], Shared]:
    """One with every codec, one without any: batches of more than old clients fetch at once."""
    return {codecs: write(broker.bootstrap, codecs) for codecs in (CODECS, ("none",))}


def write(bootstrap: str, codecs: Sequence[str]) -> Shared:
    topic, sent = new_topic(bootstrap, 1), list[Sent]()
    for codec in codecs:
        sent += (records := many(MODERN, seed=len(sent)))
        Confluent().produce(bootstrap, topic, records, codec)
    return Shared(topic, sent)


def many(writer: Abilities, seed: int) -> list[Sent]:
    """Records of one partition, a large one among them."""
    records = [record._replace(partition=0) for record in records_of(writer, OF_EACH_CODEC, seed)]
    middle = OF_EACH_CODEC // 2
    records[middle] = records[middle]._replace(value=random.Random(seed).randbytes(LARGE_BYTES))
    return records


@pytest.fixture(params=CLIENTS, ids=[client.name.replace(" ", "-") for client in CLIENTS])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    found.command()
    return found


@pytest.mark.soak
def test_it_writes_many(client: Client, broker: Broker) -> None:
    """With each of its codecs: requests and sets as large as it makes them."""
    topic = new_topic(broker.bootstrap, 1)
    written = {codec: many(client.abilities, seed) for seed, codec in enumerate(client.abilities.writes)}
    client.produce_each(broker.bootstrap, topic, written)
    sent = [record for records in written.values() for record in records]
    found = Confluent().consume(broker.bootstrap, topic, FromStart(), {0: len(sent)})
    assert_carried(sent, found, client.abilities, MODERN, 0)


def test_it_reads_many_in_pieces(client: Client, broker: Broker, shared: dict[tuple[str, ...], Shared]) -> None:
    """From the middle of batches on, up to where a message is cut."""
    topic, sent = shared[CODECS if "gzip" in client.abilities.reads else ("none",)]
    assert_carried(sent, client.read(broker.bootstrap, topic, len(sent)), MODERN, client.abilities, 0)


def test_what_comes_later_reaches_it(client: Client, proxy: Proxy) -> None:
    """A record that was not there when it asked, and another one."""
    topic = new_topic(proxy.target, 1)
    first, second, third = (record._replace(partition=0) for record in records_of(MODERN, 3))
    Confluent().produce(proxy.target, topic, [first], "lz4" if "gzip" in client.abilities.reads else "none")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(client.read, proxy.bootstrap, topic, 3)
        for record in (second, third):
            until(lambda: proxy.is_parked(FETCH) or reading.done(), f"{client.name} to wait for records")
            assert not reading.done(), reading.result()
            Confluent().produce(proxy.target, topic, [record], "none")
        found = reading.result()
    assert_carried([first, second, third], found, MODERN, client.abilities, 0)


@pytest.fixture(scope="module")
def recompressed(broker: Broker) -> Shared:
    """A topic whose codec was another one with each batch that came, all of them plain."""
    topic, sent = new_topic(broker.bootstrap, 1), list[Sent]()
    for codec in CODECS[1:]:
        set_config(broker.bootstrap, topic, "compression.type", codec)
        records = records_of(Abilities(traits=Traits(null_headers=False)), OF_EACH_BATCH, seed=len(sent))
        sent += (records := [record._replace(partition=0) for record in records])
        Confluent().produce(broker.bootstrap, topic, records, "none")
    assert {batch.codec for batch in batches(broker.partition_directory(topic, 0))} == set(CODECS[1:])
    return Shared(topic, sent)


@pytest.mark.parametrize("client", OF_BATCHES, ids=[client.name.replace(" ", "-") for client in OF_BATCHES])
def test_it_reads_what_the_broker_compressed(client: Client, broker: Broker, recompressed: Shared) -> None:
    """In frames that the libraries of its time know: librdkafka 0.11 has an LZ4 that stops at checksums of blocks."""
    client.command()
    found = client.read(broker.bootstrap, recompressed.topic, len(recompressed.sent))
    assert_carried(recompressed.sent, found, MODERN, client.abilities, 0)
