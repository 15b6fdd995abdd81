"""Locations of offsets: of a reader, of a time, or in a file.

checkpoint:FOLDER   a streaming query, after its last done batch
group:NAME          a group, in the coordinator
zookeeper:NAME      a group of clients of the 0.8 age: OffsetFetch 0 and OffsetCommit 0
table:OUT           an output of `headgate spark load`
time:WHEN           the first record at a time: 2026-11-21T15:00Z, 2h, earliest, latest; with --topic
file:FILE           the JSON of `headgate groups export`, or the text of Kafka's ExportZkOffsets
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple

from headgate.protocol.spark.checkpoint import rates
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions import checkpoint, topic_ids
from headgate.tools.arguments import now_ms
from headgate.tools.client.cluster import Cluster, group_by_failure, select_partitions
from headgate.tools.groups import arguments, export_format, zookeeper_text
from headgate.tools.groups.arguments import Time
from headgate.tools.groups.offsets import CommittedOffsets, OffsetAndMetadata, fetch_committed, list_ends, list_offsets
from headgate.tools.groups.stores import fetch_zookeeper
from headgate.tools.output import UsageError

CHECKPOINT, GROUP, ZOOKEEPER, TABLE, TIME, FILE = "checkpoint", "group", "zookeeper", "table", "time", "file"
SPARK: Final = "spark"
KINDS: Final = (CHECKPOINT, GROUP, ZOOKEEPER, TABLE, TIME, FILE)

WantedTopics = Mapping[str, list[int] | None]
Connect = Callable[[], Cluster]


class OffsetLocation(NamedTuple):
    """A location of offsets, by its kind and its name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class LocationOffsets(NamedTuple):
    """The offsets at a location. `cluster_id`: the cluster that the leader epochs belong to; None if unknown.

    `topic_ids`: the ids of the topics that the offsets belong to, as far as they are noted.
    """

    offsets: CommittedOffsets
    cluster_id: str | None = None
    rates: Mapping[TopicPartition, float] = {}
    notes: tuple[str, ...] = ()
    topic_ids: Mapping[str, bytes] = {}


def parse_location(text: str, kinds: Collection[str] = KINDS) -> OffsetLocation:
    """The location that a text names; the bare path of a checkpoint will do. Raises UsageError."""
    kind, colon, name = text.partition(":")
    if colon and kind in kinds and (name or kind == SPARK):
        return OffsetLocation(kind, name)
    if CHECKPOINT in kinds and (Path(text) / "offsets").is_dir():
        return OffsetLocation(CHECKPOINT, text)
    near = get_close_matches(kind, kinds, n=1) if colon else []
    advice = f"did you mean {near[0]}:{name}?" if near else f"write one of {', '.join(f'{kind}:...' for kind in kinds)}"
    raise UsageError(f"{text!r} is no place of offsets here; {advice}")


def read_location(location: OffsetLocation, connect: Connect, topics: WantedTopics, group: str = "") -> LocationOffsets:
    """The offsets at a location, of all topics or of `topics`. `group`: the group in a file. Raises UsageError."""
    match location.kind:
        case "checkpoint":
            found = _of_checkpoint(location)
        case "group":
            found = _of_group(location, connect())
        case "zookeeper":
            found = _of_zookeeper(location, connect(), topics)
        case "table":
            found = _of_table(location)
        case "time":
            found = _of_time(location, connect(), topics)
        case _:
            found = _of_file(location, group)
    if not topics:
        return found
    return found._replace(
        offsets={partition: at for partition, at in found.offsets.items() if is_wanted(partition, topics)}
    )


def is_wanted(partition: TopicPartition, topics: WantedTopics) -> bool:
    """True if `topics` has the partition, or is empty."""
    numbers = topics.get(partition.topic, []) if topics else None
    return numbers is None or partition.number in numbers


