"""The aborted transactions that reach into a range of offsets, from the files of a partition.

A `.txnindex` file has them, if it is complete. Headgate writes the file of the active segment when the segment rolls,
and a crash may lose unflushed entries: then the markers in the batches have the facts. Apache Kafka has no file where
no transaction was aborted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from headgate.protocol.records.control import TRANSACTION_BITS
from headgate.spark.reading.segment_view import SegmentView
from headgate.storage.errors import BadFile
from headgate.storage.log import snapshots
from headgate.storage.recovery.recovery_input import first_to_scan
from headgate.storage.segment.index import TimeIndex
from headgate.storage.segment.transaction_index import AbortedTransaction, TransactionIndex, parse
from headgate.storage.segment.transactions import Transactions


class IndexTrust(NamedTuple):
    """Which `.txnindex` files are complete.

    `has_last`: the last segment's too. `may_lack_files`: a missing file means that no transaction was aborted, as in
    Apache Kafka's directories. `recovery_point`: after a crash the next start rebuilds the indexes of the segment
    before the scanned ones too, and the indexes of any segment without times; None if there was no crash.
    """

    has_last: bool
    may_lack_files: bool
    recovery_point: int | None = None

    def covers(self, view: SegmentView, number: int) -> bool:
        """Whether the index of a segment is complete, if it is there."""
        if self.recovery_point is None:
            return self.has_last or number + 1 < len(view.bases)
        is_before = number + 1 < first_to_scan(view.bases, self.recovery_point)
        times = view.path(view.bases[number], TimeIndex.SUFFIX).rpartition("/")[2]
        return is_before and view.names.get(times, 0) > 0


def find_aborted(view: SegmentView, start: int, up_to: int, trust: IndexTrust) -> list[AbortedTransaction]:
    """The aborted transactions with records from `start` on and before `up_to`, in the order of their markers.

    One that began before `start` may seem to begin at its first batch from there on. Raises OSError.
    """
    found: list[AbortedTransaction] = []
    for number in range(view.owner(start), len(view.bases)):
        entries = _indexed(view, number, trust)
        if entries is None:
            return found if _are_decided(view, view.bases[number], up_to) else _from_batches(view, start, up_to)
        found += [entry for entry in entries if entry.last_offset >= start and entry.first_offset < up_to]
        if any(entry.last_stable_offset >= up_to for entry in entries):
            break
    return found


def _indexed(view: SegmentView, number: int, trust: IndexTrust) -> Sequence[AbortedTransaction] | None:
    """The entries of a segment's index; None if they may be incomplete."""
    base_offset = view.bases[number]
    if not trust.covers(view, number):
        return None
    try:
        entries = parse(view.files.read(view.path(base_offset, TransactionIndex.SUFFIX)))
    except FileNotFoundError:
        return () if trust.may_lack_files else None
    except BadFile:
        return None
    return None if entries and entries[0].last_offset < base_offset else entries


def _are_decided(view: SegmentView, offset: int, up_to: int) -> bool:
    """Whether the snapshot at an offset says that no transaction is open there that has records before `up_to`."""
    if offset < up_to or offset not in snapshots.offsets(view.names):
        return False
    with suppress(FileNotFoundError):
        producers, since = snapshots.load_latest(view.files, view.directory, [offset], offset, offset)
        return since == offset and all(first >= up_to for first in producers.transactions.open.values())
    return False


def _from_batches(view: SegmentView, start: int, up_to: int) -> list[AbortedTransaction]:
    """The transactions from the batches of the range, and from later ones while one of them is open."""
    transactions, found = Transactions(), list[AbortedTransaction]()
    for segment in view.segments(view.owner(start)):
        batches = segment.iterate(view.position(segment.file, segment.base_offset, start))
        for _, header in batches:
            if header.base_offset >= up_to and not transactions.open:
                return found
            if header.last_offset < start or not header.attributes & TRANSACTION_BITS:
                continue
            if header.base_offset >= up_to and not header.is_control:
                continue
            ended = transactions.follow(header, header.base_offset, batches.marker(header))
            transactions.decided.clear()
            if ended is not None:
                found.append(ended)
        if batches.problem is not None:
            break
    return found
