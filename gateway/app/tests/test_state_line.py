"""The state of a broker in one line."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headgate.gateway.app.serving_state import ServingState
from headgate.gateway.app.state_line import describe_state
from headgate.gateway.maintenance.log_loading import LoadingProgress
from headgate.gateway.runtime.tests.fake_scheduler import ManualClock


@pytest.mark.parametrize(
    "state, opened, is_done, zookeeper, line",
    [
        ({}, 0, False, None, ("starting", True)),
        ({}, 0, False, "z:2181", ("starting, with ZooKeeper at z:2181", True)),
        ({"is_open": True}, 0, False, None, ("serving; opening logs: 0 of 8 partitions", True)),
        ({"is_open": True}, 2, False, None, ("serving; opening logs: 2 of 8 partitions, 6 s left", True)),
        ({"is_open": True}, 8, True, None, ("serving 3 connections at A://127.0.0.1:1", False)),
    ],
)
def test_the_line_says_how_far_the_broker_is(
    state: dict[str, bool], opened: int, zookeeper: str | None, line: tuple[str, bool], tmp_path: Path, *, is_done: bool
) -> None:
    clock = ManualClock(0)
    progress = LoadingProgress(partitions=8, opened=opened, began_ms=clock.monotonic_ms())
    clock.elapsed_ms += 2_000
    parts: Any = SimpleNamespace(
        zookeeper=zookeeper,
        config=SimpleNamespace(zookeeper_connect=zookeeper),
        log_loader=SimpleNamespace(is_done=is_done, progress=progress),
        clock=clock,
        server=SimpleNamespace(drivers=[1, 2, 3]),
    )
    serving = ServingState(0, 0.0, endpoints=["A://127.0.0.1:1"], **cast("dict[str, Any]", state))
    assert describe_state(parts, serving) == line
