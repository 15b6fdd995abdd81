"""The JSON documents of a load: its plan, the result of each range, and the manifest that publishes them.

    plan        what will be loaded: topic ids and ranges of offsets, written before any task runs
    result      what one range became: files, rows, gaps; written by the task that ends first
    manifest    all results of a plan, and the offsets that the folder has after it; its creation publishes the load

Numbers of a load begin with 1. Every document names its format and version; a reader takes no other. A reader ignores
unknown members.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.intervals import Interval, Intervals, union
from headgate.spark.reading.log_reader import OffsetRange
from headgate.tools.arguments import LARGEST_OFFSET
from headgate.tools.log.offset_gaps import ABORTED, COMPACTED, DELETED, MARKER, MISSING, Gap

VERSION = 1
PLAN, RESULT, MANIFEST = "headgate load plan", "headgate load result", "headgate load"
REJECTED = "rejected"
REASONS = (DELETED, MARKER, ABORTED, COMPACTED, MISSING, REJECTED)
"""The reasons for gaps, as in `headgate log dump --gaps`, and records that did not decode."""

T = TypeVar("T")
Covered = Mapping[TopicPartition, Intervals]


class DamagedDocument(Exception):
    """A file of a load is not what a load has written; the text names the file and the place."""


class LoadedFile(NamedTuple):
    """A file with rows. `work_name`: its hidden name before the publication; `name`: the visible one afterwards."""

    name: str
    work_name: str
    first_offset: int
    last_offset: int
    rows: int
    size_bytes: int
    sha256: str


class RangeResult(NamedTuple):
    """The result of a range: each offset is a row of a file, or in a gap. `rejected`: files with undecoded values."""

    wanted: OffsetRange
    rows: int
    files: Sequence[LoadedFile]
    gaps: Sequence[Gap]
    rejected: Sequence[LoadedFile] = ()

    @property
    def rejected_rows(self) -> int:
        return sum(file.rows for file in self.rejected)


class LoadPlan(NamedTuple):
    """A load before its tasks. `lost`: offsets that retention took, accepted by the user. `topic_ids`: in hex."""

    number: int
    topic_ids: Mapping[str, str | None]
    ranges: Sequence[OffsetRange]
    lost: Sequence[OffsetRange]
    options: Mapping[str, str]

    @property
    def partitions(self) -> set[TopicPartition]:
        return {wanted.partition for wanted in (*self.ranges, *self.lost)}


class Manifest(NamedTuple):
    """A published load. `covered`: for each partition the offsets that this load and earlier ones have read."""

    number: int
    created_ms: int
    topic_ids: Mapping[str, str | None]
    results: Sequence[RangeResult]
    lost: Sequence[OffsetRange]
    covered: Covered
    options: Mapping[str, str]

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition."""
        return {partition: intervals[-1].end_offset for partition, intervals in self.covered.items() if intervals}


def manifest_of(plan: LoadPlan, results: Sequence[RangeResult], before: Manifest | None, created_ms: int) -> Manifest:
    """The manifest of a plan whose ranges are all done."""
    covered = dict(before.covered) if before else {}
    for wanted in (*plan.ranges, *plan.lost):
        own = Interval(wanted.start_offset, wanted.end_offset)
        covered[wanted.partition] = union([*covered.get(wanted.partition, ()), own])
    topic_ids = {**(before.topic_ids if before else {}), **plan.topic_ids}
    return Manifest(plan.number, created_ms, topic_ids, results, plan.lost, covered, plan.options)


# ------------------------------------------------------------------------------------------------------------- to JSON


def encode_plan(plan: LoadPlan) -> bytes:
    return _encode(
        PLAN,
        number=plan.number,
        topic_ids=dict(plan.topic_ids),
        ranges=[_range(wanted) for wanted in plan.ranges],
        lost=[_range(lost_range) for lost_range in plan.lost],
        options=dict(plan.options),
    )


def encode_result(result: RangeResult) -> bytes:
    return _encode(RESULT, **_result(result))


def encode_manifest(manifest: Manifest) -> bytes:
    covered: dict[str, dict[str, list[list[int]]]] = {}
    for (topic, number), intervals in sorted(manifest.covered.items()):
        covered.setdefault(topic, {})[str(number)] = [list(interval) for interval in intervals]
    positions: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(manifest.positions.items()):
        positions.setdefault(topic, {})[str(number)] = offset
    return _encode(
        MANIFEST,
        number=manifest.number,
        created_ms=manifest.created_ms,
        rows=sum(result.rows for result in manifest.results),
        topic_ids=dict(manifest.topic_ids),
        positions=positions,
        covered=covered,
        ranges=[_result(result) for result in manifest.results],
        lost=[_range(lost_range) for lost_range in manifest.lost],
        options=dict(manifest.options),
    )


