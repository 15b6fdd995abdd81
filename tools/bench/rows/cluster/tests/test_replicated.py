"""What the producers of a cluster ask for."""

import struct

from headgate.tools.bench.measuring.target import Topic
from headgate.tools.bench.rows.cluster.replicated import IdlePartitionsRow, ReplicatedProduceRow
from headgate.tools.bench.rows.table import REPLICATED

ACKS = 4 + 8 + 2 + len("bench") + 2  # behind the size, the header, and a transactional id of null


def test_every_producer_wants_all_replicas() -> None:
    row = REPLICATED["replicated-16k"]
    assert isinstance(row, ReplicatedProduceRow)
    (template,) = row.templates(Topic("t", bytes(16), 1))
    assert struct.unpack_from(">h", template.frame, ACKS) == (-1,)


def test_a_quick_run_has_fewer_idle_partitions() -> None:
    row = REPLICATED["replicated-idle"]
    assert isinstance(row, IdlePartitionsRow)
    assert (row.partitions, row.quick().partitions) == (10_000, 1000)
