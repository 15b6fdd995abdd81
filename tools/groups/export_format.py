"""Committed offsets as JSON, for export and import. docs/groups.md describes the format.

A reader ignores unknown members of objects, so a new member needs no new `version`; an incompatible change does.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.arguments import LARGEST_OFFSET
from headgate.tools.client.cluster import Cluster
from headgate.tools.groups.members import GroupDescription
from headgate.tools.groups.offsets import CommittedOffsets, OffsetAndMetadata
from headgate.tools.output import UsageError

FORMAT, VERSION = "headgate group offsets", 1
_LARGEST_PARTITION = (1 << 31) - 1


def build_document(
    groups: Mapping[str, GroupDescription],
    offsets: Mapping[str, CommittedOffsets],
    cluster_id: str | None,
    timestamp_ms: int,
) -> dict[str, Any]:
    """The document with all committed offsets, sorted by group and partition."""
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


def parse_document(text: str, groups: Collection[str]) -> tuple[dict[str, CommittedOffsets], str | None]:
    """The offsets by group and the cluster id of a document. `groups`: the wanted groups, none for all.

    Groups without offsets are left out. Raises UsageError.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is no JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UsageError(f'this is no export of `headgate groups export`: "format" is not "{FORMAT}"')
    if data.get("version") != VERSION:
        raise UsageError(f"the export has version {data.get('version')!r}, this tool reads version {VERSION}")
    found: dict[str, CommittedOffsets] = {}
    for where, row in _objects(data, "groups", ""):
        name = _text(row, "group", where)
        if name in found:
            raise UsageError(f"{where}: group {name!r} stands in the document twice")
        found[name] = _offsets(row, where)
    missing = [name for name in groups if name not in found]
    if missing:
        raise UsageError(
            f"the export has no group {', '.join(map(repr, missing))}; it has {', '.join(sorted(found)) or 'none'}"
        )
    cluster_id = data.get("cluster_id")
    wanted = {name: rows for name, rows in found.items() if rows and (not groups or name in groups)}
    return wanted, cluster_id if isinstance(cluster_id, str) else None


def _offsets(group: Mapping[str, Any], where: str) -> CommittedOffsets:
    offsets: CommittedOffsets = {}
    for path, row in _objects(group, "offsets", where):
        partition = TopicPartition(_text(row, "topic", path), _number(row, "partition", path, _LARGEST_PARTITION))
        if partition in offsets:
            raise UsageError(f"{path}: {partition} stands in the document twice")
        has_epoch = row.get("leader_epoch") is not None
        epoch = _number(row, "leader_epoch", path, _LARGEST_PARTITION) if has_epoch else -1
        metadata = row.get("metadata") or ""
        if not isinstance(metadata, str):
            raise UsageError(f"{path}.metadata: {metadata!r} is no text")
        offsets[partition] = OffsetAndMetadata(_number(row, "offset", path, LARGEST_OFFSET), epoch, metadata)
    return offsets


def _objects(data: Mapping[str, Any], name: str, where: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The objects of an array, each with its path in the document."""
    path = f"{where}.{name}".lstrip(".")
    rows = data.get(name)
    if not isinstance(rows, list):
        raise UsageError(f"{path}: there is no array")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise UsageError(f"{path}[{number}]: {row!r} is no object")
    return [(f"{path}[{number}]", row) for number, row in enumerate(rows)]


def _text(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where}.{name}: {value!r} is no name")
    return value


def _number(row: Mapping[str, Any], name: str, where: str, largest: int) -> int:
    value = row.get(name)
    if type(value) is not int or not 0 <= value <= largest:
        raise UsageError(f"{where}.{name}: {value!r} is no whole number from 0 on")
    return value


def drop_foreign_epochs(
    cluster: Cluster, groups: Mapping[str, CommittedOffsets], cluster_id: str | None
) -> dict[str, CommittedOffsets]:
    """The offsets with -1 in place of every leader epoch that the logs of this cluster have not reached.

    A leader epoch belongs to a log of one cluster. In another cluster, or in a recreated topic, a foreign epoch
    would make consumers look for a truncation that never happened (KIP-320).
    """
    topics = cluster.topics({partition.topic for rows in groups.values() for partition in rows})
    epochs = {
        TopicPartition(name, row.partition_index): row.leader_epoch
        for name, topic in topics.items()
        for row in topic.partitions
    }
    is_same = cluster_id is not None and cluster_id == cluster.routing.cluster_id

    def without_foreign_epoch(partition: TopicPartition, row: OffsetAndMetadata) -> OffsetAndMetadata:
        is_known = is_same and row.leader_epoch <= epochs.get(partition, -1)
        return row if is_known else row._replace(leader_epoch=-1)

    return {
        name: {partition: without_foreign_epoch(partition, row) for partition, row in rows.items()}
        for name, rows in groups.items()
    }
