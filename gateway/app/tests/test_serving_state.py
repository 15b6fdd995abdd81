"""How far a broker is from its start to its stop."""

from headgate.gateway.app.serving_state import ServingState
from headgate.gateway.runtime.tests.fake_scheduler import ManualClock


def test_a_start_begins_without_listeners() -> None:
    clock = ManualClock(5)
    state = ServingState.begin(clock)
    assert (state.started_ms, state.started_monotonic_ms) == (clock.now_ms(), clock.monotonic_ms())
    assert (state.endpoints, state.http_endpoints, state.is_open, state.is_stopping) == ([], [], False, False)
