"""Committed offsets as the text of Kafka's ExportZkOffsets and ImportZkOffsets (0.8 to 0.11): one line an offset.

    /consumers/billing/offsets/orders/0:1000

The path is the path of the node in ZooKeeper. The text has no metadata and no leader epochs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.arguments import parse_offset
from headgate.tools.groups.offsets import CommittedOffsets, OffsetAndMetadata
from headgate.tools.output import UsageError

_LARGEST_PARTITION: Final = (1 << 31) - 1
_FORM: Final = "/consumers/<group>/offsets/<topic>/<partition>:<offset>"
_PATH: Final = re.compile(r"/consumers/([^/]+)/offsets/([a-zA-Z0-9._-]+)/([^/]*)")
_OF_0_7: Final = re.compile(r"[0-9]+-[0-9]+", re.ASCII)
_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


def is_zookeeper_text(text: str) -> bool:
    """True if a file begins as such a text does. A document of `headgate groups export` begins with a brace."""
    return text.lstrip().startswith("/")


def build_text(offsets: Mapping[str, CommittedOffsets]) -> str:
    """The lines of all offsets, sorted by group and partition. Raises UsageError for a group id with a slash."""
    unnameable = sorted(group for group in offsets if "/" in group)
    if unnameable:
        raise UsageError(f"group {unnameable[0]!r} cannot be in ZooKeeper, as its name has a slash; leave it out")
    return "\n".join(
        f"/consumers/{group}/offsets/{partition.topic}/{partition.number}:{row.offset}"
        for group, rows in sorted(offsets.items())
        for partition, row in sorted(rows.items())
    )


def parse_text(text: str, groups: Collection[str]) -> dict[str, CommittedOffsets]:
    """The offsets by group. `groups`: the wanted groups, none for all. Raises UsageError, which names the line."""
    found: dict[str, CommittedOffsets] = {}
    for number, group, partition, offset in _lines(text.splitlines()):
        rows = found.setdefault(group, {})
        if partition in rows:
            raise UsageError(f"line {number}: {partition} of group {group} stands in the file twice")
        rows[partition] = OffsetAndMetadata(offset)
    missing = [name for name in groups if name not in found]
    if missing:
        raise UsageError(f"the file has no group {', '.join(map(repr, missing))}; it has {', '.join(sorted(found))}")
    return {name: rows for name, rows in found.items() if not groups or name in groups}


def _lines(lines: Iterable[str]) -> Iterable[tuple[int, str, TopicPartition, int]]:
    """Number, group, partition and offset of each line that is not blank."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, *_parse(line.strip())
            except UsageError as error:
                raise UsageError(f"line {number}: {error}") from None


def _parse(line: str) -> tuple[str, TopicPartition, int]:
    path, colon, offset = line.rpartition(":")
    found = _PATH.fullmatch(path)
    if found is None or not colon:
        raise UsageError(f"{line[:200]!r} is not {_FORM}")
    group, topic, partition = found.groups()
    if _OF_0_7.fullmatch(partition):
        raise UsageError(f"{partition!r} is a broker and a partition of Kafka 0.7, whose offsets count bytes")
    if not _PARTITION.fullmatch(partition) or int(partition) > _LARGEST_PARTITION:
        raise UsageError(f"{partition[:200]!r} is no partition; a line is {_FORM}")
    return group, TopicPartition(topic, int(partition)), parse_offset(offset)
