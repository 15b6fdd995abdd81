"""Messages as a file: JSON lines, CSV, or the values as they are, each a file in an archive of tar.

An export reads one partition after the other, in the order of offsets, so that it keeps one message in memory. It has
bounds; a file that ends at one says so in its last entry.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import tarfile
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Final, Protocol

from headgate.protocol.errors import KafkaError
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.messages.fetching import PieceFetcher
from headgate.tools.console.messages.query import MessageQuery
from headgate.tools.console.messages.ranges import find_ranges
from headgate.tools.console.messages.record_batches import FetchedPiece, PieceReader
from headgate.tools.console.messages.rows import DecodedMessage, MessageDecoder
from headgate.tools.console.messages.scan import OffsetSpan
from headgate.tools.console.messages.search import READ_BYTES_PER_S, Counters, Pace, QueryReader, SearchClock
from headgate.tools.console.messages.values import decoder as formats
from headgate.tools.console.messages.values.decoder import DecodedValue
from headgate.tools.log.decoding import as_json, timestamp_type

JSON_LINES, CSV, VALUES = "jsonl", "csv", "values"
FORMATS: Final = (JSON_LINES, CSV, VALUES)
MEDIA_TYPES: Final = {JSON_LINES: "application/x-ndjson", CSV: "text/csv; charset=utf-8", VALUES: "application/x-tar"}
ENDINGS: Final = {JSON_LINES: "jsonl", CSV: "csv", VALUES: "tar"}
MOST_RECORDS: Final = 100_000
MOST_BYTES: Final = 1 << 30
LONGEST_S: Final = 600.0
LARGEST_VALUE_BYTES: Final = 16 << 20
"""In a line of JSON or CSV; a larger value has a sentence in its place, and is whole in an archive."""
_PARTITION_BYTES: Final = 1 << 20
_WHOLE: Final = 1 << 30
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class ExportWriter(Protocol):
    """Makes the bytes of a file."""

    def begin(self) -> bytes: ...

    def add(self, message: DecodedMessage) -> bytes: ...

    def end(self, sentence: str | None) -> bytes:
        """The end of the file; `sentence`: the reason why it does not have all messages."""


def export(
    cluster: Cluster, query: MessageQuery, decoder: MessageDecoder, file_format: str, time_: SearchClock | None = None
) -> Iterator[bytes]:
    """The parts of the file. Raises ClientError."""
    writer = _WRITERS[file_format](query.topic)
    yield writer.begin()
    size = 0
    sentence = None
    for count, message in enumerate(_Messages(cluster, query, decoder, time_ or SearchClock()).read()):
        if isinstance(message, str):
            sentence = message
            break
        if count == query.limit or size >= MOST_BYTES:
            sentence = f"the export ends after {count} messages and {size} bytes; more match"
            break
        data = writer.add(message)
        size += len(data)
        yield data
    yield writer.end(sentence)


class _Messages:
    def __init__(self, cluster: Cluster, query: MessageQuery, decoder: MessageDecoder, time_: SearchClock) -> None:
        self._cluster = cluster
        self._query = query
        self._reader = QueryReader(query, decoder, Counters())
        self._time = time_
        self._pace = Pace(READ_BYTES_PER_S, time_)

    def read(self) -> Iterator[DecodedMessage | str]:
        """The matching messages; a sentence when the time is over. Raises ClientError."""
        began_s = self._time.now_s()
        found = find_ranges(self._cluster, self._query)
        for problem in found.problems:
            raise ClientError(problem)
        fetcher = PieceFetcher(
            self._cluster,
            self._query.topic,
            found.stable,
            is_committed=self._query.is_committed,
            sleep=self._time.sleep,
        )
        for number, range_ in sorted(found.ranges.items()):
            offset, end = range_
            while offset < end:
                if self._time.now_s() - began_s > LONGEST_S:
                    yield f"the export ends after {LONGEST_S:g} s; more may match"
                    return
                pieces, failures = fetcher.fetch({number: offset}, _PARTITION_BYTES)
                for failure in failures.values():
                    raise ClientError(f"{self._query.topic}-{number} cannot be read further: {failure.text}")
                offset = yield from self._matching(number, pieces[number], OffsetSpan(offset, end))
                self._pace.spend(len(pieces[number].data))

    def _matching(self, number: int, piece: FetchedPiece, bounds: OffsetSpan) -> Generator[DecodedMessage, None, int]:
        """The matching messages of a piece; returns the offset after it. Raises ClientError."""
        reader = PieceReader(number, piece)
        try:
            for message in reader.messages(bounds.start):
                if message.record.offset >= bounds.end:
                    return bounds.end
                decoded = self._reader.examine(message)
                if decoded is not None:
                    yield decoded
        except KafkaError as error:
            raise ClientError(f"{self._query.topic}-{number} cannot be read further: {error.message}") from None
        if piece.is_last:
            return bounds.end
        if reader.next_offset <= bounds.start:
            raise ClientError(f"{self._query.topic}-{number} has nothing at offset {bounds.start}")
        return reader.next_offset


def is_large(message: DecodedMessage) -> bool:
    """Whether the value has no place in a line."""
    return len(message.record.value or b"") > LARGEST_VALUE_BYTES


def _size_sentence(message: DecodedMessage) -> str:
    return f"the value has {len(message.record.value or b'')} bytes; export the values to have it"


class _JsonLines:
    """One object a message; a value of JSON is a value, and bytes that are no text are base64."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def begin(self) -> bytes:
        return b""

    def add(self, message: DecodedMessage) -> bytes:
        record, header = message.record, message.message.header
        row = {
            "topic": self._topic,
            "partition": message.message.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": timestamp_type(header),
            "kind": message.kind,
            "transaction": message.message.transaction,
            "key": _json_value(message.key()),
            "value": None if is_large(message) else _json_value(message.value()),
            "headers": [[name, as_json(content)] for name, content in record.headers],
            "problem": _size_sentence(message) if is_large(message) else message.message.fault,
        }
        return json.dumps(row).encode() + b"\n"

    def end(self, sentence: str | None) -> bytes:
        return b"" if sentence is None else json.dumps({"incomplete": sentence}).encode() + b"\n"


