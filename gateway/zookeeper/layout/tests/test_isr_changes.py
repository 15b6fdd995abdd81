"""Notifications of changed in-sync replicas."""

from __future__ import annotations

import pytest

from headgate.gateway.zookeeper.layout.isr_changes import IsrChange
from headgate.gateway.zookeeper.layout.node import InvalidNode


def test_a_notification_has_kafkas_form() -> None:
    data = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"u","partition":7}]}'
    change = IsrChange((("t", 0), ("u", 7)))
    assert change.encode() == data
    assert IsrChange.decode("isr_change_0000000001", data) == change


@pytest.mark.parametrize("data", [b"nonsense", None, b'{"version":1}'])
def test_an_unreadable_notification_is_named(data: bytes | None) -> None:
    with pytest.raises(InvalidNode, match="isr_change_0000000001"):
        IsrChange.decode("isr_change_0000000001", data)
