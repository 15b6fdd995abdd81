"""Each node that cannot be read has one line in the log, until it changes."""

from __future__ import annotations

import pytest

from headgate.gateway.zookeeper import unreadable
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.requests import Failed
from headgate.gateway.zookeeper.session import KeeperError
from headgate.gateway.zookeeper.unreadable import UnreadableNodes


@pytest.fixture
def nodes() -> UnreadableNodes:
    return UnreadableNodes()


def test_a_reason_is_logged_once(nodes: UnreadableNodes, caplog: pytest.LogCaptureFixture) -> None:
    for reason in ("empty", "empty", "torn", "empty"):
        nodes.note(["/a", "/b"], [InvalidNode("/a", reason)])
    assert [line.split(";")[0] for line in caplog.messages] == [
        "ZooKeeper's /a: empty",
        "ZooKeeper's /a: torn",
        "ZooKeeper's /a: empty",
    ]


def test_a_node_that_was_readable_is_named_again(nodes: UnreadableNodes, caplog: pytest.LogCaptureFixture) -> None:
    error = InvalidNode("/a", "empty")
    nodes.note(["/a"], [error])
    nodes.note(["/b"], [])
    nodes.note(["/a"], [error])
    assert len(caplog.messages) == 1
    nodes.note(["/a"], [])
    nodes.note(["/a"], [error])
    assert len(caplog.messages) == 2


def test_a_node_that_zookeeper_refuses_is_named(nodes: UnreadableNodes, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        nodes.name_failed(Failed("/a", KeeperError.NO_AUTH))
    assert [line.split(";")[0] for line in caplog.messages] == ["ZooKeeper's /a: ZooKeeper answers NO_AUTH"]


def test_the_traceback_of_a_fault_is_logged(nodes: UnreadableNodes, caplog: pytest.LogCaptureFixture) -> None:
    nodes.name("/a", "a fault", error=ZeroDivisionError())
    assert "ZeroDivisionError" in caplog.text


def test_the_memory_is_bounded(
    nodes: UnreadableNodes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unreadable, "MAX_NAMED", 3)
    for number in range(5):
        nodes.log_once(f"/{number}", f"sentence {number}")
    assert len(caplog.messages) == 3
    nodes.log_once("/0", "another sentence")
    assert len(caplog.messages) == 4


def test_a_line_is_short(nodes: UnreadableNodes, caplog: pytest.LogCaptureFixture) -> None:
    nodes.name("/" + "x" * 1_000_000, "a long name")
    assert len(caplog.messages[0]) < 1_200
