"""Every client family produces thousands of records with every codec and reads them back from everywhere.

All families offer all five codecs; one that does not would have it in its list of test ids as `not-offered`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from compat_tests.families import AsksOffsets, Family
from compat_tests.families.confluent import Confluent
from compat_tests.families.family import FromOffset, FromStart, FromTime
from compat_tests.families.json_lines import FranzGo, Program, Sarama
from compat_tests.families.restarting import restarting
from compat_tests.harness.broker import Broker
from compat_tests.harness.noise import Noise
from compat_tests.harness.records import Received, Traits, assert_equal, assert_same, by_partition, generate
from compat_tests.harness.soak import SOAK
from compat_tests.harness.stored import CODECS, Batch, batches
from compat_tests.harness.topics import delete_before

COUNT = 10_000 if SOAK else 3_000
PARTITIONS = 2


def stored_batches(broker: Broker, topic: str) -> dict[int, list[Batch]]:
    """What the files of each partition hold, whatever the broker says."""
    found: dict[int, list[Batch]] = {}
    while (directory := broker.partition_directory(topic, len(found))).exists():
        found[len(found)] = batches(directory)
    return found


def end_offsets(broker: Broker, topic: str) -> dict[int, int]:
    return {partition: found[-1].last_offset + 1 for partition, found in stored_batches(broker, topic).items()}


def stored_codecs(broker: Broker, topic: str, uncompressed_records: int) -> set[str]:
    """Of all batches, but for those that are both small and uncompressed."""
    found = [batch for partition in stored_batches(broker, topic).values() for batch in partition]
    return {one.codec for one in found if one.codec != "none" or one.records_count > uncompressed_records}


def middle(everything: Sequence[Received]) -> int:
    """A timestamp near the middle of what was read."""
    return sorted(record.timestamp_ms for record in everything)[len(everything) // 2]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_from_the_start_an_offset_and_a_time(
    broker: Broker, topic: Callable[..., str], family: Family, codec: str
) -> None:
    assert codec in family.codecs
    name = topic(family.partitions)
    sent = generate(COUNT, family.partitions, family.traits)
    began_ms = int(time.time() * 1000)
    family.produce(broker.bootstrap, name, sent, codec)

    assert stored_codecs(broker, name, family.uncompressed_records) == {codec}
    ends = end_offsets(broker, name)
    everything = family.consume(broker.bootstrap, name, FromStart(), ends)
    assert_same(sent, everything, began_ms)

    read_from_offset(broker, name, family, everything)
    read_from_time(broker, name, family, everything)


def read_from_offset(broker: Broker, name: str, family: Family, everything: Sequence[Received]) -> None:
    parts = by_partition(everything)
    first = {partition: len(records) * (partition + 1) // 3 + 7 for partition, records in parts.items()}
    limits = {partition: len(records) - first[partition] for partition, records in parts.items()}
    found = by_partition(family.consume(broker.bootstrap, name, FromOffset(first), limits))
    for partition, records in parts.items():
        assert_equal(records[first[partition] :], found[partition], f"partition {partition} from {first[partition]}")


def read_from_time(broker: Broker, name: str, family: Family, everything: Sequence[Received]) -> None:
    parts, timestamp_ms = by_partition(everything), middle(everything)
    expected = {partition: not_older(records, timestamp_ms) for partition, records in parts.items()}
    limits = {partition: len(records) for partition, records in expected.items()}
    assert 0 < sum(limits.values()) <= len(everything)
    found = by_partition(family.consume(broker.bootstrap, name, FromTime(timestamp_ms), limits))
    for partition, records in expected.items():
        assert_equal(records, found.get(partition, []), f"partition {partition} from time {timestamp_ms}")


def not_older(records: Sequence[Received], timestamp_ms: int) -> list[Received]:
    """What follows the first record that is not older, itself included; later ones may be older again."""
    first = next((index for index, record in enumerate(records) if record.timestamp_ms >= timestamp_ms), len(records))
    return list(records[first:])


@pytest.mark.parametrize("protocol", ["0.11.0.0", "1.1.0", "2.1.0", "2.4.0", "2.8.0", "3.9.0", "4.1.0"])
@pytest.mark.parametrize("kind", [FranzGo, Sarama], ids=["franz-go", "sarama"])
def test_the_protocol_of_older_clients(
    broker: Broker, topic: Callable[..., str], kind: type[Program], protocol: str
) -> None:
    """The same for clients that are told to speak as clients did when a version of Kafka came out."""
    family = kind(protocol)
    family.check()
    name = topic(PARTITIONS)
    sent = generate(COUNT // 10, PARTITIONS, family.traits)
    family.produce(broker.bootstrap, name, sent, "snappy")
    everything = family.consume(broker.bootstrap, name, FromStart(), end_offsets(broker, name))
    assert_same(sent, everything, 0)
    read_from_offset(broker, name, family, everything)
    read_from_time(broker, name, family, everything)


def test_offsets(broker: Broker, topic: Callable[..., str], asking: AsksOffsets) -> None:
    """The first and the next offset of each partition, before and after records were deleted, and that of a time."""
    name = topic(PARTITIONS)
    Confluent().produce(broker.bootstrap, name, generate(COUNT // 10, PARTITIONS, Traits()), "lz4")
    ends = end_offsets(broker, name)
    parts = by_partition(Confluent().consume(broker.bootstrap, name, FromStart(), ends))
    assert asking.offsets(broker.bootstrap, name, "earliest") == dict.fromkeys(ends, 0)
    assert asking.offsets(broker.bootstrap, name, "latest") == ends

    times = sorted(record.timestamp_ms for records in parts.values() for record in records)
    for timestamp_ms in (times[0] - 1, *times[:: len(times) // 3], times[-1]):
        wanted = {
            partition: ends[partition] - len(not_older(records, timestamp_ms)) for partition, records in parts.items()
        }
        assert asking.offsets(broker.bootstrap, name, f"time:{timestamp_ms}") == wanted, timestamp_ms
    assert asking.offsets(broker.bootstrap, name, f"time:{times[-1] + 1}") == ends

    delete_before(broker.bootstrap, name, {0: 123, 1: ends[1]})
    assert asking.offsets(broker.bootstrap, name, "earliest") == {0: 123, 1: ends[1]}
    assert asking.offsets(broker.bootstrap, name, "latest") == ends


def test_while_others_write(broker: Broker, topic: Callable[..., str], family: Family) -> None:
    """Another client writes to the same partitions meanwhile: its records and the own ones are whole and in order."""
    name = topic(PARTITIONS)
    sent = generate(COUNT, PARTITIONS, family.traits)
    began_ms = int(time.time() * 1000)
    with Noise(broker.bootstrap, name, PARTITIONS) as noise:
        noise.wait_for(500)
        family.produce(broker.bootstrap, name, sent, "lz4")
        ends = end_offsets(broker, name)
        everything = family.consume(broker.bootstrap, name, FromStart(), ends)
        middle_offsets = {partition: end // 2 for partition, end in ends.items()}
        limits = {partition: ends[partition] - middle_offsets[partition] for partition in ends}
        later = family.consume(broker.bootstrap, name, FromOffset(middle_offsets), limits)
        noise.wait_for(500)
    for partition, records in by_partition(everything).items():
        assert [record.offset for record in records] == list(range(ends[partition]))
        assert_equal(records[middle_offsets[partition] :], by_partition(later)[partition], f"partition {partition}")
        noise.assert_in(partition, records)
    own = [record for record in everything if not noise.is_own(record)]
    assert_same_without_offsets(sent, own, began_ms)


def assert_same_without_offsets(sent: Sequence[object], own: Sequence[Received], began_ms: int) -> None:
    """The others' records lie between: number the own ones anew, in each partition."""
    numbered = [
        record._replace(offset=index) for records in by_partition(own).values() for index, record in enumerate(records)
    ]
    assert_same(sent, numbered, began_ms)  # type: ignore[arg-type]


def test_across_restarts(broker: Broker, topic: Callable[..., str], family: Family) -> None:
    """The broker is restarted in the middle of producing, and again between producing and reading."""
    name = topic(PARTITIONS)
    sent = generate(COUNT, PARTITIONS, family.traits)
    began_ms = int(time.time() * 1000)
    family.produce(broker.bootstrap, name, restarting(sent, broker), "zstd")
    ends = end_offsets(broker, name)
    broker.restart()
    everything = family.consume(broker.bootstrap, name, FromStart(), ends)
    assert_same(sent, everything, began_ms)


def test_reading_across_a_restart(broker: Broker, topic: Callable[..., str], reader: Family) -> None:
    """A consumer at the end of a topic gets what comes before a restart and what comes after it."""
    name = topic(1)
    tail = reader.tail(broker.bootstrap, name)
    try:
        sent = [f"before {number}".encode() for number in range(3)] + [
            f"after {number}".encode() for number in range(3)
        ]
        with Noise(broker.bootstrap, name, 0) as writer:
            assert not reader.knows_when_parked or tail.is_parked.wait(60)
            for value in sent:
                if value == b"after 0":
                    broker.restart()
                writer.send(value)
                assert tail.next(60).value == value
    finally:
        tail.close()
