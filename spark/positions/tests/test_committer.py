"""Commits of progress: only what has changed, again after a failure, and ids of topics noted once."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.offset_commit import OffsetCommitRequest
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions.checkpoint import LocalFolder
from headgate.spark.positions.committer import REPEAT_S, GroupCommitter
from headgate.spark.positions.topic_ids import FILE, TopicIds, read
from headgate.tools.tests.model_cluster import Clock, ModelCluster, ModelGroup, ModelMember

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def committed(model: ModelCluster) -> list[list[int]]:
    """The partitions of each commit."""
    return [
        [row.partition_index for topic in request.topics for row in topic.partitions]
        for request in model.of(OffsetCommitRequest)
    ]


def test_only_what_has_changed_is_committed_until_it_would_be_forgotten(model: ModelCluster) -> None:
    clock = Clock()
    committer = GroupCommitter("127.0.0.1:9092", "g", clock_s=clock)
    assert committer.commit({T0: 1, T1: 1})
    assert committer.commit({T0: 1, T1: 1})
    assert committer.commit({T0: 2, T1: 1})
    clock.now_s = REPEAT_S + 1
    assert committer.commit({T0: 2, T1: 1})
    assert committer.renew()
    clock.now_s *= 2
    assert committer.renew()
    assert committer.renew()
    assert committed(model) == [[0, 1], [0], [0, 1], [0, 1]]
    assert model.groups["g"].offsets == {("t", 0): (2, -1, ""), ("t", 1): (1, -1, "")}
    committer.close()


def test_a_broker_out_of_reach_is_asked_again(model: ModelCluster, caplog: pytest.LogCaptureFixture) -> None:
    committer = GroupCommitter("127.0.0.1:9092", "g")
    model.dead = {0}
    with caplog.at_level(logging.WARNING):
        assert not committer.commit({T0: 1})
    assert "the progress of group g is not committed: no broker answers" in caplog.text
    model.dead = set()
    assert committer.commit({T0: 1})


def test_a_group_with_members_refuses(model: ModelCluster, caplog: pytest.LogCaptureFixture) -> None:
    model.groups["g"] = ModelGroup("Stable", members=[ModelMember("m")])
    with caplog.at_level(logging.WARNING):
        assert not GroupCommitter("127.0.0.1:9092", "g").commit({T0: 1})
    assert ErrorCode.UNKNOWN_MEMBER_ID.name in caplog.text


def test_ids_are_noted_once_and_never_replaced(
    model: ModelCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    GroupCommitter("127.0.0.1:9092", "g", str(tmp_path)).commit({T0: 1})
    assert read(LocalFolder(tmp_path)) == TopicIds({"t": b"t" * 16}, "model")
    model.topic_ids["t"] = b"n" * 16
    before = (tmp_path / FILE).read_bytes()
    with caplog.at_level(logging.ERROR):
        GroupCommitter("127.0.0.1:9092", "g", str(tmp_path)).commit({T0: 2})
    assert "topic t was made anew" in caplog.text
    assert (tmp_path / FILE).read_bytes() == before


def test_a_checkpoint_that_cannot_be_written_stops_no_commit(model: ModelCluster, tmp_path: Path) -> None:
    committer = GroupCommitter("127.0.0.1:9092", "g", str(tmp_path / "nothing"))
    assert not committer.commit({T0: 1})
    assert model.groups["g"].offsets == {("t", 0): (1, -1, "")}


def test_it_is_pickled_before_its_first_use(model: ModelCluster) -> None:
    copy = pickle.loads(pickle.dumps(GroupCommitter("127.0.0.1:9092", "g")))
    assert copy.commit({T0: 1})
