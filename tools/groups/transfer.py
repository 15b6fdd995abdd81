"""Committed offsets as JSON, out and in. The format is described in docs/groups.md; `version` counts its breaks.

A reader ignores members of objects that it does not know, so that more of them are no break.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from headgate.tools.groups.cluster import Cluster, TopicPartition
from headgate.tools.groups.members import Group
from headgate.tools.groups.offsets import Committed, Offsets
from headgate.tools.groups.target import LARGEST_OFFSET, Badly

FORMAT, VERSION = "headgate group offsets", 1
_LARGEST_PARTITION = (1 << 31) - 1


def document(
    groups: Mapping[str, Group], offsets: Mapping[str, Offsets], cluster_id: str | None, timestamp_ms: int
) -> dict[str, Any]:
    """All that was committed, in an order that does not depend on chance."""
    exported_at = datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return {
        "format": FORMAT,
        "version": VERSION,
        "exported_at": exported_at.replace("+00:00", "Z"),
        "cluster_id": cluster_id,
        "groups": [
            {
                "group": name,
                "type": groups[name].type,
                "state": groups[name].state,
                "protocol": groups[name].protocol,
                "offsets": [
                    {
                        "topic": partition.topic,
                        "partition": partition.number,
                        "offset": row.offset,
                        "leader_epoch": row.leader_epoch if row.leader_epoch >= 0 else None,
                        "metadata": row.metadata,
                    }
                    for partition, row in sorted(rows.items())
                ],
            }
            for name, rows in sorted(offsets.items())
        ],
    }


def parse(text: str, groups: Collection[str]) -> tuple[dict[str, Offsets], str | None]:
    """The offsets of a document, of these groups or of all, and the cluster they are from. Raises Badly."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Badly(f"this is no JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise Badly(f'this is no export of `headgate groups export`: "format" is not "{FORMAT}"')
    if data.get("version") != VERSION:
        raise Badly(f"the export has version {data.get('version')!r}, this tool reads version {VERSION}")
    found: dict[str, Offsets] = {}
    for where, row in _objects(data, "groups", ""):
        name = _text(row, "group", where)
        if name in found:
            raise Badly(f"{where}: group {name!r} is there a second time")
        found[name] = _offsets(row, where)
    missing = [name for name in groups if name not in found]
    if missing:
        raise Badly(
            f"the export has no group {', '.join(map(repr, missing))}; it has {', '.join(sorted(found)) or 'none'}"
        )
    cluster_id = data.get("cluster_id")
    wanted = {name: rows for name, rows in found.items() if rows and (not groups or name in groups)}
    return wanted, cluster_id if isinstance(cluster_id, str) else None


def _offsets(group: Mapping[str, Any], where: str) -> Offsets:
    offsets: Offsets = {}
    for place, row in _objects(group, "offsets", where):
        partition = TopicPartition(_text(row, "topic", place), _number(row, "partition", place, _LARGEST_PARTITION))
        if partition in offsets:
            raise Badly(f"{place}: {partition} is there a second time")
        has_epoch = row.get("leader_epoch") is not None
        epoch = _number(row, "leader_epoch", place, _LARGEST_PARTITION) if has_epoch else -1
        metadata = row.get("metadata") or ""
        if not isinstance(metadata, str):
            raise Badly(f"{place}.metadata: {metadata!r} is no text")
        offsets[partition] = Committed(_number(row, "offset", place, LARGEST_OFFSET), epoch, metadata)
    return offsets


def _objects(data: Mapping[str, Any], name: str, where: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The objects of an array, each with its place in the document."""
    place = f"{where}.{name}".lstrip(".")
    rows = data.get(name)
    if not isinstance(rows, list):
        raise Badly(f"{place}: there is no array")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise Badly(f"{place}[{number}]: {row!r} is no object")
    return [(f"{place}[{number}]", row) for number, row in enumerate(rows)]


def _text(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise Badly(f"{where}.{name}: {value!r} is no name")
    return value


def _number(row: Mapping[str, Any], name: str, where: str, largest: int) -> int:
    value = row.get(name)
    if type(value) is not int or not 0 <= value <= largest:
        raise Badly(f"{where}.{name}: {value!r} is no whole number from 0 on")
    return value


def without_foreign_epochs(
    cluster: Cluster, groups: Mapping[str, Offsets], cluster_id: str | None
) -> dict[str, Offsets]:
    """The offsets as they may be committed here.

    A leader epoch is one of a log of one cluster: in another one, or where the topic was made anew, it would make
    consumers look for a truncation that never was (KIP-320). Kept is what the cluster itself has reached.
    """
    topics = cluster.topics({partition.topic for rows in groups.values() for partition in rows})
    epochs = {
        TopicPartition(name, row.partition_index): row.leader_epoch
        for name, topic in topics.items()
        for row in topic.partitions
    }
    is_same = cluster_id is not None and cluster_id == cluster.cluster_id

    def here(partition: TopicPartition, row: Committed) -> Committed:
        is_known = is_same and row.leader_epoch <= epochs.get(partition, -1)
        return row if is_known else row._replace(leader_epoch=-1)

    return {name: {one: here(one, row) for one, row in rows.items()} for name, rows in groups.items()}
