"""What a visitor asks for: where to read, which messages, and how to show them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headgate.tools.console.messages.filters import Filters
from headgate.tools.console.messages.scan import OffsetSpan
from headgate.tools.console.messages.values import decoder
from headgate.tools.console.parameters import BadParameter, Parameters

NEWEST, OLDEST, OFFSET, TIME, LIVE = "newest", "oldest", "offset", "time", "live"
STARTS: Final = (NEWEST, OLDEST, OFFSET, TIME, LIVE)
READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"
MOST_PARTITIONS: Final = 256
"""Of one search."""
MOST_ROWS: Final = 500
_USUAL_ROWS: Final = 100
_LONGEST_NAME: Final = 249
_NO_FILTERS: Final = Filters()
_SPAN: Final = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
_RANGE: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,19})-([0-9]{1,19})")


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """A search. `partitions`: empty for all. `ranges`: those of a next page, in place of `start`.

    `time_ms` and `offset` belong to the starts TIME and OFFSET. `until_ms`: messages before this time; None: all.
    """

    topic: str
    start: str = NEWEST
    offset: int = 0
    time_ms: int = 0
    until_ms: int | None = None
    partitions: tuple[int, ...] = ()
    ranges: dict[int, OffsetSpan] | None = None
    limit: int = _USUAL_ROWS
    isolation: str = READ_UNCOMMITTED
    filters: Filters = _NO_FILTERS
    key_format: str = decoder.AUTO
    value_format: str = decoder.AUTO
    message_type: str = ""

    @property
    def is_committed(self) -> bool:
        return self.isolation == READ_COMMITTED

    @property
    def is_backward(self) -> bool:
        return self.start == NEWEST


def parse_query(parameters: Parameters, most_rows: int = MOST_ROWS) -> MessageQuery:
    """The search of an address. Raises BadParameter."""
    start = parameters.choice("start", STARTS)
    return MessageQuery(
        topic=parse_topic(parameters),
        start=start,
        offset=parameters.number("offset") if start == OFFSET else 0,
        time_ms=parameters.number("time_ms") if start == TIME else 0,
        until_ms=parameters.number("until_ms") if parameters.has("until_ms") else None,
        partitions=_partitions(parameters),
        ranges=parse_ranges(parameters.text("ranges")) if parameters.has("ranges") else None,
        limit=parameters.number("limit", min(_USUAL_ROWS, most_rows), least=1, most=most_rows),
        isolation=parameters.choice("isolation", (READ_UNCOMMITTED, READ_COMMITTED)),
        filters=Filters.of_parameters(parameters),
        key_format=parameters.choice("key_format", decoder.FORMATS),
        value_format=parameters.choice("value_format", decoder.FORMATS),
        message_type=parameters.text("message_type", "")[:1000],
    )


def parse_topic(parameters: Parameters) -> str:
    """The name of the topic. Raises BadParameter."""
    topic = parameters.text("topic")
    if not 0 < len(topic) <= _LONGEST_NAME:
        raise BadParameter(f"the name of a topic has 1 to {_LONGEST_NAME} characters")
    return topic


def _partitions(parameters: Parameters) -> tuple[int, ...]:
    """Numbers and spans, as in `partition=0-3,7`. Raises BadParameter."""
    found: set[int] = set()
    for part in filter(None, parameters.text("partition", "").replace(" ", "").split(",")):
        match = _SPAN.fullmatch(part)
        if match is None:
            raise BadParameter(f"partition={part[:40]!r} is no number of a partition; write 0-3,7")
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first >= MOST_PARTITIONS:
            raise too_many_partitions(last - first + 1)
        found.update(range(first, last + 1))
    if len(found) > MOST_PARTITIONS:
        raise too_many_partitions(len(found))
    return tuple(sorted(found))


def too_many_partitions(count: int) -> BadParameter:
    return BadParameter(f"{count} partitions are too many for one search; choose at most {MOST_PARTITIONS}: 0-3,7")


def parse_ranges(text: str) -> dict[int, OffsetSpan]:
    """The ranges of `format_ranges`. Raises BadParameter."""
    found: dict[int, OffsetSpan] = {}
    for part in text.split(",") if text else ():
        match = _RANGE.fullmatch(part)
        if match is None:
            raise BadParameter(f"ranges={part[:40]!r} is no range of offsets; write partition:start-end")
        number, start, end = map(int, match.groups())
        found[number] = OffsetSpan(start, end)
    if len(found) > MOST_PARTITIONS:
        raise too_many_partitions(len(found))
    return found


def format_ranges(ranges: dict[int, OffsetSpan]) -> str:
    """Ranges of offsets as a parameter: `0:100-250,1:50-80`."""
    return ",".join(f"{number}:{start}-{end}" for number, (start, end) in ranges.items())
