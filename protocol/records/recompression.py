"""Stored batches for a reader that does not know zstd: such batches as gzip, all others as they are.

Apache Kafka answers a fetch before version 10 with UNSUPPORTED_COMPRESSION_TYPE where it meets zstd (KIP-110).
"""

from __future__ import annotations

from headgate.protocol.errors import KafkaError
from headgate.protocol.records.batch import HEADER_SIZE, Buffer, read_header, recompress_steps
from headgate.protocol.records.compression import FAST_LEVEL, GZIP, ZSTD
from headgate.protocol.steps import Steps


def zstd_to_gzip_steps(data: Buffer) -> Steps[bytearray]:
    """The batches of a piece of a log with gzip in the place of zstd; it yields before each call of a codec.

    A tail that is cut is left out. So is all from the first fault on; a fault at the very beginning raises KafkaError:
    CORRUPT_MESSAGE, or MESSAGE_TOO_LARGE for a batch with more in it than `compression.MAX_OUTPUT_BYTES`.
    """
    view, made = memoryview(data), bytearray()
    try:
        while len(view) >= HEADER_SIZE:
            header = read_header(view)
            if header.size > len(view):
                break
            part, view = view[: header.size], view[header.size :]
            if header.compression == ZSTD and header.records_count:  # a compacted log has empty batches too
                made += yield from recompress_steps(part, GZIP, FAST_LEVEL)
            else:
                made += part
    except KafkaError:
        if not made:
            raise
    return made
