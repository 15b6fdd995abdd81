"""Ids of topics in a file of the checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.spark.positions.checkpoint import LocalFolder
from headgate.spark.positions.topic_ids import FILE, TopicIds, added, build, fetch, parse, read, write
from headgate.tools.output import UsageError
from headgate.tools.tests.model_cluster import Log, ModelCluster, opened

IDS = TopicIds({"t": b"t" * 16, "u": bytes(range(16))}, "cluster")


def test_ids_are_read_as_they_were_written(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    assert read(folder) == TopicIds({})
    write(folder, IDS)
    assert read(folder) == IDS
    assert parse(build(TopicIds({}))) == TopicIds({})


def test_ids_of_a_cluster(model: ModelCluster) -> None:
    model.topics["old"] = [Log()]  # an old broker has no ids
    with opened() as cluster:
        assert fetch(cluster, ["t", "old", "gone"]) == TopicIds({"t": b"t" * 16}, "model")


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{", "no JSON"),
        ("[]", '"format" and "version"'),
        ('{"format":"headgate topic ids","version":2}', '"format" and "version"'),
        ('{"format":"headgate topic ids","version":1}', "there are no topics"),
        ('{"format":"headgate topic ids","version":1,"topics":{"t":"x"}}', "topic 't' has the id 'x'"),
        ('{"format":"headgate topic ids","version":1,"topics":{"t":7}}', "topic 't' has the id 7"),
    ],
)
def test_a_damaged_file(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(UsageError, match=f"{FILE}: .*{reason}.*; remove the file"):
        read(LocalFolder(tmp_path))


def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(UsageError, match="cannot read"):
        read(LocalFolder(tmp_path))
    with pytest.raises(UsageError, match="cannot write"):
        write(LocalFolder(tmp_path / "nothing"), IDS)


def test_a_noted_id_is_never_replaced() -> None:
    noted = TopicIds({"t": b"t" * 16}, "cluster")
    assert added(noted, TopicIds({"t": b"x" * 16}, "other")) is None
    assert added(noted, TopicIds({"t": b"x" * 16, "u": b"u" * 16}, "other")) == TopicIds(
        {"t": b"t" * 16, "u": b"u" * 16}, "cluster"
    )
