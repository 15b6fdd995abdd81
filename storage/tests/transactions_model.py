"""What transactions make of a log, told from the batches that were sent and nothing else; and a reader of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from headgate.protocol.records import control
from headgate.protocol.records.batch import BatchHeader, read_header
from headgate.protocol.records.control import TRANSACTION_BITS
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import next_offset, stored


class Placed(Protocol):
    """A batch as it was sent, and the offset that it got."""

    @property
    def offset(self) -> int:
        """Where it begins."""

    @property
    def data(self) -> bytes:
        """Its bytes."""


class Decided(NamedTuple):
    """Base offsets of batches, and producers: id -> first offset of what is still open.

    `visible` batches hold records that are committed, or of no transaction; `may_go` are those of aborted ones, and
    markers.
    """

    visible: set[int]
    may_go: set[int]
    opened: dict[int, int]


def decide(sents: Iterable[Placed]) -> Decided:
    """What became of the batches of a log, in their order."""
    visible, may_go, opened = set[int](), set[int](), dict[int, list[int]]()
    for sent in sents:
        header = read_header(sent.data)
        if not header.attributes & TRANSACTION_BITS:
            visible.add(sent.offset)
        elif not header.is_control:
            opened.setdefault(header.producer_id, []).append(sent.offset)
        else:
            marker = control.read(sent.data)
            assert marker is not None
            (visible if marker.is_commit else may_go).update(opened.pop(header.producer_id, ()))
            may_go.add(sent.offset)
    return Decided(visible, may_go, {producer_id: offsets[0] for producer_id, offsets in opened.items()})


def committed(log: Log, offset: int, max_bytes: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches that a consumer of committed records takes, as the Java client does (`CompletedFetch`).

    Each answer says which aborted transactions reach into it: a producer's batches are left out from the first offset
    of one on, until its marker comes.
    """
    stable = log.stable_offset
    while offset < stable:
        piece = log.read(offset, max_bytes, stable, at_least_one=True)
        if piece is None:  # compaction has left nothing of it
            return
        aborted = sorted(log.aborted(offset, stable, piece), key=lambda one: -one[1])
        data = piece.read()
        piece.release()
        left_out = set[int]()
        for header, view in stored(data):
            while aborted and aborted[-1][1] <= header.last_offset:
                left_out.add(aborted.pop()[0])
            if header.is_control:
                marker = control.read(view)
                if marker is not None and not marker.is_commit:
                    left_out.discard(header.producer_id)
            elif not header.is_transactional or header.producer_id not in left_out:
                yield header, view
        offset = next_offset(data)
