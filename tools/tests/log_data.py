"""Data directories for the tests of `headgate log`: made by the store itself, and then damaged."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Self

from headgate.protocol.records.batch import Record, build
from headgate.storage.config import LogConfig
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.files import Files
from headgate.storage.log import appending
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import NOW_MS, SMALL, TOPIC_ID, open_directory

__all__ = ["NOW_MS", "SMALL", "TOPIC_ID", "Data", "change", "positions"]


class Data:
    """A data directory, whose broker has stopped when the context ends: cleanly, or as killed."""

    def __init__(self, path: Path, config: LogConfig = SMALL, *, is_clean: bool = True) -> None:
        self.path = path
        self.config = config
        self.is_clean = is_clean
        self.store: LogDirectory | None = None

    def __enter__(self) -> Self:
        self.store = open_directory(
            str(self.path), files=Files(), node_id=0, config=self.config, now_ms=NOW_MS, random=Random(1)
        )
        return self

    def __exit__(self, *raised: object) -> None:
        assert self.store is not None
        self.store.checkpoint({key: log.end_offset for key, log in self.store.logs.items()})
        if self.is_clean:
            self.store.close()
        else:
            self.store.abandon()
        self.store = None

    def log(self, topic: str = "t", partition: int = 0) -> Log:
        """The log of a partition; a new one if there is none."""
        assert self.store is not None
        found = self.store.logs.get((topic, partition))
        return found or self.store.create(topic, partition, TOPIC_ID, self.config, NOW_MS)

    def fill(self, topic: str = "t", partition: int = 0, count: int = 40) -> Log:
        """So many batches of two records each, of one producer, in two leader epochs, one in three compressed."""
        log = self.log(topic, partition)
        for number in range(count):
            records = [Record(timestamp=NOW_MS + number, key=b"k%d" % number, value=b"v" * 50)] * 2
            made = build(
                records, compression=number % 3 == 0, producer_id=7, producer_epoch=0, base_sequence=number * 2
            )
            appending.append(log, memoryview(made), leader_epoch=number * 2 // count, now_ms=NOW_MS)
        return log

    def directory(self, topic: str = "t", partition: int = 0) -> Path:
        return self.path / f"{topic}-{partition}"

    def segments(self, topic: str = "t", partition: int = 0) -> list[Path]:
        return sorted(self.directory(topic, partition).glob("*.log"))


def positions(log: Path) -> list[int]:
    """Where the batches of a segment begin."""
    data, position, found = log.read_bytes(), 0, []
    while position < len(data):
        found.append(position)
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    return found


def change(path: Path, position: int, how: Callable[[int], int] = lambda byte: byte ^ 0xFF, count: int = 1) -> None:
    """Damage some bytes of a file."""
    data = bytearray(path.read_bytes())
    for at in range(position, position + count):
        data[at] = how(data[at])
    path.write_bytes(data)
