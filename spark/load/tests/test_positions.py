from __future__ import annotations

from pathlib import Path

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.positions import positions, topic_ids
from headgate.spark.load.tests.model_log import TOPIC, ModelLog
from headgate.spark.load.tests.test_loading import run
from headgate.tools.output import UsageError


def test_positions_are_the_next_offsets(tmp_path: Path) -> None:
    log = ModelLog.random(1)
    run(log, OutputFolder(tmp_path))
    assert positions(tmp_path) == {TopicPartition(TOPIC, n): one.end for n, one in enumerate(log.partitions)}
    assert topic_ids(tmp_path) == {TOPIC: log.topic_id}


def test_what_is_no_load_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no published load"):
        positions(tmp_path / "none")
    (tmp_path / "_headgate/manifests").mkdir(parents=True)
    (tmp_path / "_headgate/manifests" / f"{1:020}.json").write_text("?")
    with pytest.raises(UsageError, match="is damaged"):
        positions(tmp_path)
