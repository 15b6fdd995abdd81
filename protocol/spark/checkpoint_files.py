"""The files in the checkpoint of a Spark streaming query: text to values. This module opens no file.

metadata          the id of the query
offsets/<batch>   the end of the batch in each source; Spark writes this file before the batch runs
commits/<batch>   exists once the batch is done
sources/<n>/0     the offsets at which source n began

Offset logs of version 1 have a line for each source, in the order of the sources; version 2 (Spark 4.2) names the
source in front of a colon. A dash stands for a source without an offset. The formats `kafka` and `headgate` write
`{"topic": {"0": 250}}`, the next offset of each partition; lines of other sources are kept as text. In batch 0 of the
format `headgate`, the member `#start` has the offsets at which the query began, as Spark keeps no file for it.
Source: Spark's `OffsetSeqLog`, `HDFSMetadataLog` and `KafkaSourceOffset`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Positions: TypeAlias = dict[tuple[str, int], int]
"""The next offset to read by topic and partition."""

VERSIONS: Final = (1, 2)
MAX_FILE_BYTES: Final = 64 << 20
"""The limit of one file. A million partitions take 20 MB."""
_NO_OFFSET: Final = "-"
_OTHER: Final = "#"
"""Members that are no topics begin with this character, which no topic has."""
_START: Final = "#start"
_MAX_OFFSET, _MAX_PARTITION = (1 << 63) - 1, (1 << 31) - 1


class MalformedCheckpoint(ValueError):
    """A file of a checkpoint is damaged, or of an unknown version. A read of text raises no other error."""


class BatchOffsets(NamedTuple):
    """One file of the offset log. `sources`: the offsets of each source as JSON; None for a source without an offset.

    `planned_ms`: the start of the batch in ms since 1970, 0 if unknown.
    """

    version: int
    planned_ms: int
    sources: Mapping[str, str | None]

    def positions(self) -> Positions:
        """The end of the batch in all partitions. A partition of several sources counts with the lowest offset."""
        return lowest(filter(None, map(parse_positions, filter(None, self.sources.values()))))

    def initial_positions(self) -> Positions:
        """The beginning of the query, as far as its sources note it in the offsets of batch 0."""
        return lowest(filter(None, map(_start, filter(None, self.sources.values()))))

    def others(self) -> dict[str, str]:
        """The offsets by source that `positions` does not show: of other formats, and of partitions of two sources."""
        read = {name: parse_positions(text) for name, text in self.sources.items() if text is not None}
        counts = Counter(partition for positions in read.values() for partition in positions or ())
        shared = {partition for partition, count in counts.items() if count > 1}
        return {
            name: _canonical(str(self.sources[name]))
            for name, positions in read.items()
            if positions is None or not shared.isdisjoint(positions)
        }

    def foreign(self) -> list[str]:
        """The sources with offsets of another format than Kafka's."""
        return [name for name, text in self.sources.items() if text is not None and parse_positions(text) is None]


class Progress(NamedTuple):
    """`done`: the last batch that is done. `planned`: the batch that Spark runs again at the next start, if any."""

    done: int | None
    planned: int | None


def parse_offsets(text: str) -> BatchOffsets:
    """The content of `offsets/<batch>`. Raises MalformedCheckpoint."""
    version, lines = _lines(text, "an offset log")
    metadata = _object(lines[0], "the metadata of an offset log") if lines and lines[0].strip() else {}
    planned_ms = metadata.get("batchTimestampMs", 0)
    if type(planned_ms) is not int or planned_ms < 0:
        raise MalformedCheckpoint(f"the offset log has the time {planned_ms!r}")
    rows = [line for line in lines[1:] if line]
    return BatchOffsets(version, planned_ms, _named(rows) if version > 1 else _numbered(rows))


def _numbered(rows: Iterable[str]) -> dict[str, str | None]:
    return {str(number): _offset(row) for number, row in enumerate(rows)}


def _named(rows: Iterable[str]) -> dict[str, str | None]:
    sources: dict[str, str | None] = {}
    for row in rows:
        name, colon, text = row.partition(":")
        if not colon or name in sources:
            what = "repeats a source" if colon else "names no source"
            raise MalformedCheckpoint(f"the line {row[:80]!r} of an offset log {what}")
        sources[name] = _offset(text)
    return sources


