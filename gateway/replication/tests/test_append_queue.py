"""A slow disk: appends by a thread, in order, while everybody else is served."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.gateway.replication import append_queue
from headgate.gateway.replication.append_queue import CALM_MS, SLOW_MS
from headgate.gateway.replication.replica import Replica
from headgate.gateway.replication.tests.producing import DONE, TIMEOUT_MS, Reply, produce, row
from headgate.gateway.runtime.tasks import run
from headgate.gateway.runtime.workers import MAX_THREADS_PER_EXECUTOR
from headgate.gateway.tests.builders import HandlerBroker, handler_of, records
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.records.batch import iterate
from headgate.storage.files import File
from headgate.storage.log import snapshots

SLOW = SLOW_MS + 1


class Disk:
    """Makes writes take as long as the test says, and threads wait until the test runs them."""

    def __init__(self, node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node = node
        self.takes_ms = 0.0
        self.error: OSError | None = None
        self.sleeps = True  # a slow write waits for the disk, and not for the processor
        self.waits = 0
        self.inline = self.by_thread = 0
        self.in_thread = False
        write_at, disk = File.write_at, self

        def write(file: File, data: bytes, position: int) -> None:
            disk.inline += not disk.in_thread
            disk.by_thread += disk.in_thread
            node.time.clock.elapsed_ms += disk.takes_ms
            disk.waits += disk.sleeps
            if disk.error is not None:
                raise disk.error
            write_at(file, data, position)

        monkeypatch.setattr(File, "write_at", write)
        monkeypatch.setattr("resource.getrusage", lambda _: SimpleNamespace(ru_nvcsw=self.waits))
        self.threads = node.time.scheduler.hold().waiting

    def run_thread(self) -> None:
        work, done = self.threads.pop(0)
        self.in_thread = True
        result: Any
        try:
            result = work()
        except OSError as error:
            result = error
        finally:
            self.in_thread = False
        done(result)
        self.node.time.advance()


@pytest.fixture
def disk(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> Disk:
    node.services.metadata.create_topic("t", 2)
    return Disk(node, monkeypatch)


def slowed(disk: Disk) -> Replica:
    """A partition whose disk has just been slow."""
    replica = disk.node.services.partitions.get("t", 0)
    disk.takes_ms = SLOW
    produced(disk.node, index=1)
    assert replica.writer() is None, "it may have been the processor"
    produced(disk.node)
    disk.takes_ms = 0.0
    disk.inline = 0
    assert replica.writer() is not None
    return replica


def produced(node: HandlerBroker, *values: bytes, **options: Any) -> Any:
    """The outcome of the handler: a response, or a task for a `Reply`. The turn ends."""
    outcome = produce(node, *values, **options)
    node.services.batcher.write_all()
    return outcome


def late(node: HandlerBroker, outcome: Any) -> Reply:
    """The reply to a request that has to wait."""
    return Reply(node, outcome)


def test_a_quick_disk_is_written_inline(node: HandlerBroker, disk: Disk) -> None:
    disk.takes_ms = SLOW_MS - 1
    assert [row(produced(node)) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
    assert not disk.threads


@pytest.mark.parametrize("acks", [1, -1])
def test_after_a_slow_write_the_next_is_made_by_a_thread(node: HandlerBroker, disk: Disk, acks: int) -> None:
    replica = slowed(disk)
    reply = late(node, produced(node, b"later", acks=acks))
    assert (disk.inline, replica.high_watermark, reply.value) == (0, 1, None)
    disk.run_thread()
    assert (disk.inline, replica.high_watermark, reply.row) == (0, 2, (0, 1))


def test_appends_during_a_write_are_written_together_in_order(node: HandlerBroker, disk: Disk) -> None:
    slowed(disk)
    replies = [late(node, produced(node, b"%d" % number)) for number in range(5)]
    assert len(disk.threads) == 1
    disk.run_thread()
    assert [reply.value is not None for reply in replies] == [True, False, False, False, False]
    disk.run_thread()
    assert [reply.row for reply in replies] == [(0, 1 + number) for number in range(5)]
    assert disk.by_thread == 2


def test_what_was_staged_before_the_disk_slowed_is_written_first(node: HandlerBroker, disk: Disk) -> None:
    replica = node.services.partitions.get("t", 0)
    produced(node)
    promised = produce(node, b"promised")
    replica.disk.is_slow = True  # a large append to another partition waited, in the same turn
    later = produce(node, b"later")
    disk.error = OSError(28, "No space left on device")
    node.services.batcher.write_all()
    assert row(promised) == row(later) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert replica.high_watermark == 1
    assert not disk.threads


def test_partitions_of_a_slow_disk_do_not_wait_for_each_other(node: HandlerBroker, disk: Disk) -> None:
    slowed(disk)
    late(node, produced(node))
    other = late(node, produced(node, index=1))
    assert len(disk.threads) == 2
    disk.threads.reverse()
    disk.run_thread()
    assert other.row == (0, 1)


def test_a_disk_that_hangs_keeps_few_of_the_threads_that_all_share(node: HandlerBroker, disk: Disk) -> None:
    slowed(disk)
    count = MAX_THREADS_PER_EXECUTOR + 3
    node.services.metadata.create_topic("many", count)
    disk.inline = 0
    replies = [late(node, produced(node, topic="many", index=index)) for index in range(count)]
    logs = [node.services.partitions.get("many", index).log for index in range(count)]
    assert len(disk.threads) == MAX_THREADS_PER_EXECUTOR
    disk.run_thread()
    assert len(disk.threads) == MAX_THREADS_PER_EXECUTOR
    held = sum(log.being_written is not None for log in logs)
    assert held == MAX_THREADS_PER_EXECUTOR, (
        "of the others no file is kept open: there may be more than there are descriptors"
    )
    while disk.threads:
        disk.run_thread()
    assert [reply.row for reply in replies] == [(0, 0)] * count
    assert disk.inline == 0


def test_a_processor_that_was_lost_is_no_slow_disk(node: HandlerBroker, disk: Disk) -> None:
    disk.takes_ms, disk.sleeps = SLOW, False
    assert [row(produced(node)) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
    assert not disk.threads


def test_suspicion_ends(node: HandlerBroker, disk: Disk) -> None:
    disk.takes_ms = SLOW
    for number in range(3):
        assert row(produced(node)) == (0, number)
        node.time.advance(CALM_MS + 1)
    assert not disk.threads


def test_consumers_read_what_was_there_before_while_a_thread_writes(node: HandlerBroker, disk: Disk) -> None:
    slowed(disk)
    late(node, produced(node, b"being written"))
    topic = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)])
    response: Any = node.handle(FetchRequest(max_wait_ms=0, topics=[topic]), 11)
    (found,) = response.responses[0].partitions
    assert (found.high_watermark, found.error_code) == (1, 0)
    assert [record.value for record in iterate(found.records.read())] == [b"x"]
    found.records.release()


def test_a_failed_write_is_told_and_nothing_of_it_stays(
    node: HandlerBroker, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    replica = slowed(disk)
    numbered: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
    lost = [late(node, produced(node, base_sequence=number, **numbered)) for number in range(2)]
    disk.error = OSError(28, "No space left on device")
    disk.run_thread()
    assert lost[0].row == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    told = "storage error for a client (t-0): the disk of t-0 refuses: [Errno 28] No space left on device"
    assert caplog.messages[-1] == told
    disk.error = None
    disk.run_thread()
    assert lost[1].row == (0, 1), "the producer is not known any more: it may begin at any sequence"
    assert replica.high_watermark == replica.log.end_offset == 2


def test_a_write_for_which_no_thread_could_be_started_is_told(node: HandlerBroker, disk: Disk) -> None:
    replica = slowed(disk)
    numbered: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
    lost, next_one = (late(node, produced(node, base_sequence=number, **numbered)) for number in range(2))
    disk.threads.pop(0)[1](RuntimeError("can't start new thread"))
    node.time.advance()
    assert lost.row == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    disk.run_thread()
    assert next_one.row == (0, 1)
    assert replica.high_watermark == replica.log.end_offset == 2


def test_a_fault_in_one_answer_keeps_no_other_append_waiting(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    replica = slowed(disk)
    own, told = replica.writer(), list[object]()
    assert own is not None

    def fault(_: object) -> None:
        raise ValueError("a fault of ours")

    for done in (fault, told.append):
        own.append(records(b"x", timestamp=0), 1, 0, done)
    disk.run_thread()
    assert "ValueError: a fault of ours" in caplog.text
    disk.run_thread()
    assert len(told) == 1
    assert own.is_idle


def test_what_is_refused_is_told_without_a_write(node: HandlerBroker, disk: Disk) -> None:
    slowed(disk)
    spoiled = records(b"x", timestamp=node.time.clock.now_ms())
    spoiled[-1] ^= 1
    request = produce_request(spoiled, acks=1, timeout_ms=1_000)
    outcome = handler_of(request, 9)(request, node.context(9))
    assert row(outcome) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert not disk.threads


def test_a_batch_that_comes_again_has_its_offset(node: HandlerBroker, disk: Disk) -> None:
    slowed(disk)
    numbered: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    first = late(node, produced(node, **numbered))
    disk.run_thread()
    assert row(produced(node, **numbered)) == first.row == (0, 1)
    assert not disk.threads


def test_a_write_longer_than_the_client_waits_is_a_time_out(node: HandlerBroker, disk: Disk) -> None:
    slowed(disk)
    reply = late(node, produced(node))
    node.time.advance(TIMEOUT_MS + 1)
    assert reply.row == (ErrorCode.REQUEST_TIMED_OUT, -1)
    disk.run_thread()


def test_without_acks_nobody_waits(node: HandlerBroker, disk: Disk) -> None:
    replica = slowed(disk)
    assert produced(node, acks=0) is None
    disk.run_thread()
    assert replica.high_watermark == 2


def test_what_waits_for_a_disk_is_bounded(node: HandlerBroker, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_queue, "MAX_WAITING_BYTES", 10_000)
    slowed(disk)
    replies = [late(node, produced(node, bytes(3_000), index=number % 2)) for number in range(6)]
    assert row(produced(node)) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    while disk.threads:
        disk.run_thread()
    assert [reply.row for reply in replies] == [(0, 1), (0, 1), (0, 2), (0, 2), (0, 3), (0, 3)]
    assert late(node, produced(node)).value is None
    disk.run_thread()


def test_who_wants_no_answer_is_held_up_while_too_much_waits(
    node: HandlerBroker, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not hung up on: that would lose what else it sent."""
    monkeypatch.setattr(append_queue, "PAUSE_BYTES", 10_000)
    monkeypatch.setattr(append_queue, "MAX_WAITING_BYTES", 10_000)
    slowed(disk)
    assert [produced(node, bytes(4_000), acks=0) for _ in range(3)] == [None] * 3, "the first is being written"
    held = [late(node, produced(node, bytes(4_000), acks=0)) for _ in range(3)]
    disk.run_thread()
    assert [reply.value for reply in held] == [DONE] * 3
    assert produced(node, b"again", acks=0) is None
    while disk.threads:
        disk.run_thread()
    assert node.services.partitions.get("t", 0).log.end_offset == 1 + 7