def _encode(name: str, **members: Any) -> bytes:
    return json.dumps({"format": name, "version": VERSION, **members}, separators=(",", ":")).encode()


def _range(wanted: OffsetRange) -> list[str | int]:
    return [wanted.partition.topic, wanted.partition.number, wanted.start_offset, wanted.end_offset]


def _result(result: RangeResult) -> dict[str, Any]:
    return {
        "range": _range(result.wanted),
        "rows": result.rows,
        "files": [file._asdict() for file in result.files],
        "gaps": [list(gap) for gap in result.gaps],
        "rejected": [file._asdict() for file in result.rejected],
    }


# ----------------------------------------------------------------------------------------------------------- from JSON


def decode_plan(data: bytes, where: str) -> LoadPlan:
    """Raises DamagedDocument."""
    with_members = _decoder(data, where, PLAN)
    return with_members(
        lambda document: LoadPlan(
            _number(document["number"]),
            _topic_ids(document["topic_ids"]),
            [_to_range(row) for row in document["ranges"]],
            [_to_range(row) for row in document["lost"]],
            _texts(document["options"]),
        )
    )


def decode_result(data: bytes, where: str) -> RangeResult:
    """Raises DamagedDocument."""
    return _decoder(data, where, RESULT)(_to_result)


def decode_manifest(data: bytes, where: str) -> Manifest:
    """Raises DamagedDocument."""
    return _decoder(data, where, MANIFEST)(
        lambda document: Manifest(
            _number(document["number"]),
            _number(document["created_ms"]),
            _topic_ids(document["topic_ids"]),
            [_to_result(row) for row in document["ranges"]],
            [_to_range(row) for row in document["lost"]],
            {
                TopicPartition(topic, _number(int(number))): _to_intervals(rows)
                for topic, partitions in document["covered"].items()
                for number, rows in partitions.items()
            },
            _texts(document["options"]),
        )
    )


def _decoder(data: bytes, where: str, name: str) -> Callable[[Callable[[Any], T]], T]:
    def decode(build: Callable[[Any], T]) -> T:
        try:
            document = json.loads(data)
            if document["format"] != name or document["version"] != VERSION:
                raise DamagedDocument(
                    f"{where}: this is {document['format']!r} of version {document['version']!r}, "
                    f"not {name!r} of version {VERSION}"
                )
            return build(document)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            raise DamagedDocument(f"{where} is damaged, or no {name}: {error!r}") from None

    return decode


def _to_result(row: Any) -> RangeResult:
    return RangeResult(
        _to_range(row["range"]),
        _number(row["rows"]),
        [_to_file(file) for file in row["files"]],
        [_to_gap(gap) for gap in row["gaps"]],
        [_to_file(file) for file in row["rejected"]],
    )


def _to_file(row: Any) -> LoadedFile:
    name, work_name = _file_name(row["name"]), _text(row["work_name"])
    if ".." in work_name.split("/"):
        raise ValueError(f"{work_name!r} leaves the folder")
    first, last, rows, size = (_number(row[field]) for field in ("first_offset", "last_offset", "rows", "size_bytes"))
    return LoadedFile(name, work_name, first, last, rows, size, _text(row["sha256"]))


def _to_range(row: Any) -> OffsetRange:
    topic, number, start, end = row
    found = OffsetRange(TopicPartition(_text(topic), _number(number)), _number(start), _number(end))
    if found.start_offset > found.end_offset:
        raise ValueError(f"{row} is no range")
    return found


def _to_gap(row: Any) -> Gap:
    first, last, reason = row
    if reason not in REASONS or _number(first) > _number(last):
        raise ValueError(f"{row} is no gap")
    return Gap(first, last, reason)


def _to_intervals(rows: Any) -> Intervals:
    found = tuple(Interval(_number(start), _number(end)) for start, end in rows)
    if union(found) != found:
        raise ValueError(f"{rows} are no sorted intervals")
    return found


def _topic_ids(row: Any) -> dict[str, str | None]:
    return {_text(name): None if value is None else bytes.fromhex(value).hex() for name, value in row.items()}


def _texts(row: Any) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in row.items()}


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST_OFFSET:
        raise ValueError(f"{value!r} is no whole number from 0 on")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _file_name(value: Any) -> str:
    if "/" in _text(value) or not value.startswith("part-"):
        raise ValueError(f"{value!r} is no file of a load")
    return str(value)
