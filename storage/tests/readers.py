"""Consumers of random histories: what they have read, and whether they notice that the log has lost some of it.

A consumer knows the offset that it reads next, and the leader epoch of the last record that it got. By these a broker
tells whether it is still where it thinks it is (KIP-320): it asks where that epoch ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from headgate.protocol.steps import finish
from headgate.storage.log.log import Log
from headgate.storage.recovery import sync_failure_repair
from headgate.storage.tests.sent import Sent

MAX_READERS = 6


@dataclass
class Reader:
    """One that has read all these batches, the last of them in `epoch`. `has_diverged`: they are not in the log."""

    position: int
    epoch: int
    batches: tuple[Sent, ...]
    has_diverged: bool = False

    def first_difference(self, present: Sequence[Sent], end_offset: int) -> int | None:
        """The first offset that the reader has read where the log does not have the same batch; None without any."""
        for number, sent in enumerate(self.batches):
            if number == len(present) or present[number] != sent:
                return min(sent.offset, end_offset)
        return None


class Readers:
    """Consumers of one log, beside its high watermark."""

    def __init__(self) -> None:
        self.high_watermark = 0
        self.diverged = 0
        """How often one was told that its history is not the log's."""
        self._readers: list[Reader] = []

    def start(self, log: Log) -> None:
        """As a partition whose log was opened."""
        self.high_watermark = log.recovery_point if log.config.fsync_before_commit else log.end_offset

    def advance(self, log: Log) -> None:
        """As a partition after an append or a flush."""
        end_offset = log.end_offset
        if log.config.fsync_before_commit:
            end_offset = max(self.high_watermark, min(log.recovery_point, end_offset))
        self.high_watermark = min(end_offset, log.end_offset)

    def read(self, log: Log, present: Sequence[Sent], random: Random) -> None:
        """One reads all that it may."""
        batches = tuple(sent for sent in present if sent.end <= self.high_watermark)
        position = batches[-1].end if batches else 0
        epoch = log.epochs.epoch_at(position - 1)
        if position > log.start_offset and epoch >= 0:
            self._readers.append(Reader(position, epoch, batches))
            if len(self._readers) > MAX_READERS:
                del self._readers[random.randrange(MAX_READERS)]

    def check(self, log: Log, present: Sequence[Sent], leader_epoch: int, *, may_differ: bool) -> None:
        """Who has read what is not there any more is sent back to before it; nobody else is sent anywhere."""
        for reader in self._readers:
            difference = reader.first_difference(present, log.end_offset)
            if reader.position < log.start_offset or (difference is not None and difference < log.start_offset):
                continue  # out of range
            epoch, end_offset = log.epochs.end_offset_led(reader.epoch, leader_epoch, log.end_offset)
            is_sent_back = end_offset < reader.position
            told = f"{reader.epoch} ends at {end_offset} of {epoch}; read up to {reader.position}, same to {difference}"
            if difference is None:  # the same batches may have come again, which is another history all the same
                assert not is_sent_back or log.epochs.epoch_at(reader.position - 1) > reader.epoch, told
                continue
            assert may_differ or reader.has_diverged, told
            assert 0 <= end_offset <= difference or not _has_records(log, difference, end_offset), told
            self.diverged += not reader.has_diverged
            reader.has_diverged = True


def _has_records(log: Log, start: int, end: int) -> bool:
    """Whether any is left from `start` on before `end`: compaction may have removed all, and where an epoch began."""
    header = next(log.segments.headers(start), None)
    return end < 0 or (header is not None and header.base_offset < end)


def repair(log: Log) -> bool:
    """A repair, of which all that it says of losses is true; whether there was one."""
    end_offset = log.end_offset
    work = sync_failure_repair.begin(log)
    assert work is not None
    finish(work.steps())
    if sync_failure_repair.apply(log, work):
        finish(work.write_steps())
    assert sync_failure_repair.end(log, work)
    assert work.has_lost_records == (log.end_offset < end_offset), (work.lost, end_offset, log.end_offset)
    return work.has_lost_records
