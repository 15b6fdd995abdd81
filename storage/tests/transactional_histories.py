"""Random histories of logs with transactions: see `histories.py`.

Several producers have transactions open at once, beside others without. What holds beside that: a reader of committed
records gets those of every committed transaction below the last stable offset, and never one of a transaction that was
aborted or is open; the last stable offset is where the first open one begins, and nothing else holds it up.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.protocol.records.batch import BatchHeader
from headgate.storage.tests.builders import content, marker, stored
from headgate.storage.tests.compacting_histories import COMPACTING, CompactingHistory
from headgate.storage.tests.histories import PRODUCERS, STEPS, TRANSACTIONAL, History
from headgate.storage.tests.transactions_model import committed, decide

READING = {"read_committed": 5, "end_all": 1}
TRANSACTING = STEPS | READING
TRANSACTING_COMPACTING = COMPACTING | READING


class TransactionalHistory(History):
    """A log with transactions. `opened`: whose are open, as the producers know it."""

    producers: Sequence[int] = (*range(PRODUCERS), *TRANSACTIONAL)

    def __init__(self, seed: int) -> None:
        self.opened = set[int]()
        self.waiting: list[tuple[int, bytearray]] = []
        super().__init__(seed)

    # Appends

    def next_batch(self) -> tuple[int, bytearray]:
        """Of a transaction, or a marker, or of somebody else."""
        if self.waiting:
            return self.waiting.pop()
        if self.random.random() < 0.3:
            return super().next_batch()
        producer = self.random.choice(TRANSACTIONAL)
        if self.random.random() < (0.4 if producer in self.opened else 0.05):
            return 1, self.ended(producer)
        is_open = producer in self.opened
        self.opened.add(producer)
        return self.batch_of(producer, may_begin_epoch=not is_open)

    def ended(self, producer: int) -> bytearray:
        """The end of a transaction, or of none; one that took too long is aborted with another epoch."""
        self.opened.discard(producer)
        is_commit = self.random.random() < 0.5
        if not is_commit and self.random.random() < 0.2:
            self.epochs[producer] += 1
            self.sequences[producer] = 0
        return bytearray(marker(is_commit, producer_id=producer, epoch=self.epochs[producer]))

    def end_all(self) -> None:
        """No transaction is open for a moment."""
        for producer in sorted(self.opened):
            self.waiting = [(1, self.ended(producer))]
            self.append()

    def go_on_with_sequences(self) -> None:
        super().go_on_with_sequences()
        self.opened = set(self.log.producers.transactions.open)

    # Readers

    def settle(self, *, all_must_be_there: bool) -> None:
        super().settle(all_must_be_there=all_must_be_there)
        self.read_committed()

    def read_committed(self) -> None:
        """Read from anywhere to the last stable offset, in pieces of any size."""
        log = self.log
        is_replicated = self.random.random() < 0.7
        if is_replicated:
            log.producers.replicated(self.end)
        stable = log.stable_offset
        self.assert_stable(stable, is_replicated=is_replicated)
        offset = self.random.randint(log.start_offset, max(log.start_offset, stable))
        found = [batch for batch in committed(log, offset, self.random.randrange(3000)) if batch[0].records_count]
        expected = self.visible(offset, stable)
        assert [header.base_offset for header, _ in found] == [base_offset for base_offset, _ in expected]
        assert [view[16:] for _, view in found] == [data[16:] for _, data in expected]

    def assert_stable(self, stable: int, *, is_replicated: bool) -> None:
        """What began before all that is there may be forgotten; no other open transaction is passed."""
        log = self.log
        there = decide(sent for sent in self.acknowledged if sent.end > log.start_offset)
        first = min([*there.opened.values(), log.end_offset])
        assert stable <= max(log.start_offset, first)
        earliest = min([*decide(self.acknowledged).opened.values(), log.end_offset])
        assert stable >= max(log.start_offset, earliest) or not is_replicated

    def visible(self, offset: int, stable: int) -> list[tuple[int, bytes | memoryview]]:
        """The batches that a reader of committed records is to get, with their base offsets."""
        visible = decide(self.acknowledged).visible
        read = (sent for sent in self.acknowledged if sent.end > offset and sent.end <= stable)
        return [(sent.offset, sent.data) for sent in read if sent.offset in visible]


class CompactingTransactionalHistory(TransactionalHistory, CompactingHistory):
    """The same of a compacted log: of that which is left of it."""

    def visible(self, offset: int, stable: int) -> list[tuple[int, bytes | memoryview]]:
        visible = decide(self.acknowledged).visible

        def is_read(header: BatchHeader) -> bool:
            return offset <= header.last_offset < stable and header.base_offset in visible

        left = stored(content(self.log))
        return [(header.base_offset, view) for header, view in left if header.records_count and is_read(header)]
