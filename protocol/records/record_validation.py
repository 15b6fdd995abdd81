"""Validation of the records of a batch before an append: is each one sound, and may it be appended?

It takes half a microsecond a record, as it makes no objects of records. So a leader can validate every batch, if it is
configured to. The checks are those of Apache Kafka's `LogValidator`. The producer gets each refused record (KIP-467).
"""

from __future__ import annotations

from headgate.protocol.errors import ErrorCode
from headgate.protocol.records.batch import MAX_TIMESTAMP, MIN_TIMESTAMP, NO_TIMESTAMP, BatchHeader, invalid
from headgate.protocol.records.varint import decode_zigzag, read_rest

MAX_ERRORS = 100
"""The most refused records in a reply; a batch may have a hundred thousand records."""


class RecordValidator:
    """The validation of one batch. `data`: the decompressed records."""

    __slots__ = (
        "_data",
        "_earliest",
        "_end",
        "_header",
        "_latest",
        "_needs_keys",
        "_parts",
        "_position",
        "errors",
        "left",
        "max_timestamp",
    )

    def __init__(
        self, header: BatchHeader, data: bytes | memoryview, *, needs_keys: bool, earliest: int, latest: int
    ) -> None:
        """`earliest`, `latest`: the range of valid timestamps, in ms. No timestamp, -1, is always valid."""
        self._header = header
        self._data = data
        self._needs_keys = needs_keys
        self._earliest = earliest
        self._latest = latest
        self._position = 0
        self._parts = 0  # names and values of headers left in a record, which may have a million
        self._end = 0  # the end of that record
        self.left = header.records_count
        self.errors: list[tuple[int, ErrorCode, str]] = []
        """The first fault of each refused record: its index, a code, a message; at most MAX_ERRORS records."""
        self.max_timestamp = NO_TIMESTAMP
        """The highest timestamp of the validated records, in ms, whatever the header says."""

    def validate_next(self, limit_bytes: int) -> None:
        """Validate the next records, about `limit_bytes` of them. `left` is the number of remaining records.

        Raises KafkaError(INVALID_RECORD) for bytes that are no record, and for bytes after the last record.
        """
        stop_at = self._position + limit_bytes
        try:
            if self._parts:
                self._continue_headers(stop_at)
            if not self._parts:
                self._validate_records(stop_at)
        except IndexError as error:
            message = f"record {self._index} of {self._header.records_count} cannot be read: {error}"
            raise invalid(message) from None
        if not self.left and self._position != len(self._data):
            raise invalid(f"the last of {self._header.records_count} records does not end where the batch does")

    def _continue_headers(self, stop_at: int) -> None:
        """Validate further headers of an unfinished record."""
        self._position, self._parts = skip_headers(self._data, self._position, self._parts, stop_at)
        if not self._parts:
            _check_end(self._position, self._end)
            self.left -= 1

    def _validate_records(self, stop_at: int) -> None:
        data, position, left = self._data, self._position, self.left
        expected, needs_keys = self._index << 1, self._needs_keys
        previous, is_late = -1, False
        try:
            while left and position < stop_at:
                byte = data[position]
                position += 1
                if byte > 127:  # two bytes are common for sizes and offsets, so they are read without a call
                    high = data[position]
                    if high < 128:
                        byte, position = byte + high * 128 - 128, position + 1
                    else:
                        byte, position = read_rest(data, position, byte)
                end = position + ((byte >> 1) ^ -(byte & 1))
                byte = data[position + 1]  # after the attributes, an unused byte
                position += 2
                if byte > 127:
                    byte, position = read_rest(data, position, byte)
                if byte != previous:
                    previous, is_late = byte, not self._is_in_time(byte)
                byte = data[position]
                position += 1
                if byte > 127:
                    high = data[position]
                    if high < 128:
                        byte, position = byte + high * 128 - 128, position + 1
                    else:
                        byte, position = read_rest(data, position, byte)
                is_refused = byte != expected
                if is_refused:
                    self._add_error(expected >> 1, f"its offset delta is {decode_zigzag(byte)}, not {expected >> 1}")
                byte = data[position]
                position += 1
                if byte > 127:
                    byte, position = read_rest(data, position, byte)
                if not byte & 1:
                    position += byte >> 1
                elif needs_keys and not is_refused:
                    self._add_error(expected >> 1, "it has no key; every record of a compacted topic needs one")
                    is_refused = True
                byte = data[position]
                position += 1
                if byte > 127:
                    high = data[position]
                    if high < 128:
                        byte, position = byte + high * 128 - 128, position + 1
                    else:
                        byte, position = read_rest(data, position, byte)
                if not byte & 1:
                    position += byte >> 1
                byte = data[position]
                position += 1
                if is_late and not is_refused:
                    self._add_time_error(expected >> 1, previous)
                if byte:
                    parts, position = header_parts(data, position, byte)
                    position, self._parts = skip_headers(data, position, parts, stop_at)
                    if self._parts:
                        self._end = end
                        break
                if position != end:
                    _check_end(position, end)
                left -= 1
                expected += 2
        finally:
            self._position, self.left = position, left

    @property
    def _index(self) -> int:
        return self._header.records_count - self.left

    def _is_in_time(self, delta: int) -> bool:
        timestamp = self._header.base_timestamp + decode_zigzag(delta)
        if not MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
            raise IndexError(f"its timestamp is {timestamp}")
        self.max_timestamp = max(self.max_timestamp, timestamp)
        return timestamp == NO_TIMESTAMP or self._earliest <= timestamp <= self._latest

    def _add_time_error(self, number: int, delta: int) -> None:
        timestamp = self._header.base_timestamp + decode_zigzag(delta)
        message = f"its timestamp {timestamp} is not between {self._earliest} and {self._latest}"
        self._add_error(number, message, ErrorCode.INVALID_TIMESTAMP)

    def _add_error(self, number: int, message: str, code: ErrorCode = ErrorCode.INVALID_RECORD) -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append((number, code, message))


def header_parts(data: bytes | memoryview, position: int, count: int) -> tuple[int, int]:
    """Return the number of names and values, and their position. `count`: the first byte of the number of headers."""
    if count > 0x7F:
        count, position = read_rest(data, position, count)
    if count & 1 or count >> 1 > len(data) - position:
        raise IndexError(f"it has {decode_zigzag(count)} headers")
    return count, position


def skip_headers(data: bytes | memoryview, position: int, parts: int, stop_at: int) -> tuple[int, int]:
    """Skip names and values up to `stop_at`; return the position and the number left, which is even before a name."""
    while parts and position < stop_at:
        byte = data[position]
        position += 1
        if byte > 0x7F:
            byte, position = read_rest(data, position, byte)
        if not byte & 1:
            position += byte >> 1
        elif not parts & 1:
            raise IndexError("a header has no name")
        parts -= 1
    return position, parts


def _check_end(position: int, end: int) -> None:
    if position != end:
        raise IndexError(f"its fields end {position - end} bytes after it")
