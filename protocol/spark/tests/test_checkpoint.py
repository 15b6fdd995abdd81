"""A checkpoint by its files, whoever reads them; `spark/positions` has the tests of folders."""

from __future__ import annotations

import json

import pytest

from headgate.protocol.spark.checkpoint import CheckpointBatch, rates, read
from headgate.protocol.spark.checkpoint_files import MalformedCheckpoint, Progress
from headgate.protocol.topic_partition import TopicPartition

T0 = TopicPartition("t", 0)


class Files:
    """Texts by path."""

    def __init__(self, **texts: str) -> None:
        self.texts = {path.replace("_", "/"): text for path, text in texts.items()}

    def names(self, folder: str) -> list[str]:
        return [path.removeprefix(f"{folder}/") for path in self.texts if path.startswith(f"{folder}/")]

    def read(self, path: str) -> bytes | None:
        text = self.texts.get(path)
        return None if text is None else text.encode()


def offsets(end: int, planned_ms: int = 0) -> str:
    return f'v1\n{{"batchTimestampMs":{planned_ms}}}\n' + json.dumps({"t": {"0": end}})


METADATA = '{"id":"q"}'


def test_a_done_and_a_planned_batch() -> None:
    found = read("c", Files(metadata=METADATA, offsets_0=offsets(3, 7), commits_0="v1", offsets_1=offsets(5)))
    assert (found.folder, found.query_id, found.progress) == ("c", "q", Progress(0, 1))
    assert (found.offsets, found.planned) == ({T0: 3}, {T0: 5})
    assert found.batches[0] == CheckpointBatch(0, 7, {T0: 3})


@pytest.mark.parametrize(
    "files, reason",
    [
        (Files(), "no checkpoint of a query"),
        (Files(metadata=METADATA, commits_4="v1"), "commits has batch 4"),
        (Files(metadata="[]", offsets_0=offsets(3), commits_0="v1"), "no JSON object"),
    ],
)
def test_a_damaged_checkpoint_has_a_reason(files: Files, reason: str) -> None:
    with pytest.raises(MalformedCheckpoint, match=reason):
        read("c", files)


def test_the_rate_leaves_out_the_bounds() -> None:
    batches = [CheckpointBatch(number, 1_000 * number + 1, {T0: 10 * number}) for number in range(4)]
    assert rates(batches) == {T0: 10.0}
    assert rates(batches[:2]) == {}
