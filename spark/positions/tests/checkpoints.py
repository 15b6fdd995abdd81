"""Checkpoints, written as Spark writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

Topics = Mapping[str, Mapping[int, int]]


class CheckpointWriter:
    """A checkpoint in a folder."""

    def __init__(self, path: Path, query_id: str = "0b2c7b1e-7a3d-4f6e-9a52-2f6f3a6c1d11") -> None:
        self.path = path
        for name in ("offsets", "commits", "sources"):
            (path / name).mkdir(parents=True)
        (path / "metadata").write_text(json.dumps({"id": query_id}))

    def plan(self, batch: int, *sources: Topics | str, planned_ms: int = 0, version: int = 1) -> None:
        """The offset log of a batch."""
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": planned_ms, "conf": {}}
        lines = [one if isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in sources]
        if version == 2:
            lines = [f"{number}:{line}" for number, line in enumerate(lines)]
        text = "\n".join([f"v{version}", json.dumps(metadata), *lines])
        (self.path / "offsets" / str(batch)).write_text(text)
        (self.path / "offsets" / f".{batch}.crc").write_bytes(b"crc\0")

    def commit(self, batch: int) -> None:
        """The end of a batch."""
        (self.path / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    def do(self, batch: int, *sources: Topics | str, planned_ms: int = 0) -> None:
        """A batch that is planned and done."""
        self.plan(batch, *sources, planned_ms=planned_ms)
        self.commit(batch)

    def begin(self, source: int, topics: Topics) -> None:
        """The initial offsets of a source."""
        folder = self.path / "sources" / str(source)
        folder.mkdir()
        (folder / "0").write_bytes(b"\0v1\n" + json.dumps(topics).encode())
