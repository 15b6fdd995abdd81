"""Orders of tools, decided upon an image."""

from __future__ import annotations

from headgate.gateway.metadata.image import Image, PartitionState, Topic
from headgate.gateway.metadata.records import partition_records
from headgate.gateway.zookeeper.controller import orders
from headgate.gateway.zookeeper.layout.admin import PartitionReassignments

T = Topic("t", b"t" * 16, (PartitionState(0, 3, (0, 5), (0,), 4), PartitionState(-1, 3, (5,), (5,), 4)), {})
IMAGE = Image.empty()._replace(topics={"t": T}, topic_names={T.topic_id: "t"})


def test_a_broker_that_is_gone_leaves() -> None:
    decision = orders.reassign(IMAGE, 0, PartitionReassignments({("t", 0): (0,)}))
    assert decision.records == partition_records(T.topic_id, 0, [PartitionState(0, 4, (0,), (0,), 5)])
    assert decision.refusals == []


def test_what_a_broker_alone_cannot_do_is_refused() -> None:
    wanted = {("t", 0): (0, 5), ("t", 1): (0,), ("u", 0): (0,), ("t", 7): (0,)}
    assert orders.reassign(IMAGE, 0, PartitionReassignments(wanted)) == (
        [],
        ["t-1 has no copy on broker 0", "u-0 does not exist", "t-7 does not exist"],
    )
    assert orders.reassign(IMAGE, 0, PartitionReassignments({("t", 0): (5, 0)})).refusals == [
        "t-0 cannot have the replicas [5, 0]: broker 0 is alone"
    ]
