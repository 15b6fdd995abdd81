"""Recompression of stored batches for a reader without zstd: from zstd to gzip, others unchanged.

Apache Kafka instead answers UNSUPPORTED_COMPRESSION_TYPE if a Fetch before version 10 finds zstd (KIP-110).
"""

from __future__ import annotations

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import Buffer
from headgate.protocol.records.batch import HEADER_SIZE, read_header, recompress_steps
from headgate.protocol.records.compression import FAST_LEVEL, GZIP, ZSTD
from headgate.protocol.steps import Steps


def zstd_to_gzip_steps(data: Buffer) -> Steps[bytearray]:
    """Return the batches of a piece of a log, with gzip in place of zstd. Yields before each call of a codec.

    The result ends before a cut batch, and before the first faulty one. A fault of the first batch raises KafkaError:
    CORRUPT_MESSAGE, or MESSAGE_TOO_LARGE for a batch of more than `compression.MAX_OUTPUT_BYTES` decompressed.
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
