"""Random histories of a compacted log: see `histories.py`.

What holds beside that: of each key the last record is there, but for a deletion whose time is over; a record is missing
only where a later one of its key was to be compacted; whatever is left has the offset, time, key and value that it was
sent with, and its batch the same producer and sequence; producers go on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator
from contextlib import suppress

from headgate.protocol.records.batch import BatchHeader, Record, build, iterate, split
from headgate.storage.cleanup.compaction.compaction_job import assess, plan
from headgate.storage.cleanup.compaction.computation import Computation
from headgate.storage.cleanup.compaction.log_compaction import new_segment
from headgate.storage.disk.pool import Pool
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import NOW_MS, assert_transactions, content, content_up_to, replayed, stored
from headgate.storage.tests.compacted import assert_indexes, compact
from headgate.storage.tests.crashing_files import PowerCut
from headgate.storage.tests.histories import PRODUCERS, STEPS, TRANSACTIONAL, History
from headgate.storage.tests.sent import Sent, is_of
from headgate.storage.tests.transactions_model import decide

KEYS = 6
COMPACTING = STEPS | {"compact": 4, "begin_round": 3, "go_on": 6, "roll": 3, "flush": 3}
"""The steps, and how often."""


class CompactingHistory(History):
    """A store with a compacted log. `compacted_end`: what is behind it was never to be compacted.

    Nor what was before the log's start at that time, which a lost start brings back: all that is before `clean_start`.
    """

    def __init__(self, seed: int) -> None:
        self.compacted_end = self.clean_start = 0
        self.deletions_may_go = False
        self.round: Iterator[object] | None = None
        self.dead: list[object] = []  # rounds of killed processes, which must not tidy up after themselves
        super().__init__(seed)

    def choose_config(self) -> None:
        super().choose_config()
        self.config = dataclasses.replace(self.config, cleanup_policy=("compact", "delete"))

    def forget_what_is_under_way(self) -> None:
        super().forget_what_is_under_way()
        self.dead.append(self.round)
        self.round = None

    def restart(self) -> None:
        self.stop_round()
        super().restart()

    def stop_round(self) -> None:
        """What is under way is waited for at a stop."""
        going, self.round = self.round, None
        if going is not None:
            for _ in going:
                pass

    # Appends

    def encode(self, producer: int, count: int, size: int) -> bytearray:
        """Keys come again and again, and are deleted now and then."""
        records = [
            Record(
                timestamp=NOW_MS + self.random.randint(-50, 50),
                key=b"k%d" % self.random.randrange(KEYS),
                value=None if self.random.random() < 0.2 else self.random.randbytes(self.random.randint(0, size)),
            )
            for _ in range(count)
        ]
        if producer == PRODUCERS:
            return build(records)
        return build(
            records,
            producer_id=producer,
            producer_epoch=self.epochs[producer],
            base_sequence=self.sequences[producer],
            is_transactional=producer in TRANSACTIONAL,
        )

    def repeat(self) -> None:
        """Of a batch before the last one nothing may be left to tell it by."""
        for producer in self.producers:
            there = [sent for sent in self.acknowledged if sent.offset >= self.log.start_offset]
            for sent in [sent for sent in there if is_of(sent, producer, self.epochs[producer])][-1:]:
                info = self.write(memoryview(bytearray(sent.data)))
                assert (info.is_duplicate, info.first_offset, info.last_offset + 1) == (True, sent.offset, sent.end)

    # Compaction

    def compact(self) -> None:
        """A whole round at once."""
        self.stop_round()
        limit = self.assess()
        now_ms, table_bytes = self.draw()
        log, before = self.log, self.log.segments.compacted.offset
        is_done = compact(log, now_ms, table_bytes=table_bytes)
        assert not is_done or before <= log.segments.compacted.offset <= limit
        self.settle(all_must_be_there=True)
        if is_done:
            self.assert_clean(log.segments.compacted.offset)

    def assess(self) -> int:
        """Where the dirty part ends that is compacted now."""
        dirt = assess(self.log, NOW_MS, self.log.end_offset)
        if dirt.dirty_bytes:
            self.compacted_end = max(self.compacted_end, dirt.first_uncleanable)
            self.clean_start = max(self.clean_start, self.log.start_offset)
        return dirt.first_uncleanable

    def draw(self) -> tuple[int, int]:
        """The time, and a size of the table of keys, which may be too small for them."""
        is_late = self.random.random() < 0.3
        self.deletions_may_go = self.deletions_may_go or is_late
        late_ms = NOW_MS + 2 * self.config.delete_retention_ms
        return late_ms if is_late else NOW_MS, self.random.choice([1, 300, 1 << 20, 1 << 20])

    def assert_clean(self, end: int) -> None:
        """No key is there twice below an offset, but in batches of which the table had no room for all keys."""
        seen = set[bytes | None]()
        visible = decide(self.acknowledged).visible
        for header, view in reversed(stored(content(self.log))):
            if self.clean_start <= header.base_offset < end and header.base_offset in visible:
                keys = [record.key for record in iterate(view)]
                assert len(set(keys)) == len(keys)
                assert seen.isdisjoint(keys)
                seen.update(keys)

    def begin_round(self) -> None:
        """Compaction by a thread or another process, while the log goes on."""
        if self.round is None:
            self.round = self.until_gone(self.log, self.compacting())

    def go_on(self) -> None:
        """A little of it, or all that is left."""
        if self.round is None:
            return
        try:
            for _ in range(self.random.choice([1, 2, 5, 10, 1000])):
                if next(self.round, self) is self:
                    self.round = None
                    break
        except BaseException:
            self.round = None
            raise

    def until_gone(self, log: Log, going: Generator[object, None, None]) -> Iterator[object]:
        """It ends where a segment that it reads was deleted meanwhile."""
        before = log.segments[:]
        try:
            for step in going:  # noqa: UP028  `yield from` would close it, and raise what that raises
                yield step
        except GeneratorExit:  # a round of a process that is dead: what it tidies up may meet a power cut
            with suppress(PowerCut, OSError):
                going.close()
            raise
        except FileNotFoundError:
            if log.segments[0] is before[0]:
                raise

    def compacting(self) -> Generator[object, None, None]:
        log, files = self.log, self.files
        self.assess()
        now_ms, table_bytes = self.draw()
        dirt = assess(log, now_ms, log.end_offset)
        if not dirt.dirty_bytes:
            return
        job, cuts = plan(log, dirt, now_ms, table_bytes=table_bytes, read_bytes=1 << 20), log.segments.compacted.cuts
        work = Computation(Pool(files, max_open_segments=1), job)
        collected = yield from work.collect()
        for bases in collected.groups:
            if log.segments.compacted.closed(bases) is None:
                return
            rewritten = yield from work.rewrite(bases)
            old = log.segments.compacted.closed(bases)
            if (
                not rewritten.is_changed or old is None or log.segments.compacted.cuts != cuts
            ):  # as `LogCompaction` has it
                continue
            new = new_segment(log, bases, rewritten, now_ms)
            replacement = log.segments.compacted.begin(files, old, new)
            yield None
            try:
                replacement.run()
                yield None
            finally:
                log.segments.compacted.end(replacement, log.config.file_delete_delay_ms)
            yield None
        log.segments.compacted.offset = collected.end_offset

    # What must hold

    def agreed(self, found: list[tuple[BatchHeader, memoryview]], expected: list[Sent]) -> tuple[int, list[Sent]]:
        """Below what was to be compacted all that counts is there; as it was on the disk, this is so after any cut."""
        number = sum(header.base_offset < self.compacted_end for header, _ in found)
        sents = [sent for sent in expected if sent.offset < self.compacted_end]
        batches = {sent.offset: sent for sent in sents}
        kept = dict[int, Record]()
        for header, view in found[:number]:
            assert_is_of(header, batches[header.base_offset])
            kept.update((record.offset, record) for record in iterate(view))
        decided = decide(expected)
        last = self.last_of_keys(expected, decided.visible)
        for sent in sents:
            may_go = sent.offset in decided.may_go
            for record in records(sent):
                is_there = record.offset in kept
                assert not is_there or kept.pop(record.offset) == record
                is_superseded = last.get(record.key, -1) > record.offset
                is_deletion = record.value is None and self.deletions_may_go
                assert is_there or may_go or is_superseded or is_deletion, f"{record} is lost"
        assert not kept, f"{kept} was never sent"
        return number, sents

    def last_of_keys(self, sents: list[Sent], visible: set[int]) -> dict[bytes | None, int]:
        """Key -> the last offset at which it was to be compacted."""
        counting = (sent for sent in sents if sent.offset < self.compacted_end and sent.offset in visible)
        return {record.key: record.offset for sent in counting for record in records(sent)}

    def lost_directory(self) -> None:
        self.compacted_end = 0

    def check_derived_state(self, log: Log) -> None:
        assert_indexes(log)
        assert_transactions(log, is_compacted=True)
        for producer_id, producer in replayed(log, log.end_offset).by_id.items():
            known = log.producers.by_id[producer_id]
            assert known.epoch == producer.epoch
            assert not producer.batches or [one._replace(timestamp=0) for one in known.batches[-1:]] == [
                one._replace(timestamp=0) for one in producer.batches[-1:]
            ]

    def check_snapshot(self, offset: int) -> None:
        """Those in between tell of batches that are gone."""

    def assert_held(self, first: BatchHeader, offset: int) -> None:
        holder = next(sent for sent in self.acknowledged if sent.offset == first.base_offset)
        assert (first.last_offset + 1, first.last_offset >= offset) == (holder.end, True)

    def size_up_to(self, end: int) -> int:
        return content_up_to(self.log, end)


def records(sent: Sent) -> list[Record]:
    """Those of a batch, with the offsets that the log gave them."""
    return [record._replace(offset=sent.offset + number) for number, record in enumerate(iterate(sent.data))]


def assert_is_of(header: BatchHeader, sent: Sent) -> None:
    """A batch that may have lost records, but for those nothing."""
    old = split(sent.data)[0][0]
    assert header.last_offset + 1 == sent.end
    assert header.records_count <= old.records_count
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
        old.producer_id, old.producer_epoch, old.base_sequence,
    )  # fmt: skip
