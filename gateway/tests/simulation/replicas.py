"""What the disks of a simulated cluster have of each replica."""

from __future__ import annotations

import struct
from typing import Final

from headgate.gateway.tests.simulation.cluster import Cluster
from headgate.protocol.records.batch import BatchHeader, check_crc, split
from headgate.storage.tests.crashing_files import MemoryFile

_BOUNDS: Final = struct.Struct(">qi11xi")
"""Base offset, length of the rest, and last offset delta of a batch."""
_BEFORE_LENGTH: Final = 12
_LEAST_LENGTH: Final = 49
"""Of a batch without records: torn bytes may have any length, also a negative one."""


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
    """The end of the valid batches of a segment. A read begins where the last one has ended, if all is still there."""

    def __init__(self, file: MemoryFile, base_offset: int) -> None:
        self.file = file
        self._base_offset = self._end = base_offset
        self._position = 0
        self._last = b""  # the batch before the position

    def read(self, data: bytearray) -> int:
        if not data.endswith(self._last, 0, self._position) or len(data) < self._position:
            self._position, self._end, self._last = 0, self._base_offset, b""  # the log was cut
        while self._position + _BOUNDS.size <= len(data):
            base_offset, length, last_delta = _BOUNDS.unpack_from(data, self._position)
            batch = bytes(data[self._position : self._position + _BEFORE_LENGTH + length])
            is_whole = len(batch) >= _BEFORE_LENGTH + max(length, _LEAST_LENGTH)
            if base_offset < self._end or not is_whole or not check_crc(batch):
                break  # a power cut has torn it
            self._position, self._end, self._last = self._position + len(batch), base_offset + last_delta + 1, batch
        return self._end


def batches(stored: bytes) -> list[tuple[BatchHeader, memoryview]]:
    """The batches of a replica."""
    return split(memoryview(bytearray(stored)))
