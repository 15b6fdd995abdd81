"""What is left of a record after one client wrote it and another one shows it: everything that both can express."""

from __future__ import annotations

import time
from collections.abc import Sequence

from compat_tests.harness.records import Headers, Received, Sent, assert_dense, assert_equal, by_partition, generate
from compat_tests.matrix.client import Abilities

# A record without a time is shown with this one
NO_TIME = -1

Shown = tuple[bytes | None, bytes | None, Headers]


def records_of(writer: Abilities, count: int, seed: int = 1) -> list[Sent]:
    """Records such as the writer can express."""
    traits = writer.traits._replace(sets_timestamp=writer.times == "given")
    found = generate(count, partitions_of(writer), traits, seed)
    return found if writer.writes_headers else [record._replace(headers=()) for record in found]


def partitions_of(writer: Abilities) -> int:
    """Of the topic that it writes to: who chooses the partition by itself is left no choice."""
    return 2 if writer.traits.sets_partition else 1


def assert_carried(
    sent: Sequence[Sent], received: Sequence[Received], writer: Abilities, reader: Abilities, began_ms: int
) -> None:
    """Every record came back once, as whole as can be, in the order of its partition and with dense offsets from 0 on.

    The last two only where the reader shows them.
    """
    assert len(received) == len(sent), f"{len(sent)} records were sent, {len(received)} came back"
    parts = by_partition(received)
    assert parts.keys() == {record.partition or 0 for record in sent}
    if reader.shows_places:
        assert_dense(parts)
    for partition, records in parts.items():
        wanted = [record for record in sent if (record.partition or 0) == partition]
        if reader.shows_places:
            assert records[0].offset == 0, f"partition {partition} begins at {records[0].offset}"
        else:
            for several in (wanted, records):
                several.sort(key=lambda record: (repr(shown(record, writer, reader)), record.timestamp_ms))
        assert_equal(
            [shown(record, writer, reader) for record in wanted],
            [shown(record, writer, reader) for record in records],
            f"partition {partition}",
        )
        for one, other in zip(wanted, records, strict=True):
            assert_time(one, other, writer, reader, began_ms)


def assert_carried_at(
    wanted: Sequence[tuple[int, Sent]], received: Sequence[Received], writer: Abilities, reader: Abilities
) -> None:
    """The same for records with others or markers between them: each has its offset, where the reader shows it."""
    found = list(received)
    if reader.shows_places:
        offsets = {one: [record.offset for record in records] for one, records in by_partition(found).items()}
        places: dict[int, list[int]] = {}
        for offset, record in wanted:
            places.setdefault(record.partition or 0, []).append(offset)
        assert offsets == places
        found = [record._replace(offset=offsets[record.partition].index(record.offset)) for record in found]
    assert_carried([record for _, record in wanted], found, writer, reader, 0)


def shown(record: Sent | Received, writer: Abilities, reader: Abilities) -> Shown:
    """Key, value and headers; those of a received record are compared as they are."""
    key, value, headers = record.key, record.value, record.headers
    if isinstance(record, Sent):
        headers = shown_headers(headers, reader)
    if writer.nulls and reader.nulls:
        return key, value, headers
    return key or b"", value or b"", tuple((name, one or b"") for name, one in headers)


def shown_headers(headers: Headers, reader: Abilities) -> Headers:
    """What is left of them: those of one name may stand together, where the first of them was, or be only the last."""
    if not reader.shows_headers:
        return ()
    if not reader.traits.headers_by_name:
        return headers
    named: dict[str, list[bytes | None]] = {}
    for name, value in headers:
        before = [] if reader.traits.headers_unique else named.get(name, [])
        named[name] = [*before, value]
    return tuple((name, value) for name, values in named.items() for value in values)


def assert_time(sent: Sent, received: Received, writer: Abilities, reader: Abilities, began_ms: int) -> None:
    time_ms = received.timestamp_ms
    if not reader.shows_times or writer.times == "none":
        assert time_ms == NO_TIME, f"{time_ms} is the time of a record that has none: {received}"
    elif sent.timestamp_ms is not None:
        assert time_ms == sent.timestamp_ms, f"{time_ms} is not the time of {sent}"
    else:
        assert began_ms <= time_ms <= time.time() * 1000 + 1000, f"{time_ms} is no time of this test: {received}"