def test_after_a_while_the_loop_tries_again(node: HandlerBroker, disk: Disk) -> None:
    replica = slowed(disk)
    last = late(node, produced(node))
    node.time.advance(CALM_MS + 1)
    assert replica.writer() is not None, "what is being written comes first"
    disk.run_thread()
    assert last.row == (0, 1)
    disk.takes_ms = SLOW
    assert row(produced(node)) == (0, 2)
    assert replica.writer() is not None, "one slow write is enough now"
    node.time.advance(CALM_MS + 1)
    disk.takes_ms = 0.0
    assert row(produced(node)) == (0, 3)
    assert replica.writer() is None


def test_a_topic_may_be_deleted_while_a_thread_writes(node: HandlerBroker, disk: Disk) -> None:
    slowed(disk)
    first, second = late(node, produced(node)), late(node, produced(node))
    node.services.metadata.delete_topic("t")
    node.time.advance()
    disk.run_thread()
    assert first.value is not None
    assert second.row == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_appends_to_a_deleted_topic_do_not_go_into_its_successor(node: HandlerBroker, disk: Disk) -> None:
    node.services.metadata.create_topic("short", 1, configs={"segment.ms": "1000"})
    old = node.services.partitions.get("short", 0)
    produced(node, topic="short")
    old.disk.is_slow = True
    late(node, produced(node, topic="short"))
    node.time.advance(1_001)
    waits = late(node, produced(node, b"wants a new segment", topic="short"))
    node.services.metadata.delete_topic("short")
    node.services.metadata.create_topic("short", 1)
    new = node.services.partitions.get("short", 0).log
    before = sorted(Path(new.directory).iterdir())
    while disk.threads:
        disk.run_thread()
    assert waits.row == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert sorted(Path(new.directory).iterdir()) == before


