"""The mark of a dual group, `/headgate/offsets/<group>`: its offsets were carried over, and ZooKeeper is right.

A missing node of an offset is a deletion only beside the mark and the cluster's id. A ZooKeeper that has lost its data,
or has an older copy, lacks these too.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from headgate.gateway.zookeeper.layout.cluster import CLUSTER_ID_PATH
from headgate.gateway.zookeeper.layout.node import child_path
from headgate.gateway.zookeeper.session import Session
from headgate.gateway.zookeeper.steps import Steps, get_many

MARKS_PATH: Final = "/headgate/offsets"


class Loss(Enum):
    """What ZooKeeper has lost."""

    CLUSTER = auto()
    MARK = auto()


def mark_path(group_id: str) -> str:
    """The path of a group's mark. Raises InvalidNode for a group id that cannot be in ZooKeeper."""
    return child_path(MARKS_PATH, group_id)


def find_loss(session: Session, group_id: str) -> Steps[Loss | None]:
    """Look for what stands beside the offsets of a dual group, after these were read. Raises Failed."""
    cluster, mark = yield from get_many(session, [CLUSTER_ID_PATH, mark_path(group_id)])
    if cluster is None:
        return Loss.CLUSTER
    return Loss.MARK if mark is None else None
