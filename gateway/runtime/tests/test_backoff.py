"""Exponential backoff."""

from headgate.gateway.runtime.backoff import Backoff


def test_the_wait_doubles_up_to_the_maximum() -> None:
    backoff = Backoff(1_000.0, 3_000.0)
    assert [backoff.next_wait_ms() for _ in range(4)] == [1_000.0, 2_000.0, 3_000.0, 3_000.0]


def test_the_next_attempt_is_due_after_the_wait() -> None:
    backoff = Backoff(1_000.0, 60_000.0)
    assert backoff.due_ms == 0.0
    assert [backoff.postpone(50.0), backoff.due_ms] == [1_000.0, 1_050.0]
    assert [backoff.postpone(1_050.0), backoff.due_ms] == [2_000.0, 3_050.0]


def test_a_reset_forgets_all_failures() -> None:
    backoff = Backoff(1_000.0, 60_000.0)
    backoff.postpone(50.0)
    backoff.reset()
    assert backoff.due_ms == 0.0
    assert backoff.next_wait_ms() == 1_000.0
