"""A power cut, as far as one partition's files tell of it: the process is killed, and what was not synced is gone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from compat_tests.harness.broker import Broker
from compat_tests.harness.steady import produce_request, record_batch
from compat_tests.harness.stored import batches
from compat_tests.harness.wire import connect, receive_frame

RECOVERY_POINTS = "recovery-point-offset-checkpoint"


def produce_one_by_one(bootstrap: str, topic: str, values: Sequence[bytes]) -> None:
    """Each record in a batch of its own, to partition 0, acks=1."""
    with connect(bootstrap, 60) as stream:
        for value in values:
            stream.sendall(produce_request(topic, 1, record_batch(value)))
            receive_frame(stream)


def cut(broker: Broker, topic: str, end: int) -> None:
    """Have the log of partition 0 of a broker that does not run end at an offset where a batch begins.

    Indexes go as well: nothing of them was synced either. No checkpoint may claim more than the log has.
    """
    assert not broker.is_running()
    directory = broker.partition_directory(topic, 0)
    (log,) = directory.glob("*.log")
    first_lost = next(batch for batch in batches(directory) if batch.base_offset == end)
    with log.open("r+b") as file:
        file.truncate(first_lost.position)
    for pattern in ("*.index", "*.timeindex", "*.snapshot"):
        for path in directory.glob(pattern):
            path.unlink()
    lower_recovery_point(broker.data / RECOVERY_POINTS, topic, end)


def lower_recovery_point(checkpoint: Path, topic: str, end: int) -> None:
    """Version, number of lines, then `topic partition offset` a line; nothing before the first checkpoint."""
    if not checkpoint.exists() or not checkpoint.stat().st_size:
        return
    version, count, *rows = checkpoint.read_text().splitlines()
    fields = [row.split() for row in rows]
    lines = [f"{name} {one} {min(int(offset), end) if name == topic else offset}" for name, one, offset in fields]
    checkpoint.write_text("\n".join([version, count, *lines]) + "\n")
