from __future__ import annotations

from typing import Any

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.cluster.volumes import check_room, check_volumes
from headgate.tools.log_directories import DirectoryDescription

GIB = 1 << 30


def directory(**changed: Any) -> DirectoryDescription:
    plain = DirectoryDescription("/data", None, 100 * GIB, 50 * GIB, is_cordoned=False, replicas=[])
    return plain._replace(**changed)


@pytest.mark.parametrize(
    "total, usable, state",
    [
        (100 * GIB, 50 * GIB, OK),
        (100 * GIB, 12 * GIB, NOTE),
        (100 * GIB, GIB, WRONG),
        (100 * GIB, 0, WRONG),
        (200 << 20, 150 << 20, OK),
        (200 << 20, 10 << 20, WRONG),
        (24 << 20, 20 << 20, OK),
    ],
)
def test_room(total: int, usable: int, state: str) -> None:
    assert check_room("disk", "/data", total, usable).state == state


def test_directories_of_brokers() -> None:
    offline = directory(failure=Failure(ErrorCode.KAFKA_STORAGE_ERROR, "Disk error"))
    unknown = directory(total_bytes=None, usable_bytes=None)
    rows = list(check_volumes({1: [directory(), unknown], 2: [offline]}, {}))
    assert [row.state for row in rows] == [OK, OK, WRONG]
    assert "/data of broker 2 is offline: Disk error" in rows[2].found


def test_a_refused_question_is_a_note_and_a_lost_broker_none() -> None:
    refused = Failure(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
    assert [row.state for row in check_volumes({}, {1: refused, 2: Failure(0, "lost")})] == [NOTE]
