"""Notifications of failed log directories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.zookeeper.layout.log_dir_events import LogDirEvent
from headgate.gateway.zookeeper.layout.node import MAX_INT32, InvalidNode


@given(st.builds(LogDirEvent, st.integers(0, MAX_INT32)))
def test_failed_directories_round_trip(value: LogDirEvent) -> None:
    assert LogDirEvent.decode("log_dir_event_0000000001", value.encode()) == value


def test_a_failed_directory_is_written_as_kafka_does() -> None:
    """The one kind that no recording has: a disk would have to fail."""
    assert LogDirEvent(3).encode() == b'{"version":1,"broker":3,"event":1}'
    assert LogDirEvent.path() == "/log_dir_event_notification/log_dir_event_"


@pytest.mark.parametrize("data", [b"nonsense", None, b'{"version":1,"event":1}', b'{"broker":-1}'])
def test_an_unreadable_notification_is_named(data: bytes | None) -> None:
    with pytest.raises(InvalidNode, match="log_dir_event_0000000001"):
        LogDirEvent.decode("log_dir_event_0000000001", data)
