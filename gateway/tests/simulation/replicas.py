"""What the disks of a simulated cluster have of each replica."""

from __future__ import annotations

import struct
from typing import Final

from headgate.gateway.tests.simulation.cluster import Cluster
from headgate.protocol.records import Buffer
from headgate.protocol.records.batch import BatchHeader, split
from headgate.storage.tests.crashing_files import MemoryFile

_bounds: Final = struct.Struct(">qi11xi").unpack_from
"""Base offset, length of the rest, and last offset delta of a batch."""
_BEFORE_LENGTH: Final = 12


class Replicas:
    """All replicas, by broker, topic and partition."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ends: dict[tuple[int, str, int], _ReplicaEnd] = {}

    def stored(self, node_id: int, topic: str, index: int) -> bytes:
        """The bytes of the records of a replica."""
        files, directory = self._cluster.files[node_id], _directory(topic, index)
        return b"".join(bytes(files.file(f"{directory}/{name}").content) for name in self._segments(node_id, directory))

    def end(self, node_id: int, topic: str, index: int) -> int:
        """The end of the records that a replica keeps at any kill; in some seeds kills take the power too."""
        directory = _directory(topic, index)
        names = self._segments(node_id, directory)
        if not names:
            return 0
        file = self._cluster.files[node_id].file(f"{directory}/{names[-1]}")
        known = self._ends.get((node_id, topic, index))
        if known is None or known.file is not file:
            known = self._ends[node_id, topic, index] = _ReplicaEnd(file, int(names[-1].removesuffix(".log")))
        return known.read(file.durable if self._cluster.has_power_cuts else file.content)

    def _segments(self, node_id: int, directory: str) -> list[str]:
        files = self._cluster.files[node_id]
        if not files.exists(directory):
            return []
        return sorted(name for name in files.list(directory) if name.endswith(".log"))


def _directory(topic: str, index: int) -> str:
    return f"/data/logs/{topic}-{index}"


class _ReplicaEnd:
    """The end of a segment; a read begins where the last one has ended."""

    def __init__(self, file: MemoryFile, base_offset: int) -> None:
        self.file = file
        self._base_offset = self._end = base_offset
        self._position = 0

    def read(self, data: Buffer) -> int:
        if len(data) < self._position:
            self._position, self._end = 0, self._base_offset
        try:
            while self._position < len(data):
                base_offset, length, last_delta = _bounds(data, self._position)
                if base_offset < self._end or self._position + _BEFORE_LENGTH + length > len(data):
                    break
                self._position, self._end = self._position + _BEFORE_LENGTH + length, base_offset + last_delta + 1
        except struct.error:
            pass  # the last batch is torn
        return self._end


def batches(stored: bytes) -> list[tuple[BatchHeader, memoryview]]:
    """The batches of a replica."""
    return split(memoryview(bytearray(stored)))
