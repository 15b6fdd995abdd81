"""Loads of a shard: from memory, by a thread, of an old format, from a disk that fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.gateway.coordinator.coordinator import LOAD_RETRY_MS
from headgate.gateway.coordinator.tests.coordinator_bench import Bench, read, reading
from headgate.gateway.tests.scripted import ScriptedPartition
from headgate.protocol.errors import ErrorCode
from headgate.protocol.records import legacy
from headgate.protocol.records.batch import iterate


def filled(count: int) -> Callable[[ScriptedPartition], None]:
    """A log of so many commits, offset 0 first."""
    source = Bench()
    for offset in range(count):
        source.commit(offset)

    def prepare(partition: ScriptedPartition) -> None:
        for batch in source.partition.log.batches:
            partition.log.write(batch)
        partition.high_watermark = partition.log.end_offset

    return prepare


def test_until_it_is_loaded_clients_come_again() -> None:
    bench = Bench(filled(3))
    assert bench.coordinator.shard is None
    assert bench.ask(reading) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    bench.run()
    assert bench.ask(reading) == [read(2)]


def test_what_is_not_in_memory_is_read_by_a_thread() -> None:
    def cold(partition: ScriptedPartition) -> None:
        filled(4)(partition)
        partition.log.is_warm = False
        partition.log.batches_a_segment = 2

    bench = Bench(cold)
    for _ in range(2):
        bench.run()
        assert len(bench.threads.waiting) == 1
        assert bench.ask(reading) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        bench.threads.run_one()
    bench.run()
    assert bench.ask(reading) == [read(3)]


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [0, 1])
def test_what_apache_kafka_left_in_an_old_format_is_loaded(magic: int, codec: int) -> None:
    def adopted(partition: ScriptedPartition) -> None:
        filled(4)(partition)
        log = partition.log
        sets = [legacy.build(iterate(memoryview(one)), magic, codec=codec) for one in log.batches[:2]]
        log.batches[:2] = [bytes(one) for one in sets]
        log.batches_a_segment = 3

    bench = Bench(adopted)
    bench.run()
    assert len(bench.threads.waiting) == 1
    bench.threads.run_one()
    bench.run()
    assert bench.ask(reading) == [read(3)]


def test_a_log_that_cannot_be_read_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    def broken(partition: ScriptedPartition) -> None:
        filled(2)(partition)
        partition.log.is_warm = False

    bench = Bench(broken)
    bench.run()
    assert len(bench.threads.waiting) == 1
    bench.threads.run_one(OSError(5, "Input/output error"))
    assert bench.ask(reading) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert "cannot be loaded; the broker retries" in caplog.text
    bench.partition.log.is_warm = True
    bench.time.advance(LOAD_RETRY_MS)
    assert bench.ask(reading) == [read(1)]


def test_a_log_that_is_cut_while_it_is_loaded_is_loaded_again() -> None:
    """What was read of it may be gone."""

    def cold(partition: ScriptedPartition) -> None:
        filled(3)(partition)
        partition.log.is_warm = False

    bench = Bench(cold)
    bench.run()
    work, done = bench.threads.waiting.pop()
    read_before = work()
    del bench.partition.log.batches[1:]
    bench.partition.log.end_offset = bench.partition.high_watermark = 1
    bench.partition.log.is_warm = True
    bench.cut()
    done(read_before)
    bench.run()
    assert bench.ask(reading) == [read(0)]


def test_a_load_waits_for_the_last_write_of_the_shard_before() -> None:
    """Else the batch would land behind the load, and the shard would lack it."""
    bench = Bench(lambda partition: setattr(partition, "is_slow", True))
    heard = bench.commit(1)
    bench.coordinator.reload("for a test")
    bench.run()
    assert heard == [ErrorCode.NOT_COORDINATOR]
    assert bench.ask(reading) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    bench.partition.finish_write()
    bench.run()
    assert bench.ask(reading) == [read(1)]
