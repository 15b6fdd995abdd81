"""Requests about very many topics against kio: what it reads, written again by it, are the same bytes."""

import pytest

from headgate.tools.bench.requests import frames, many_frames
from headgate.tools.bench.requests.tests.test_frames import read_with_kio

NAMES = ["one", "two"]


def test_created_topics_have_one_partition_and_no_settings() -> None:
    _, request = read_with_kio(many_frames.create_topics(NAMES).frame())
    assert [topic.name for topic in request.topics] == NAMES
    assert {(topic.num_partitions, topic.replication_factor) for topic in request.topics} == {(1, 1)}
    assert {(topic.assignments, topic.configs) for topic in request.topics} == {((), ())}
    assert not request.validate_only


def test_topics_are_deleted_by_name() -> None:
    _, request = read_with_kio(many_frames.delete_topics(NAMES).frame())
    assert list(request.topic_names) == NAMES


def test_every_setting_of_a_topic_is_asked_for() -> None:
    _, request = read_with_kio(many_frames.describe_configs(NAMES).frame())
    assert [(each.resource_type, each.resource_name) for each in request.resources] == [(2, "one"), (2, "two")]
    assert {each.configuration_keys for each in request.resources} == {None}
    assert (request.include_synonyms, request.include_documentation) == (False, False)


def test_a_commit_is_of_the_first_partition_of_each_topic() -> None:
    _, request = read_with_kio(many_frames.offset_commit("group", NAMES).frame())
    assert request.group_id == "group"
    rows = [
        (topic.name, row.partition_index, row.committed_offset) for topic in request.topics for row in topic.partitions
    ]
    assert rows == [("one", 0, 0), ("two", 0, 0)]


def test_offsets_are_asked_for_as_often_as_is_wanted() -> None:
    _, request = read_with_kio(many_frames.offset_fetch("group", NAMES, 3).frame())
    (group,) = request.groups
    assert group.group_id == "group"
    assert [(topic.name, list(topic.partition_indexes)) for topic in group.topics] == [
        (name, [0] * 3) for name in NAMES
    ]


@pytest.mark.parametrize("version", [12, 13])
def test_a_fetch_of_several_topics(version: int) -> None:
    ids = [bytes([number]) * 16 for number in (1, 2)]
    topics = [(name, topic_id, [0, 1]) for name, topic_id in zip(NAMES, ids, strict=True)]
    _, request = read_with_kio(frames.fetch_of(version, topics, frames.FetchOptions(1024, in_session=True)).frame())
    named = [topic.topic_id.bytes if version >= 13 else topic.topic for topic in request.topics]
    assert named == (ids if version >= 13 else NAMES)
    assert [[row.partition for row in topic.partitions] for topic in request.topics] == [[0, 1]] * 2


def test_an_incremental_fetch_is_small() -> None:
    writer = frames.fetch_of(13, [], frames.FetchOptions(1024, 0, in_session=True))
    _, request = read_with_kio(writer.frame())
    assert request.topics == ()
    assert "fetch_offset" not in writer.marks
    assert len(writer.frame()) <= 64