def _offset(text: str) -> str | None:
    return None if text == _NO_OFFSET else text


def parse_positions(text: str) -> Positions | None:
    """The offsets of one source; None if they are not Kafka's. Raises MalformedCheckpoint."""
    data = _source(text)
    if data is None:
        return None
    positions: Positions = {}
    for topic, offsets in data.items():
        if topic.startswith(_OTHER):
            continue
        if not isinstance(offsets, dict):
            return None
        for number, offset in offsets.items():
            if not _is_partition(number) or type(offset) is not int:
                return None
            if not 0 <= offset <= _MAX_OFFSET:
                raise MalformedCheckpoint(f"{topic}-{number} has the offset {offset}")
            positions[topic, int(number)] = offset
    return positions


def _source(text: str) -> dict[str, Any] | None:
    """The object of a source; None if its offset is none. Raises MalformedCheckpoint."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.startswith("{"):
            raise MalformedCheckpoint(f"the offsets of a source are no whole JSON: {error}") from None
        return None
    return data if isinstance(data, dict) else None


def _canonical(text: str) -> str:
    """The same text for offsets that differ in the order of their members or in spaces only."""
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _start(text: str) -> Positions | None:
    start = (_source(text) or {}).get(_START)
    return parse_positions(json.dumps(start)) if isinstance(start, dict) else None


def _is_partition(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= _MAX_PARTITION


def lowest(found: Iterable[Positions]) -> Positions:
    """The lowest offset of each partition: everything before it is read by all."""
    positions: Positions = {}
    for one in found:
        for partition, offset in one.items():
            positions[partition] = min(offset, positions.get(partition, offset))
    return positions


def parse_initial_positions(data: bytes) -> Positions | None:
    """The content of `sources/<n>/0`; None for another source than Kafka's. Raises MalformedCheckpoint.

    The file begins with a zero byte, for Spark 2.1.0 (SPARK-19517).
    """
    text = decode(data.removeprefix(b"\0"))
    if not text.startswith("v"):
        return parse_positions(text)
    _, lines = _lines(text, "the initial offsets of a source")
    return parse_positions("\n".join(lines))


def parse_query_id(text: str) -> str:
    """The content of `metadata`: the id of the query. Raises MalformedCheckpoint."""
    query_id = _object(text, "the metadata of a checkpoint").get("id")
    if not isinstance(query_id, str) or not query_id:
        raise MalformedCheckpoint("the metadata of the checkpoint have no id of a query")
    return query_id


def decode(data: bytes) -> str:
    """The text of a file. Raises MalformedCheckpoint."""
    if len(data) > MAX_FILE_BYTES:
        raise MalformedCheckpoint(f"the file has more than {MAX_FILE_BYTES >> 20} MiB")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise MalformedCheckpoint("the file is no text") from None


def batch_numbers(names: Iterable[str]) -> list[int]:
    """The batches among the names of files, in order. Other names are checksums and drafts."""
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal() and len(name) < 20)


def find_progress(offsets: Collection[int], commits: Collection[int]) -> Progress:
    """The progress of a query by the batches in both logs. Spark runs a planned batch again, to the same ends."""
    done = max(set(offsets) & set(commits), default=None)
    planned = max(offsets, default=None)
    return Progress(done, planned if planned != done else None)


def _lines(text: str, what: str) -> tuple[int, list[str]]:
    """The version in the first line, and the other lines."""
    first, *lines = text.replace("\r\n", "\n").split("\n")
    number = first[1:]
    if not first.startswith("v") or not (number.isascii() and number.isdecimal() and len(number) < 10):
        raise MalformedCheckpoint(f"{what} begins with {first[:40]!r} in place of a version")
    if int(number) not in VERSIONS:
        raise MalformedCheckpoint(f"{what} has version {number}; versions 1 and 2 are known here")
    return int(number), lines


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedCheckpoint(f"{what} are no JSON: {error}") from None
    if not isinstance(data, dict):
        raise MalformedCheckpoint(f"{what} are no JSON object")
    return data
