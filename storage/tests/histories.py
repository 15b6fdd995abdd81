"""Random histories of a store with one partition, beside a model of what it promised.

A step is a method of `History` without arguments; all else is drawn from the seed, so that a seed and a list of steps
give the same history again. A crash may come in the middle of any step, a fault of the disk at any operation.

What holds, after each crash and each refusal: nothing that was acknowledged is lost, but by a power cut what no flush
had covered; nothing is there twice, or that nobody sent; order and offsets are those of the acknowledgements; indexes,
producers and epochs are what the log's bytes make of them.

Some histories are of a disk that keeps changes of names in no order (`CrashingFiles.mixes_names`). There old segments
do not go: which of them a power cut brings back is not told then. And what was never flushed may lose its beginning.
"""

from __future__ import annotations

import dataclasses
import errno
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import BatchHeader, read_header, split
from headgate.storage.cleanup.retention import begin_segment_deletion
from headgate.storage.config import CACHE, COMMIT, LogConfig
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.errors import BadFile
from headgate.storage.log import appending, flushing, log_lock, rolling, segment_deletion, snapshots
from headgate.storage.log.flush import Flush
from headgate.storage.log.log import Log
from headgate.storage.log.pending_write import AppendInfo, PendingWrite
from headgate.storage.log.producers import Producers
from headgate.storage.log.segment_deletion import SegmentDeletion
from headgate.storage.segment.file_slice import FileSlice
from headgate.storage.tests.builders import (
    NOW_MS,
    TOPIC_ID,
    assert_derived_state,
    assert_index_files,
    assert_producers,
    batch,
    content,
    content_up_to,
    delete_old_segments,
    numbered,
    open_store,
    replayed,
    stored,
    with_records,
)
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut
from headgate.storage.tests.damaged import look_at_wrong_bit
from headgate.storage.tests.damaged_files import look_at_wrong_file
from headgate.storage.tests.readers import Readers, repair
from headgate.storage.tests.sent import Sent, is_of, origin_of
from headgate.storage.tests.truncating import cut, truncate_to

