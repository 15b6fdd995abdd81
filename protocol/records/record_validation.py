"""The records of a batch, walked through without making objects of them: is each one sound, and may it be appended?

About half a microsecond a record, so that a leader may do it for every batch if it is told to. It looks for what Apache
Kafka's `LogValidator` looks for, record by record: KIP-467 has each refused record told to the producer.
"""

from __future__ import annotations

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import MAX_TIMESTAMP, MIN_TIMESTAMP, NO_TIMESTAMP, BatchHeader
from headgate.protocol.records.varint import decode_zigzag, read_rest

MAX_ERRORS = 100
"""As many records are told of; a batch may hold a hundred thousand."""


class RecordValidator:
    """One batch, whose records are `data`, decompressed."""

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
    )

    def __init__(self, header: BatchHeader, data: bytes, *, needs_keys: bool, earliest: int, latest: int) -> None:
        """`earliest` and `latest` are the times that a record may have; none at all, -1, is always allowed."""
        self._header = header
        self._data = data
        self._needs_keys = needs_keys
        self._earliest = earliest
        self._latest = latest
        self._position = 0
        self._parts = 0  # names and values of headers that are left of a record, as one may have a million of them
        self._end = 0  # where that record ends
        self.left = header.records_count
        self.errors: list[tuple[int, ErrorCode, str]] = []
        """What is wrong with records, one thing of each: its index, a code, a sentence; not more than MAX_ERRORS."""

    def validate_next(self, limit_bytes: int) -> None:
        """Look at the next records, of about so many bytes together.

        Raises KafkaError(INVALID_RECORD) for what is no record, and for bytes behind the last one.
        """
        stop_at = self._position + limit_bytes
        try:
            if self._parts:
                self._go_on(stop_at)
            if not self._parts:
                self._walk(stop_at)
        except IndexError as error:
            message = f"record {self._number} of {self._header.records_count} cannot be read: {error}"
            raise _invalid(message) from None
        if not self.left and self._position != len(self._data):
            raise _invalid(f"the last of {self._header.records_count} records does not end where the batch does")

    def _go_on(self, stop_at: int) -> None:
        """Look at further headers of the record that was begun."""
        self._position, self._parts = skip_headers(self._data, self._position, self._parts, stop_at)
        if not self._parts:
            _check_end(self._position, self._end)
            self.left -= 1

    def _walk(self, stop_at: int) -> None:
        data, position, left = self._data, self._position, self.left
        expected, needs_keys = self._number << 1, self._needs_keys
        previous, is_late = -1, False
        try:
            while left and position < stop_at:
                byte = data[position]
                position += 1
                if byte > 127:  # here, at the offset and the value two bytes are common, and have no call
                    high = data[position]
                    if high < 128:
                        byte, position = byte + high * 128 - 128, position + 1
                    else:
                        byte, position = read_rest(data, position, byte)
                end = position + ((byte >> 1) ^ -(byte & 1))
                byte = data[position + 1]  # after the attributes, unused
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
                    self._note(expected >> 1, f"its offset delta is {decode_zigzag(byte)}, not {expected >> 1}")
                byte = data[position]
                position += 1
                if byte > 127:
                    byte, position = read_rest(data, position, byte)
                if not byte & 1:
                    position += byte >> 1
                elif needs_keys and not is_refused:
                    self._note(expected >> 1, "it has no key; every record of a compacted topic needs one")
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
                    self._note_time(expected >> 1, previous)
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
    def _number(self) -> int:
        return self._header.records_count - self.left

    def _is_in_time(self, delta: int) -> bool:
        timestamp = self._header.base_timestamp + decode_zigzag(delta)
        if not MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
            raise IndexError(f"its timestamp is {timestamp}")
        return timestamp == NO_TIMESTAMP or self._earliest <= timestamp <= self._latest

    def _note_time(self, number: int, delta: int) -> None:
        timestamp = self._header.base_timestamp + decode_zigzag(delta)
        sentence = f"its timestamp {timestamp} is not between {self._earliest} and {self._latest}"
        self._note(number, sentence, ErrorCode.INVALID_TIMESTAMP)

    def _note(self, number: int, sentence: str, code: ErrorCode = ErrorCode.INVALID_RECORD) -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append((number, code, sentence))


def header_parts(data: bytes, position: int, count: int) -> tuple[int, int]:
    """How many names and values there are, and their position; `count` is the first byte of how many headers."""
    if count > 0x7F:
        count, position = read_rest(data, position, count)
    if count & 1 or count >> 1 > len(data) - position:
        raise IndexError(f"it has {decode_zigzag(count)} headers")
    return count, position


def skip_headers(data: bytes, position: int, parts: int, stop_at: int) -> tuple[int, int]:
    """The position behind names and values, and how many are left at `stop_at`: an even number before a name."""
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
        raise IndexError(f"its fields end {position - end} bytes behind it")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
