"""Every client family produces 10,000 records with every codec and reads them back from everywhere.

All six families offer all five codecs; one that does not would have it in its list of test ids as `not-offered`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from compat_tests.broker import Broker
from compat_tests.families import Family
from compat_tests.families.family import FromOffset, FromStart, FromTime
from compat_tests.noise import Noise
from compat_tests.records import Received, assert_equal, assert_same, by_partition, generate
from compat_tests.restarting import restarting
from compat_tests.stored import CODECS, Batch, batches

COUNT = 10_000
PARTITIONS = 2


def stored_batches(broker: Broker, topic: str) -> dict[int, list[Batch]]:
    """What the files of each partition hold, whatever the broker says."""
    found: dict[int, list[Batch]] = {}
    while (directory := broker.partition_directory(topic, len(found))).exists():
        found[len(found)] = batches(directory)
    return found


def end_offsets(broker: Broker, topic: str) -> dict[int, int]:
    return {partition: found[-1].last_offset + 1 for partition, found in stored_batches(broker, topic).items()}


def stored_codecs(broker: Broker, topic: str) -> set[str]:
    return {batch.codec for found in stored_batches(broker, topic).values() for batch in found}


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

    assert stored_codecs(broker, name) == {codec}
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


def test_reading_across_a_restart(broker: Broker, topic: Callable[..., str], family: Family) -> None:
    """A consumer at the end of a topic gets what comes before a restart and what comes after it."""
    name = topic(1)
    tail = family.tail(broker.bootstrap, name)
    try:
        sent = [f"before {number}".encode() for number in range(3)] + [
            f"after {number}".encode() for number in range(3)
        ]
        with Noise(broker.bootstrap, name, 0) as writer:
            assert not family.knows_when_parked or tail.is_parked.wait(30)
            for value in sent:
                if value == b"after 0":
                    broker.restart()
                writer.send(value)
                assert tail.next(30).value == value
    finally:
        tail.close()