KEY = "t", 0
PARTITION = "/data/t-0"
PRODUCERS = 2
TRANSACTIONAL = range(10, 13)
"""The producers whose batches belong to transactions: see `transactional_histories`."""
DERIVED = (".index", ".timeindex", ".txnindex", ".snapshot")
DERIVED_NAMES = ("leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "cleaner-offset-checkpoint")

ONCE = (
    "repeat flush begin_flush end_flush checkpoint begin_checkpoint end_checkpoint commit roll retain shrink "
    "delete_records begin_segment_deletion end_segment_deletion move_start sweep hold look restart kill power cut "
    "start_full flip fill fail heal lose"
)
STEPS = {"append": 8, "gather": 3, "append_aside": 2, "retry": 2, **dict.fromkeys(ONCE.split(), 1)}
"""Step -> how often, against each other."""
BESIDE = ("begin_flush", "end_flush", "end_segment_deletion", "look", "sweep")
"""What may go on while a thread appends."""


class History:
    """A store, a model of it, and what may have been lost."""

    producers: Sequence[int] = range(PRODUCERS)

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.choose_config()
        self.files = CrashingFiles()
        if self.random.random() < 0.5:
            self.files.short_writes = self.random
        self.files.drops_failed = self.random.choice([(), (), (".log",)])
        self.files.mixes_names = self.random.random() < 0.3
        self.acknowledged: list[Sent] = []
        self.end = 0
        self.attempts: list[list[Sent]] = []  # written together, and never acknowledged: some may be there at the end
        self.safe_end = 0  # what a power cut leaves, at least
        self.safe_start = 0  # what never comes back
        self.latest_start = 0
        self.sequences, self.epochs = dict.fromkeys(self.producers, 0), dict.fromkeys(self.producers, 0)
        self.leader_epoch = 0
        self.readers = Readers()
        self.unanswered: bytes | None = None
        self.seen = Counter[str]()
        self.forget_what_is_under_way()
        self.open()

    def choose_config(self) -> None:
        self.config = LogConfig(
            segment_bytes=self.random.choice([1500, 2000, 2000, 8000]),
            index_interval_bytes=self.random.choice([1, 200, 200, 1000]),
            segment_index_bytes=self.random.choice([60, 10_000]),
        )

    def forget_what_is_under_way(self) -> None:
        self.flushes: list[Flush] = []
        self.expired: list[SegmentDeletion] = []
        self.checkpoints: list[tuple[Callable[[], None], int]] = []
        self.held: list[tuple[FileSlice, bytes]] = []

    # One step

    def run(self, step: str) -> None:
        """One step; a power cut in the middle of it ends with a start."""
        log = self.log
        try:
            self.do(step)
        except PowerCut:
            if log is self.log:
                self.safe_end = max(self.safe_end, log.recovery_point)
            self.power()

    def do(self, step: str) -> None:
        met = self.faults_met
        try:
            getattr(self, step)()
        except (KafkaError, OSError) as error:
            if isinstance(error, KafkaError) and error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            if self.faults_met == met and self.files.room is None:
                raise
            self.refused(step)
        else:
            self.safe_end = max(self.safe_end, self.log.recovery_point)
            # What is told to be safe in a log of `headgate.flush=commit` is safe when the client is answered.
            is_answered = step in {"append", "gather", "append_aside"}
            assert not is_answered or not self.config.fsync_before_commit or self.log.recovery_point == self.end
            self.readers.advance(self.log)
            self.check_readers(may_differ=False)
            if self.random.random() < 0.2:
                self.readers.read(self.log, self.acknowledged, self.random)

    @property
    def faults_met(self) -> int:
        return sum(fault.met for fault in self.files.faults)

    def refused(self, step: str) -> None:
        """The disk failed, and the step said so: the log is as it was; one that was half cut is opened anew."""
        self.heal()
        if step in {"truncate", "restart", "start_full"}:
            self.kill(all_must_be_there=step != "truncate")
        elif self.log.sync_error is not None:
            self.repair()
        else:
            assert self.log.end_offset == self.end
            if step in {"retain", "shrink", "delete_records"}:  # what is half deleted is so when it is tried again
                self.delete_old_segments()
            self.settle(all_must_be_there=True)

    def repair(self) -> None:
        """What a sync did not write is written once more; what the system has dropped meanwhile is lost, as it says."""
        self.end_segment_deletion()
        self.may_differ = repair(self.log)
        self.leader_epoch += self.log.end_offset < self.readers.high_watermark
        assert self.log.recovery_point == self.log.end_offset
        if self.files.drops_failed:
            self.held.clear()
        self.settle(all_must_be_there=not self.files.drops_failed)

    # Starts

    def open(self) -> None:
        """Start, and compare with the model afterwards (`settle`)."""
        self.store: LogDirectory = open_store(self.files, self.config)
        if self.store.refused and self.files.room is not None:  # it waits for room, and nothing was touched
            self.files.heal()
            self.store.allow_retry(KEY)
            self.store.open_now(KEY, self.config, NOW_MS)
        assert not self.store.failed, self.store.failed
        log = self.store.logs.get(KEY)
        if log is None:
            assert self.safe_end == 0
            self.lost_directory()
            self.safe_start = 0  # its directory was never synced: it begins anew, with nothing
            log = self.store.create("t", 0, TOPIC_ID, self.config, NOW_MS)
        log.configure(self.config)
        self.log: Log = log
        self.may_differ = not self.store.was_clean
        if self.may_differ or self.random.random() < 0.5:  # a start that loses nothing may go on as it was
            self.leader_epoch += 1
        self.readers.start(log)

    def check_readers(self, *, may_differ: bool) -> None:
        faults, self.files.faults = self.files.faults, []  # the check may read the log, and must meet none of them
        try:
            self.readers.check(self.log, self.acknowledged, self.leader_epoch, may_differ=may_differ)
        finally:
            self.files.faults = faults

    def lost_directory(self) -> None:
        """Nothing of what was there counts any more."""

    def settle(self, *, all_must_be_there: bool) -> None:
        """What is there is a prefix of what was acknowledged, or a little of what was not; the model goes on there."""
        log = self.log
        if self.files.mixes_names and not self.safe_end:
            self.latest_start = max(self.latest_start, log.start_offset)
        assert self.safe_start <= log.start_offset <= self.latest_start
        found = stored(content(log))
        before = [sent for sent in self.acknowledged if sent.end <= log.start_offset]
        expected = self.acknowledged[len(before) :]
        number, kept = self.agreed(found, expected)
        found, first = found[number:], len(kept)
        for (header, view), sent in zip(found, expected[first:], strict=False):
            if not sent.is_stored_as(header, view):
                break
            kept.append(sent)
        assert len(kept) == len(expected) or not all_must_be_there, f"lost {expected[len(kept)]}"
        kept += self.unacknowledged(found[len(kept) - first :])
        assert log.end_offset == (kept[-1].end if kept else log.start_offset) >= self.safe_end
        self.acknowledged, self.end = before + kept, log.end_offset
        self.check_derived_state(log)
        self.readers.advance(log)
        self.check_readers(may_differ=self.may_differ)
        self.may_differ = False
        self.go_on_with_sequences()

    def agreed(self, found: list[tuple[BatchHeader, memoryview]], expected: list[Sent]) -> tuple[int, list[Sent]]:
        """How many batches stand for which of the expected ones, where they need not be the same."""
        return 0, []

    def unacknowledged(self, found: list[tuple[BatchHeader, memoryview]]) -> list[Sent]:
        """The first batches of one attempt, or of what a start has left of it, and nothing else."""
        if not found:
            return []
        for whole in self.attempts:
            attempt = [sent for sent in whole if sent.offset >= found[0][0].base_offset]
            pairs = zip(attempt, found, strict=False)
            if len(found) <= len(attempt) and all(sent.is_stored_as(*batch) for sent, batch in pairs):
                return attempt[: len(found)]
        raise AssertionError(f"{found[0][0]} is there, which nobody sent there")

    def check_derived_state(self, log: Log) -> None:
        assert_derived_state(log)
        assert_producers(log.producers, replayed(log, log.end_offset), whole=not log.start_offset)

    def go_on_with_sequences(self) -> None:
        for producer in self.producers:
            known = self.log.producers.by_id.get(producer)
            self.sequences[producer] = known.last_sequence + 1 if known else 0
            self.epochs[producer] = known.epoch if known else 0

    # Appends

    def next_batch(self) -> tuple[int, bytearray]:
        """A number of records, and a batch of them, of a producer or of one without sequences."""
        return self.batch_of(self.random.randrange(PRODUCERS + 1))

    def batch_of(self, producer: int, *, may_begin_epoch: bool = True) -> tuple[int, bytearray]:
        """The next batch of a producer; PRODUCERS is one without sequences."""
        count = self.random.randint(1, 4)
        size = self.random.choice([5, 50, 300])
        if producer == PRODUCERS:
            return count, self.encode(producer, count, size)
        if self.random.random() < 0.05 and self.sequences[producer] and may_begin_epoch:
            self.epochs[producer] += 1
            self.sequences[producer] = 0
        data = self.encode(producer, count, size)
        self.sequences[producer] += count
        return count, data

    def encode(self, producer: int, count: int, size: int) -> bytearray:
        """What the producer sends next."""
        if producer == PRODUCERS:
            return bytearray(batch(count, size=size, timestamp=NOW_MS + self.random.randint(-50, 50)))
        kind = {"epoch": self.epochs[producer], "is_transactional": producer in TRANSACTIONAL}
        return bytearray(numbered(self.sequences[producer], count, producer_id=producer, size=size, **kind))

    def attempt(self, number: int) -> list[tuple[Sent, memoryview]]:
        """So many batches, noted as sent."""
        epochs = self.log.epochs.entries
        is_unused = bool(epochs) and epochs[-1][1] == self.end  # nothing was written in it yet
        if self.random.random() < (0.5 if is_unused else 0.05):
            self.leader_epoch += 1
        found: list[tuple[Sent, memoryview]] = []
        offset = self.end
        for _ in range(number):
            count, data = self.next_batch()
            if read_header(data).base_sequence >= 0:
                self.unanswered = bytes(data)
            found.append((Sent(offset, offset + count, bytes(data)), memoryview(data)))
            offset += count
        self.attempts.append([sent for sent, _ in found])
        return found

    def acknowledge(self) -> None:
        """The last attempt, or as much of it as there is."""
        attempt = self.attempts.pop()
        done = [sent for sent in attempt if sent.end <= self.log.end_offset]
        self.acknowledged += done
        self.end = self.log.end_offset
        if len(done) < len(attempt):
            self.attempts.append(attempt[len(done) :])
            self.go_on_with_sequences()

    def append(self) -> None:
        ((sent, view),) = self.attempt(1)
        try:
            info = self.write(view)
            assert (info.first_offset, info.last_offset + 1, info.is_duplicate) == (sent.offset, sent.end, False)
        finally:
            self.acknowledge()

    def write(self, view: memoryview) -> AppendInfo:
        return appending.append(
            self.log, view, leader_epoch=self.leader_epoch, now_ms=NOW_MS, origin=origin_of(view), owner=self
        )

    def gather(self) -> None:
        """Several batches, written together by the loop."""
        try:
            self.stage(self.attempt(self.random.randint(1, 5)))
        finally:
            try:
                appending.write_staged(self.log)
            finally:
                self.acknowledge()

    def stage(self, batches: list[tuple[Sent, memoryview]]) -> None:
        """A segment may end between two of them: then those before are written."""
        for sent, view in batches:
            info = appending.stage(self.log, view, self.leader_epoch, NOW_MS, 4096, self, origin=origin_of(view))
            assert (info.first_offset, info.last_offset + 1, info.is_duplicate) == (sent.offset, sent.end, False)

    def append_aside(self) -> None:
        """Several batches, written together by a thread, while other things go on."""
        try:
            self.stage(self.attempt(self.random.randint(1, 5)))
            staged = appending.begin_write(self.log)
            assert staged is not None
            error = self.write_aside(staged)
            appending.end_write(self.log, staged, error)
        finally:
            try:
                appending.write_staged(self.log)
            finally:
                self.acknowledge()

    def write_aside(self, staged: PendingWrite) -> OSError | None:
        """What a thread does, and what goes on meanwhile; why it failed."""
        if not self.files.faults and self.files.room is None:
            before = self.size_up_to(staged.first_offset)
            getattr(self, self.random.choice(BESIDE))()
            assert content_up_to(self.log, staged.first_offset) == before
        try:
            staged.write()
        except OSError as error:
            return error
        return None

    def size_up_to(self, end: int) -> int:
        """Bytes from the start to an offset in the middle of the last attempt."""
        sent = [*self.acknowledged, *self.attempts[-1]]
        return sum(len(one.data) for one in sent if self.log.start_offset < one.end <= end)

    def repeat(self) -> None:
        """Any of the last batches of a producer, once more, is answered with its old offset."""
        there = [sent for sent in self.acknowledged if sent.offset >= self.log.start_offset]
        for producer in self.producers:
            of_it = [sent for sent in there if is_of(sent, producer, self.epochs[producer])]
            for sent in of_it[-5:]:
                info = self.write(memoryview(bytearray(sent.data)))
                assert (info.is_duplicate, info.first_offset, info.last_offset + 1) == (True, sent.offset, sent.end)

    def retry(self) -> None:
        """A client sends again what it had no answer for: it is there once, wherever it came from."""
        data, self.unanswered = self.unanswered, None
        header = split(data)[0][0] if data is not None else None
        if data is None or header is None or not self.may_follow(header):
            return
        last = self.last_of(header.producer_id)
        is_there = last is not None and last.data[16:] == data[16:]
        sent = last if last is not None and is_there else Sent(self.end, self.end + header.last_offset_delta + 1, data)
        self.attempts.append([] if is_there else [sent])
        try:
            info = self.write(memoryview(bytearray(data)))
            assert (info.first_offset, info.is_duplicate) == (sent.offset, is_there)
        finally:
            self.acknowledge()
        self.go_on_with_sequences()

    def last_of(self, producer: int) -> Sent | None:
        """The last batch of a producer, if any of its batches is there."""
        there = [sent for sent in self.acknowledged if sent.end > self.log.start_offset]
        return next((sent for sent in reversed(there) if is_of(sent, producer)), None)

    def may_follow(self, header: BatchHeader) -> bool:
        """Whether a batch is its producer's last one, or what comes next."""
        known = self.log.producers.by_id.get(header.producer_id)
        if known is None:
            return header.base_sequence == 0
        if known.epoch != header.producer_epoch or not known.batches:
            return known.epoch <= header.producer_epoch and header.base_sequence == 0
        last = known.batches[-1]
        is_last = header.base_sequence == last.first_sequence and self.last_of(header.producer_id) is not None
        return is_last or header.base_sequence == last.last_sequence + 1

    # Durability

    def flush(self) -> None:
        self.end_segment_deletion()
        while self.flushes:  # there is one at a time
            self.end_flush()
        flushing.flush(self.log)
        assert self.log.recovery_point >= self.log.end_offset

    def begin_flush(self) -> None:
        if self.log.lock.may(log_lock.FLUSH):
            self.flushes.append(flushing.begin(self.log))

    def end_flush(self) -> None:
        if self.flushes:
            flush = self.flushes.pop()
            try:
                flush.run()
            finally:
                flushing.end(self.log, flush)

    def sync_soon(self) -> None:
        """An append is answered when this is done: one that is under way knows nothing of it."""
        self.end_segment_deletion()
        self.end_flush()
        flushing.flush(self.log)

    def write_epochs_soon(self) -> None:
        """Leave it to the next flush."""

    def run_roll(self, roll: Callable[[], None]) -> None:
        roll()

    def commit(self) -> None:
        """Set, or set back, `headgate.flush`; what is there already becomes safe with the next append."""
        is_set = self.config.fsync_before_commit
        self.config = dataclasses.replace(self.config, headgate_flush=CACHE if is_set else COMMIT)
        self.log.configure(self.config)

    def checkpoint(self) -> None:
        self.store.checkpoint({KEY: self.end})
        self.safe_start = max(self.safe_start, self.log.start_offset)

    def begin_checkpoint(self) -> None:
        self.checkpoints.append((self.store.begin_checkpoint({KEY: self.end}), self.log.start_offset))

    def end_checkpoint(self) -> None:
        if self.checkpoints:
            write, start_offset = self.checkpoints.pop(self.random.randrange(len(self.checkpoints)))
            write()
            self.safe_start = max(self.safe_start, start_offset)

    # Segments

    def roll(self) -> None:
        if self.log.segments[-1].size:
            rolling.roll(self.log, NOW_MS)

    def retain(self) -> None:
        """Delete the oldest segment, as if its time were up."""
        if len(self.log.segments) > 1:
            self.delete_up_to(self.log.segments[1].base_offset)

    def shrink(self) -> None:
        """Delete the oldest segments, as there are too many bytes."""
        before = self.log.start_offset
        self.log.configure(dataclasses.replace(self.config, retention_bytes=self.random.randrange(6000)))
        try:
            self.latest_start = max(self.latest_start, self.end)
            self.delete_old_segments()
        finally:
            self.log.configure(self.config)
            self.latest_start = self.log.start_offset
        assert before <= self.log.start_offset <= self.end

    def delete_records(self) -> None:
        """As the request of that name does it: to any offset, in the middle of a batch too."""
        if self.end > self.log.start_offset:
            self.delete_up_to(self.random.randint(self.log.start_offset, self.end))

    def move_start(self) -> None:
        """The same, before anything is deleted."""
        offset = self.random.randint(self.log.start_offset, self.end)
        self.latest_start = max(self.latest_start, offset)
        self.log.advance_start(offset)

    def delete_up_to(self, offset: int) -> None:
        self.latest_start = max(self.latest_start, offset)
        self.log.advance_start(offset)
        self.delete_old_segments()

    def begin_segment_deletion(self) -> None:
        """The same as `delete_records`, with the files left to a thread."""
        if not self.files.mixes_names:
            self.move_start()
            expired = begin_segment_deletion(self.log, NOW_MS, self.log.end_offset)
            self.expired += () if expired is None else (expired,)

    def end_segment_deletion(self) -> None:
        if self.expired:
            expired = self.expired.pop()
            try:
                expired.rename_files()
            finally:
                segment_deletion.end(self.log, expired)

    def delete_old_segments(self) -> None:
        if not self.files.mixes_names:
            delete_old_segments(self.log, NOW_MS, up_to=self.log.end_offset)

    def sweep(self) -> None:
        self.store.remove_deleted()

    def truncate(self) -> None:
        """As a follower does it that has what its leader never had."""
        self.held.clear()
        self.heal_syncs()
        self.end_flush()
        self.end_segment_deletion()
        ends = [sent.end for sent in self.acknowledged if sent.end >= self.log.start_offset]
        target = self.random.choice([self.log.start_offset, *ends])
        self.attempts = [self.acknowledged]  # what lies before a start that is lost may come back as well
        self.acknowledged = [sent for sent in self.acknowledged if sent.end <= target]
        # With all that is wanted goes what lies before it, which a lost start might have brought back
        self.safe_end = min(self.safe_end, target) if target > self.log.start_offset else 0
        if self.random.random() < 0.5:
            truncate_to(self.log, target, self.store.write_recovery_points)
        else:
            cut(self.log, target, self.store.begin_recovery_points)
        self.may_differ, self.leader_epoch, self.attempts = True, self.leader_epoch + 1, []
        self.settle(all_must_be_there=True)

    # Readers

    def hold(self) -> None:
        """Plan a read of something; it is not sent yet."""
        if self.end > self.log.start_offset:
            offset = self.random.randrange(self.log.start_offset, self.end)
            piece = self.log.read(offset, self.random.randrange(3000), self.log.end_offset, at_least_one=True)
            assert piece is not None
            data = piece.read()
            first = read_header(data)
            self.assert_held(first, offset)
            self.held.append((piece, data))

    def assert_held(self, first: BatchHeader, offset: int) -> None:
        """A read begins with the batch of its offset."""
        holder = next(sent for sent in self.acknowledged if sent.end > offset)
        assert (first.base_offset, first.last_offset + 1) == (holder.offset, holder.end)

    def look(self) -> None:
        """What was planned is sent: whatever became of the segment meanwhile, it is what it was."""
        while self.held:
            piece, data = self.held[-1]
            assert piece.read() == data
            piece.release()
            self.held.pop()

    # Ends

    def restart(self) -> None:
        self.heal_syncs()
        self.end_flush()  # threads are waited for at a stop
        self.end_segment_deletion()
        self.forget_what_is_under_way()
        is_sound = self.files.room is None and not self.files.faults
        self.store.close()
        self.heal()
        self.open()
        assert self.log.recovery_point == self.end or not is_sound
        self.settle(all_must_be_there=True)

    def kill(self, *, all_must_be_there: bool = True) -> None:
        self.forget_what_is_under_way()
        self.files = self.files.crash(self.random, power=False)
        self.open()
        # What was cut off is known to the page cache alone, perhaps: attempts may come back until a power cut is over
        self.settle(all_must_be_there=all_must_be_there)

    def start_full(self) -> None:
        """A start where there is no room, or little; after a kill, or after a stop."""
        room = self.random.choice([0, 0, 10, 100])
        if self.random.random() < 0.3:
            self.restart()
            self.store.close()
            self.forget_what_is_under_way()
        else:
            self.heal()
            self.forget_what_is_under_way()
            self.files = self.files.crash(self.random, power=False)
        self.files.room = room
        self.open()
        self.settle(all_must_be_there=True)

    def power(self) -> None:
        """A power cut; and another one while it starts, now and then."""
        self.forget_what_is_under_way()
        while True:
            self.files = self.files.crash(self.random, power=True)
            self.files.cut_after = self.random.choice([None, self.random.randint(0, 12)])
            try:
                self.open()
                self.settle(all_must_be_there=False)
            except PowerCut:
                continue
            self.files.cut_after = None
            self.attempts.clear()
            return

    def cut(self) -> None:
        self.files.cut_after = self.random.randint(0, 25)

    # Faults

    def flip(self) -> None:
        """A bit is wrong at rest: on another disk of the same content, so that it all goes on as if nothing was."""
        files = self.files.copy(only_durable=self.random.random() < 0.3)
        look = self.random.choice([look_at_wrong_bit, look_at_wrong_file])
        self.seen[look(files, self.config, self.random)] += 1

    def fill(self) -> None:
        """The disk is full soon."""
        self.files.room = self.random.choice([0, 10, 100, 500])

    def fail(self) -> None:
        """Some operation of those that follow fails."""
        operation = self.random.choice(["write", "create", "rename", "remove", "read", "sync", "sync_directory"])
        after = self.random.choice([0, 0, 1, 3])
        self.files.fail(errno.EIO, operation, path=self.random.choice(["", ".log", "index"]), after=after, times=1)

    def lose(self) -> None:
        """A sync fails, and the disk drops what it could not write."""
        dropped, self.files.drops_failed = self.files.drops_failed, (".log",)
        self.files.fail(errno.EIO, "sync", path=".log", times=1)
        try:
            self.do("flush")
        finally:
            self.files.drops_failed = dropped
            self.heal_syncs()

    def heal_syncs(self) -> None:
        """A sync that fails as a process ends, or in a cut, is not told to the next one."""
        self.files.faults = [fault for fault in self.files.faults if "sync" not in fault.operations]

    def heal(self) -> None:
        self.files.heal()

    # The end of it all

    def finish(self) -> None:
        """Kill, and look at everything: what is derived may be lost, and is the same when it is made again."""
        self.heal()
        self.files.cut_after = None
        self.look()
        self.run("kill")
        self.lose_what_is_derived(self.files.crash(self.random, power=False))
        self.run("restart")
        self.store.close()
        self.flip()
        assert self.files.open_handles == 0
        assert_index_files(self.log, self.files)
        for offset in snapshots.offsets(self.files.list(PARTITION)):
            self.check_snapshot(offset)
        self.lose_what_is_derived(self.files)

    def lose_what_is_derived(self, files: CrashingFiles) -> None:
        """Some derived files are lost, or all."""
        files = files.copy()
        derived = [f"{PARTITION}/{name}" for name in files.list(PARTITION) if name.endswith(DERIVED)]
        derived += [path for name in DERIVED_NAMES for path in (f"/data/{name}", f"{PARTITION}/{name}")]
        for path in derived if self.random.random() < 0.3 else self.random.sample(derived, len(derived) // 3):
            files.remove(path)
        log = open_store(files, self.config).logs[KEY]
        assert with_records(log) == with_records(self.log), "what was stored is still there"
        self.check_derived_state(log)

    def check_snapshot(self, offset: int) -> None:
        try:
            known = Producers.from_snapshot(self.files.read(f"{PARTITION}/{offset:020d}.snapshot"))
        except BadFile:  # torn by a power cut, and never looked at since
            assert offset < self.end
        else:
            assert_producers(known, replayed(self.log, offset), whole=not self.log.start_offset)
