"""What a client has sent in a random history: see `histories.py`."""

from __future__ import annotations

from typing import NamedTuple

from headgate.protocol.records.batch import BatchHeader, read_header
from headgate.protocol.records.control import TRANSACTION_BITS
from headgate.storage.log.validation import BROKER, CLIENT, BatchOrigin


class Sent(NamedTuple):
    """A batch: where it begins, the offset behind it, and its bytes as the client sent them."""

    offset: int
    end: int
    data: bytes

    def is_stored_as(self, header: BatchHeader, view: memoryview) -> bool:
        """Equal but for what the leader patches: base offset and epoch."""
        return header.base_offset == self.offset and bytes(view[16:]) == self.data[16:]


def is_of(sent: Sent, producer: int, epoch: int | None = None) -> bool:
    """Whether a batch of records is a producer's, of any epoch or of this one."""
    header = read_header(sent.data)
    is_its = header.producer_id == producer and epoch in (None, header.producer_epoch)
    return is_its and not header.is_control


def origin_of(view: memoryview) -> BatchOrigin:
    """What belongs to transactions is taken as a coordinator sends it."""
    return BROKER if read_header(view).attributes & TRANSACTION_BITS else CLIENT
