"""Rates and token buckets. Their arithmetic against Kafka's: `test_quotas_like_kafka`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.security.quotas.rates import MAX_THROTTLE_MS, SampledRate, TokenBucket, Windows

WINDOWS = Windows(11, 1_000)


def test_a_burst_that_fits_all_windows_is_no_violation() -> None:
    rate = SampledRate(WINDOWS, 100)
    assert rate.most == 1_000
    assert rate.record(1_000, 0.0) == 0
    assert rate.record(1, 0.0) == 10


def test_after_the_throttle_time_the_rate_is_within_its_bound() -> None:
    rate = SampledRate(WINDOWS, 100)
    throttle_ms = rate.record(1_500, 50.0)
    assert throttle_ms == 5_000
    assert rate.rate(50.0 + throttle_ms + 10_000) <= 100


def test_what_is_taken_back_does_not_count() -> None:
    rate = SampledRate(WINDOWS, 100)
    assert rate.record(50_000, 0.0) > 0
    rate.take_back(50_000, 1.0)
    assert rate.record(1_000, 2.0) == 0


def test_a_rate_is_idle_once_all_windows_are_over() -> None:
    rate = SampledRate(WINDOWS, 100)
    assert rate.is_idle(0.0)
    rate.record(5, 0.0)
    assert not rate.is_idle(10_999.0)
    assert rate.is_idle(11_000.0)


def test_no_time_is_longer_than_a_response_can_say() -> None:
    rate = SampledRate(WINDOWS, 1e-9)
    assert rate.record(1e18, 0.0) == MAX_THROTTLE_MS
    assert SampledRate(WINDOWS, 0.0).record(1, 0.0) == MAX_THROTTLE_MS


def test_a_debt_of_tokens_is_paid_in_time() -> None:
    bucket = TokenBucket(WINDOWS, 2.0, 0.0)
    assert bucket.tokens(0.0) == bucket.burst == 22
    bucket.take(30, 0.0)
    assert bucket.throttle_ms(0.0) == 4_000
    assert bucket.throttle_ms(4_000.0) == 0
    assert not bucket.is_idle(4_000.0)
    assert bucket.is_idle(15_000.0)


@given(
    st.integers(1, 5),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 500), st.booleans()), max_size=40),
)
def test_the_short_way_of_a_record_changes_no_answer(
    number: int, seconds: int, uses: list[tuple[int, int, bool]]
) -> None:
    """One rate is asked in between, which sums its samples up again each time."""
    windows = Windows(number, seconds * 1_000)
    one, other, now_ms = SampledRate(windows, 40), SampledRate(windows, 40), 0
    for pause_ms, value, is_back in uses:
        now_ms += pause_ms
        answers = [rate.record(value, now_ms) for rate in (one, other)]
        assert answers[0] == answers[1]
        if is_back:
            one.take_back(value, now_ms)
            other.take_back(value, now_ms)
        other.rate(now_ms)
