"""How far a broker is from its start to its stop."""

import pytest

from headgate.gateway.app.serving_state import ServingState
from headgate.gateway.maintenance.log_loading import LoadingProgress
from headgate.gateway.runtime.tests.fake_scheduler import ManualClock


def test_a_start_begins_without_listeners() -> None:
    clock = ManualClock(5)
    state = ServingState.begin(clock)
    assert (state.started_ms, state.started_monotonic_ms) == (clock.now_ms(), clock.monotonic_ms())
    assert (state.endpoints, state.http_endpoints, state.is_open, state.is_stopping) == ([], [], False, False)


@pytest.mark.parametrize(
    "is_open, opened, line",
    [
        (False, 0, ("starting", True)),
        (True, 0, ("serving; opening logs: 0 of 8 partitions", True)),
        (True, 2, ("serving; opening logs: 2 of 8 partitions, 6 s left", True)),
        (True, None, ("serving 3 connections at A://127.0.0.1:1", False)),
    ],
)
def test_the_state_in_one_line(opened: int | None, line: tuple[str, bool], *, is_open: bool) -> None:
    state = ServingState(0, 0.0, endpoints=["A://127.0.0.1:1"], is_open=is_open)
    progress = None if opened is None else LoadingProgress(partitions=8, opened=opened)
    assert state.describe(3, progress, 2_000.0) == line