def _of_checkpoint(location: OffsetLocation) -> LocationOffsets:
    folder = checkpoint.open_folder(location.name)
    found = checkpoint.read_checkpoint(location.name, folder=folder)
    notes = []
    if found.progress.planned is not None:
        notes.append(
            f"{location}: batch {found.progress.planned} is planned but not done; the offsets are those before it"
        )
    if found.foreign:
        notes.append(f"{location}: the sources {', '.join(found.foreign)} do not read Kafka, and are left out")
    offsets = {partition: OffsetAndMetadata(offset) for partition, offset in found.offsets.items()}
    return LocationOffsets(offsets, None, rates(found.batches), tuple(notes), topic_ids.read(folder).ids)


def _of_group(location: OffsetLocation, cluster: Cluster) -> LocationOffsets:
    found, failed = fetch_committed(cluster, [location.name])
    if failed:
        raise UsageError(f"the offsets of {location} are not known: {failed[location.name].text}")
    cluster.topics({partition.topic for partition in found[location.name]})  # the id of the cluster comes with topics
    return LocationOffsets(found[location.name], cluster.routing.cluster_id)


def _of_zookeeper(location: OffsetLocation, cluster: Cluster, topics: WantedTopics) -> LocationOffsets:
    found, failed = fetch_zookeeper(cluster, [location.name])
    if not failed and not found[location.name].offsets:
        partitions, _ = select_partitions(cluster, topics or dict.fromkeys(cluster.topics(None)))
        found, failed = fetch_zookeeper(cluster, [location.name], partitions)
    if failed:
        raise UsageError(f"the offsets of {location} are not known: {failed[location.name].text}")
    unreadable = [
        f"{location}: {names}: {why.text}" for names, why in group_by_failure(found[location.name].unreadable)
    ]
    if unreadable:
        raise UsageError("; ".join(unreadable))
    return LocationOffsets(found[location.name].offsets)


def _of_table(location: OffsetLocation) -> LocationOffsets:
    from headgate.spark.load import positions as loads  # a load has more to import than the other locations

    offsets = {partition: OffsetAndMetadata(offset) for partition, offset in loads.positions(location.name).items()}
    return LocationOffsets(offsets, rates=loads.rates(location.name), topic_ids=loads.topic_ids(location.name))


def _of_time(location: OffsetLocation, cluster: Cluster, topics: WantedTopics) -> LocationOffsets:
    target = arguments.parse_target(location.name, now_ms())
    if not isinstance(target, Time):
        raise UsageError(f"{location} is no time; write time:2026-11-21T15:00Z, time:2h, time:earliest or time:latest")
    if not topics:
        raise UsageError(f"{location} is a moment of every topic; name the topics: --topic orders")
    partitions, failures = select_partitions(cluster, topics)
    found, failed = list_offsets(cluster, partitions, target.timestamp)
    ends = list_ends(cluster, [partition for partition, offset in found.items() if offset < 0])
    failures += [f"{names}: {why.text}" for names, why in group_by_failure({**failed, **ends.failed})]
    if failures:
        raise UsageError("; ".join(failures))
    notes = tuple(f"{partition}: nothing is so new: the end" for partition in sorted(ends.ends))
    offsets = {
        partition: OffsetAndMetadata(offset if offset >= 0 else ends.ends[partition])
        for partition, offset in found.items()
    }
    return LocationOffsets(offsets, notes=notes)


def _of_file(location: OffsetLocation, group: str) -> LocationOffsets:
    try:
        text = Path(location.name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {location.name}: {error}") from None
    try:
        wanted = [group] if group else []
        if zookeeper_text.is_zookeeper_text(text):
            groups, cluster_id = zookeeper_text.parse_text(text, wanted), None
        else:
            groups, cluster_id = export_format.parse_document(text, wanted)
    except UsageError as error:
        raise UsageError(f"{location.name}: {error}") from None
    if len(groups) > 1:
        raise UsageError(f"{location.name} has the groups {', '.join(sorted(groups))}; name one: --group")
    return LocationOffsets(next(iter(groups.values()), {}), cluster_id)