def test_a_broker_may_stop_while_a_thread_writes(node: HandlerBroker, disk: Disk) -> None:
    partition = slowed(disk)
    late(node, produced(node))
    work, _ = disk.threads[0]
    work()
    node.restart()
    again = node.services.partitions.get("t", 0)
    assert again is not partition
    assert again.log.end_offset == 1, "what nobody was told of is not there"


def test_more_than_fits_into_one_write_waits_for_the_next(node: HandlerBroker, disk: Disk) -> None:
    slowed(disk)
    replies = [late(node, produced(node, bytes(60_000))) for _ in range(6)]
    while disk.threads:
        disk.run_thread()
    assert [reply.row for reply in replies] == [(0, 1 + number) for number in range(6)]
    assert disk.by_thread in (3, 4)


def test_of_joined_appends_only_those_written_are_acknowledged(node: HandlerBroker, disk: Disk) -> None:
    """The end of a segment is the end of a write: what comes behind is another one, after the next is begun."""
    node.services.metadata.create_topic("short", 1, configs={"segment.ms": "1000"})
    replica = node.services.partitions.get("short", 0)
    produced(node, topic="short")
    disk.inline = 0
    replica.disk.is_slow = True
    replies = [late(node, produced(node, topic="short")), late(node, produced(node, topic="short"))]
    node.time.advance(1_001)
    replies += [late(node, produced(node, topic="short")), late(node, produced(node, topic="short"))]
    disk.run_thread()
    disk.error = OSError(28, "No space left on device")
    disk.run_thread()
    assert replies[1].row == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    disk.error = None
    assert len(replica.log.segments) == 1
    disk.run_thread()
    assert len(replica.log.segments) == 2
    while disk.threads:
        disk.run_thread()
    refused = (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert [reply.row for reply in replies] == [(0, 1), refused, (0, 2), (0, 3)]
    assert replica.high_watermark == 4
    assert disk.inline == 0, "all was written by threads"


def test_a_segment_that_cannot_be_begun_refuses_who_needs_it(
    node: HandlerBroker, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.services.metadata.create_topic("short", 1, configs={"segment.ms": "1000"})
    replica = node.services.partitions.get("short", 0)
    produced(node, topic="short")
    replica.disk.is_slow = True
    node.time.advance(1_001)
    replies = [late(node, produced(node, topic="short")) for _ in range(2)]
    with monkeypatch.context() as full:
        full.setattr(snapshots, "save", _full)
        disk.run_thread()
    assert replies[0].row == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    while disk.threads:
        disk.run_thread()
    assert replies[1].row == (0, 1)
    assert len(replica.log.segments) == 2
    assert replica.disk.waiting_bytes == 0


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_topic_may_be_deleted_while_a_segment_is_begun(
    node: HandlerBroker, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.services.metadata.create_topic("short", 1, configs={"segment.ms": "1000"})
    old = node.services.partitions.get("short", 0)
    produced(node, topic="short")
    old.disk.is_slow = True
    node.time.advance(1_001)
    waits = late(node, produced(node, topic="short"))
    work, done = disk.threads.pop()

    save = snapshots.save

    def save_meanwhile(*args: Any) -> None:
        node.services.metadata.delete_topic("short")
        node.services.metadata.create_topic("short", 1)
        save(*args)

    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "save", save_meanwhile)
        with pytest.raises(FileNotFoundError) as gone:
            work()
    with pytest.raises(KafkaError, match="older log of short-0"):
        node.services.partitions.get("short", 0)
    done(gone.value)
    node.time.advance()
    assert waits.row == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    run(node.services.partitions.retry())
    new = node.services.partitions.get("short", 0).log
    names = {path.name for path in Path(new.directory).iterdir()}
    assert names == {"partition.metadata", f"{0:020d}.log"}


@pytest.mark.parametrize("configs", [{"headgate.flush": "commit"}, {}], ids=["commit", "cache"])
def test_a_flush_waits_for_a_roll_by_a_thread_and_then_is_made(
    node: HandlerBroker, disk: Disk, configs: dict[str, str]
) -> None:
    """One that began meanwhile would take the new segment's name for synced."""
    node.services.metadata.create_topic("short", 1, configs={"segment.ms": "1000", **configs})
    replica = node.services.partitions.get("short", 0)
    log = replica.log
    produced(node, topic="short", acks=1)
    node.time.advance()
    while disk.threads:
        disk.run_thread()
    replica.disk.is_slow = True
    node.time.advance(1_001)
    produced(node, topic="short", acks=1)
    replica.sync_soon()
    node.time.advance()
    assert len(disk.threads) == 1, "the roll"
    assert log.flushing is None
    disk.run_thread()
    assert log.flushing is not None
    while disk.threads:
        disk.run_thread()
    assert len(log.segments) == 2
    assert log.recovery_point >= log.segments[1].base_offset
    assert not log.names_unsynced
