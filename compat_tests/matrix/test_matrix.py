"""Named clients of every age: each writes, reads, reads in a group, and exchanges records with the newest ones.

A row is in `matrix/rows/`; `-k "sarama"` takes those of one client. Every row speaks through a proxy that notes which
APIs and versions it was answered.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from compat_tests.conftest import RECORDED_SETTINGS, checked
from compat_tests.families import Family
from compat_tests.families.family import FromStart
from compat_tests.groups.committed import committed_offsets
from compat_tests.harness.broker import TARGET, running
from compat_tests.harness.proxy import Proxy
from compat_tests.harness.records import Received, Sent, Traits, by_partition
from compat_tests.harness.stored import CODECS
from compat_tests.harness.topics import new_topic
from compat_tests.matrix.carried import assert_carried, partitions_of, records_of
from compat_tests.matrix.client import MODERN, Abilities, Client
from compat_tests.matrix.markers import commit_batches
from compat_tests.matrix.rows import OLDEST, ROWS
from compat_tests.zookeeper.recorded_offsets import offsets_in_zookeeper

COUNTS = {"none": 100, "gzip": 100}
OF_EACH_CODEC = 20
WRITTEN_LATER = 10
# Both are the newest of their kind, and compress in their own way
NEWEST = ("java-4.4", "confluent-kafka")


class Row(NamedTuple):
    """A client of the matrix, and the proxy through which it speaks."""

    client: Client
    proxy: Proxy
    zookeeper: str = ""

    @property
    def abilities(self) -> Abilities:
        return self.client.abilities

    def new_topic(self) -> str:
        return new_topic(self.proxy.target, partitions_of(self.abilities))

    def produce(self, topic: str) -> list[Sent]:
        """100 records plain, 100 with gzip, some with each other codec that it has."""
        batches: dict[str, list[Sent]] = {}
        for codec in self.abilities.writes:
            batches[codec] = records_of(self.abilities, COUNTS.get(codec, OF_EACH_CODEC), seed=len(batches))
        return self.produce_each(topic, batches)

    def produce_each(self, topic: str, batches: dict[str, list[Sent]]) -> list[Sent]:
        with self.proxy.recording(self.client.name):
            self.client.produce_each(self.proxy.bootstrap, topic, batches)
        return [record for records in batches.values() for record in records]

    def read(self, topic: str, count: int) -> list[Received]:
        with self.proxy.recording(self.client.name):
            return self.client.read(self.proxy.bootstrap, topic, count)

    def read_in_group(self, topic: str, group: str, count: int) -> list[Received]:
        with self.proxy.recording(self.client.name):
            return self.client.read_in_group(self.proxy.bootstrap, topic, group, count, self.zookeeper)

    def committed(self, topic: str, group: str) -> dict[int, int]:
        if not self.client.commits_to_zookeeper:
            return committed_offsets(self.proxy.target, group, topic)
        return offsets_in_zookeeper(self.proxy.target, group, topic, range(partitions_of(self.abilities)))


@pytest.fixture(params=[pytest.param(client, id=client.name.replace(" ", "-")) for client in ROWS])
def row(request: pytest.FixtureRequest) -> Row:
    """Each client in turn; one that is not on this machine ends its tests by name."""
    client: Client = request.param
    client.command()
    if client.needs_zookeeper:
        return Row(client, *request.getfixturevalue("old_proxy"))
    return Row(client, request.getfixturevalue("proxy"))


@pytest.fixture(scope="session")
def newest(drivers: dict[str, Family]) -> list[Family]:
    return [checked(drivers[name]) for name in NEWEST]


class Written(NamedTuple):
    """A topic of the newest clients, what they sent, and the offsets that it has in each partition."""

    topic: str
    sent: list[Sent]
    offsets: dict[int, list[int]]


class Shelf:
    """Topics that the newest clients wrote, one for each choice of what is in them."""

    def __init__(self, bootstrap: str, writers: list[Family]) -> None:
        self.bootstrap = bootstrap
        self.writers = writers
        self.written: dict[tuple[tuple[str, ...], bool], Written] = {}

    def for_reader(self, reader: Abilities) -> Written:
        """Headgate sends each client a codec that it can read, if it can read any; Kafka does not.

        A header without a value ends kafka-python before 2.0, which takes its length.
        """
        codecs = CODECS if TARGET == "headgate" and "gzip" in reader.reads else reader.reads
        null_headers = reader.traits.null_headers
        if (codecs, null_headers) not in self.written:
            self.written[codecs, null_headers] = self.write(codecs, Abilities(traits=Traits(null_headers=null_headers)))
        return self.written[codecs, null_headers]

    def write(self, codecs: tuple[str, ...], abilities: Abilities) -> Written:
        topic = new_topic(self.bootstrap, partitions_of(abilities))
        sent: list[Sent] = []
        for writer in self.writers:
            for codec in codecs:
                sent += (records := records_of(abilities, OF_EACH_CODEC, seed=len(sent)))
                writer.produce(self.bootstrap, topic, records, codec)
        return Written(topic, sent, {partition: list(range(end)) for partition, end in ends_of(sent).items()})


@pytest.fixture(scope="session")
def shelves(newest: list[Family]) -> Callable[[str], Shelf]:
    """A shelf for each broker."""
    return functools.cache(lambda bootstrap: Shelf(bootstrap, newest))


def test_each_writes_and_reads(row: Row, newest: list[Family]) -> None:
    """Another process of it reads what one wrote, one reads it in a group, whose commit the broker tells us.

    So do the newest.
    """
    topic, began_ms = row.new_topic(), now_ms()
    sent = row.produce(topic)
    assert_carried(sent, row.read(topic, len(sent)), row.abilities, row.abilities, began_ms)
    if row.abilities.groups:
        group = f"{topic}-group"
        found = row.read_in_group(topic, group, len(sent))
        assert_carried(sent, found, row.abilities, row.abilities, began_ms)
        assert row.committed(topic, group) == ends_of(sent)
        sent += assert_goes_on(row, topic, group, ends_of(sent), began_ms)
    for reader in newest:
        found = reader.consume(row.proxy.target, topic, FromStart(), ends_of(sent))
        assert_carried(sent, found, row.abilities, MODERN, began_ms)


def assert_goes_on(row: Row, topic: str, group: str, committed: dict[int, int], began_ms: int) -> list[Sent]:
    """A process of the group that comes later reads what was written since its commit, and nothing else; returns it."""
    later = row.produce_each(topic, {"none": records_of(row.abilities, WRITTEN_LATER, seed=99)})
    found = row.read_in_group(topic, group, len(later))
    if row.abilities.shows_places:
        found = [record._replace(offset=record.offset - committed[record.partition]) for record in found]
    assert_carried(later, found, row.abilities, row.abilities, began_ms)
    return later


def test_it_reads_what_the_newest_wrote(row: Row, shelves: Callable[[str], Shelf]) -> None:
    """With headers and every codec."""
    written = shelves(row.proxy.target).for_reader(row.abilities)
    assert_carried(written.sent, row.read(written.topic, len(written.sent)), MODERN, row.abilities, 0)


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory, newest: list[Family]) -> Iterator[Shelf]:
    """Topics that the newest wrote, and in which control batches lie between all others."""
    with running(tmp_path_factory.mktemp("committed"), RECORDED_SETTINGS) as broker:
        shelf = Shelf(broker.bootstrap, newest)
        for client in OLDEST:
            shelf.for_reader(client.abilities)
        broker.stop()
        for written in shelf.written.values():
            for partition in written.offsets:
                directory = broker.partition_directory(written.topic, partition)
                written.offsets[partition] = commit_batches(broker.data, directory)
        broker.start()
        yield shelf


@pytest.mark.skipif(TARGET != "headgate", reason="Kafka sends old clients codecs that they do not have")
@pytest.mark.parametrize("client", OLDEST, ids=[client.name.replace(" ", "-") for client in OLDEST])
def test_the_oldest_of_each_family_pass_over_control_batches(client: Client, committed: Shelf) -> None:
    """They are not shown what they would take for records, and not stopped by many; the others keep their offsets."""
    client.command()
    written = committed.for_reader(client.abilities)
    found = client.read(committed.bootstrap, written.topic, len(written.sent))
    if client.abilities.shows_places:
        offsets = {one: [record.offset for record in records] for one, records in by_partition(found).items()}
        assert offsets == written.offsets
        found = [record._replace(offset=offsets[record.partition].index(record.offset)) for record in found]
    assert_carried(written.sent, found, MODERN, client.abilities, 0)


def ends_of(sent: list[Sent]) -> dict[int, int]:
    """The next offset of each partition."""
    partitions = [record.partition or 0 for record in sent]
    return {partition: partitions.count(partition) for partition in sorted(set(partitions))}


def now_ms() -> int:
    return int(time.time() * 1000)