def _json_value(value: DecodedValue | None) -> Any:
    if value is None:
        return None
    if value.format in (formats.TEXT, formats.HEX):
        return as_json(value.content)
    if value.format == formats.RAW_PROTOBUF:
        return value.data
    try:
        return value.value()
    except ValueError:
        return as_json(value.content)


class _Csv:
    """A table for programs of spreadsheets. A text that such a program would run gets an apostrophe in front."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def begin(self) -> bytes:
        return self._line("partition", "offset", "timestamp", "kind", "transaction", "key", "value", "headers")

    def add(self, message: DecodedMessage) -> bytes:
        record = message.record
        headers = [[name, as_json(content)] for name, content in record.headers]
        return self._line(
            message.message.partition,
            record.offset,
            _iso(record.timestamp),
            message.kind,
            message.message.transaction or "",
            _csv_text(message.key()),
            _size_sentence(message) if is_large(message) else _csv_text(message.value()),
            json.dumps(headers, ensure_ascii=False) if headers else "",
        )

    def end(self, sentence: str | None) -> bytes:
        return b"" if sentence is None else self._line(f"incomplete: {sentence}")

    def _line(self, *cells: object) -> bytes:
        out = io.StringIO()
        csv.writer(out).writerow([_harmless(cell) if isinstance(cell, str) else cell for cell in cells])
        return out.getvalue().encode(errors="backslashreplace")


def _csv_text(value: DecodedValue | None) -> str:
    return "" if value is None else value.text(_WHOLE, has_lines=False)


def _harmless(text: str) -> str:
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return "'" + text
    return text


def _iso(timestamp_ms: int) -> str:
    try:
        return dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)


class _Values:
    """An archive of tar with a file for each value, `<partition>-<offset>`; tombstones have none."""

    def __init__(self, topic: str) -> None:
        self._out = io.BytesIO()
        self._archive = tarfile.TarFile(fileobj=self._out, mode="w", format=tarfile.PAX_FORMAT)

    def begin(self) -> bytes:
        return b""

    def add(self, message: DecodedMessage) -> bytes:
        record = message.record
        if record.value is not None:
            self._file(f"{message.message.partition}-{record.offset}", record.value, record.timestamp)
        return self._taken()

    def end(self, sentence: str | None) -> bytes:
        if sentence is not None:
            self._file("incomplete.txt", f"{sentence}\n".encode(), 0)
        self._archive.close()
        return self._taken()

    def _file(self, name: str, content: bytes, timestamp_ms: int) -> None:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        entry.mtime = min(max(0, timestamp_ms // 1000), 1 << 33)
        self._archive.addfile(entry, io.BytesIO(content))

    def _taken(self) -> bytes:
        data = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return data


_WRITERS: Final[Mapping[str, Callable[[str], ExportWriter]]] = {JSON_LINES: _JsonLines, CSV: _Csv, VALUES: _Values}
