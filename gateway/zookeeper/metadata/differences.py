"""Differences between an image and a later read of ZooKeeper, as metadata records. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from headgate.gateway.metadata.image import Image, PartitionState, Topic
from headgate.gateway.metadata.records import config_records, partition_records
from headgate.protocol.internal.metadata import (
    TOPIC_RESOURCE,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)


def topic_records(old: Topic | None, new: Topic | None) -> list[MetadataRecord]:
    """The records that turn the topic `old` into `new`, of the same name. The number of partitions never falls."""
    records: list[MetadataRecord] = []
    if old is not None and (new is None or new.topic_id != old.topic_id):
        records.append(RemoveTopicRecord(topic_id=old.topic_id))
        old = None
    if new is None:
        return records
    if old is None:
        records.append(TopicRecord(name=new.name, topic_id=new.topic_id))
    before: Sequence[PartitionState] = () if old is None else old.partitions
    for index, state in enumerate(new.partitions):
        if index >= len(before) or state != before[index]:
            records += partition_records(new.topic_id, index, (state,))
    configs = {} if old is None else old.configs
    return records + config_records(new.name, changed_configs(configs, new.configs))


def changed_configs(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
    """The configs that differ: the new value, or None for a removed config."""
    changed: dict[str, str | None] = {name: None for name in old if name not in new}
    return changed | {name: value for name, value in new.items() if old.get(name) != value}


def overlay(image: Image, records: Sequence[MetadataRecord]) -> Image:
    """Apply a change to an image that may have a part of the change, or all of it, already.

    Raises ValueError if the image has a conflicting change instead.
    """
    return image.apply_all(_missing(image, records))


def _missing(image: Image, records: Sequence[MetadataRecord]) -> Iterator[MetadataRecord]:
    for record in records:
        is_there = isinstance(record, TopicRecord) and image.topic_names.get(record.topic_id) == record.name
        is_gone = isinstance(record, RemoveTopicRecord) and record.topic_id not in image.topic_names
        if not is_there and not is_gone:
            yield record


class Touched(NamedTuple):
    """The subjects of records: topics by name, other resources with configs; producer ids or features."""

    topics: set[str]
    resources: set[tuple[int, str]]
    has_others: bool


def touched(records: Sequence[MetadataRecord], *images: Image) -> Touched:
    """The subjects that records change. Topic ids are looked up in the images."""
    topics, resources, has_others = set[str](), set[tuple[int, str]](), False
    for record in records:
        match record:
            case TopicRecord():
                topics.add(record.name)
            case PartitionRecord() | RemoveTopicRecord():
                topics.update(
                    image.topic_names[record.topic_id] for image in images if record.topic_id in image.topic_names
                )
            case ConfigRecord(resource_type=resource_type) if resource_type == TOPIC_RESOURCE:
                topics.add(record.resource_name)
            case ConfigRecord():
                resources.add((record.resource_type, record.resource_name))
            case _:
                has_others = True
    return Touched(topics, resources, has_others)
