from __future__ import annotations

from importlib import import_module

import pytest

from headgate.gateway.app.inspection.zookeeper import inspect_zookeeper


def test_the_fields_are_those_that_the_tool_expects() -> None:
    tool = import_module("headgate.tools.doctor.inspection")  # gateway and tools import nothing of each other
    found = inspect_zookeeper("", ["zookeeper.connect=a:b:c"], "", 0.2)
    assert tool.ZooKeeperReport(**found).session_ms is None
    assert found["problem"].startswith("override")


@pytest.mark.sockets
def test_a_zookeeper_that_does_not_answer_is_a_problem() -> None:
    found = inspect_zookeeper("", ["zookeeper.connect=127.0.0.1:1/kafka"], "", 0.2)
    assert "did not answer" in found["problem"]
    assert found["session_ms"] is None
