"""The manager of quotas: which clients share what they may use, what changes mean, and the bound of its memory."""

from __future__ import annotations

import pytest

from headgate.gateway.security.quotas.quota_manager import MAX_BUCKETS, ClientLimits, MutationQuota, QuotaManager
from headgate.gateway.security.quotas.rates import TokenBucket, Windows
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.security.quotas import QuotaEntity, Quotas

ANN, ANY_CLIENT = QuotaEntity.of({"user": "ann"}), QuotaEntity.of({"client-id": None})
RATE = "producer_byte_rate"


def manager(quotas: Quotas, max_buckets: int = MAX_BUCKETS) -> QuotaManager:
    made = QuotaManager(max_buckets=max_buckets)
    made.change(quotas)
    return made


def used(limits: ClientLimits, value: float, now_ms: float = 0.0) -> int:
    assert limits.produce is not None
    return limits.produce.record(value, now_ms)


def test_without_quotas_no_client_has_limits() -> None:
    limits = manager({}).limits("User:ann", "app", 0.0)
    assert (limits.produce, limits.fetch, limits.request, limits.mutations) == (None, None, None, None)


def test_clients_of_a_user_share_its_quota() -> None:
    quotas = manager({ANN: {RATE: 100.0}})
    assert used(quotas.limits("User:ann", "one", 0.0), 1_000) == 0
    assert used(quotas.limits("User:ann", "two", 0.0), 1_000) > 0
    assert quotas.limits("User:bob", "one", 0.0).produce is None


def test_each_client_id_has_the_default_for_itself() -> None:
    quotas = manager({ANY_CLIENT: {RATE: 100.0}})
    assert used(quotas.limits("User:ann", "one", 0.0), 1_000) == 0
    assert used(quotas.limits("User:ann", "two", 0.0), 1_000) == 0
    assert used(quotas.limits("User:bob", "one", 0.0), 1_000) > 0


def test_a_new_bound_counts_what_was_used_before() -> None:
    quotas = manager({ANN: {RATE: 100.0}})
    assert used(quotas.limits("User:ann", "one", 0.0), 900) == 0
    before = quotas.epoch
    quotas.change({ANN: {RATE: 50.0}})
    assert quotas.epoch is not before
    assert used(quotas.limits("User:ann", "one", 1.0), 0) > 0


def test_only_keys_that_some_client_has_are_counted() -> None:
    quotas = manager({ANN: {RATE: 1.0}, QuotaEntity.of({"ip": None}): {"connection_creation_rate": 1.0}})
    assert quotas.counts(RATE)
    assert not quotas.counts("consumer_byte_rate")
    assert not quotas.counts("connection_creation_rate")


def test_idle_clients_are_forgotten_and_equal_new_ones() -> None:
    quotas = manager({ANY_CLIENT: {RATE: 100.0}})
    first = quotas.limits("User:ann", "first", 0.0)
    used(first, 1, 9_000.0)
    for number in range(1_000):
        used(quotas.limits("User:ann", f"client {number}", 10_000.0), 5, 10_000.0)
    assert used(first, 900, 15_000.0) == 0  # a client that comes back counts
    quotas.limits("User:ann", "last", 25_000.0)
    assert quotas.bucket_count == 2
    assert first.epoch is not quotas.epoch
    again = quotas.limits("User:ann", "first", 25_000.0)
    assert used(again, 1_000, 25_000.0) > 0


def test_beyond_the_bound_new_clients_share_a_bucket() -> None:
    quotas = manager({ANY_CLIENT: {RATE: 100.0, "controller_mutation_rate": 1.0}}, max_buckets=300)
    for number in range(2_000):
        limits = quotas.limits("User:ann", f"client {number}", 0.0)
        used(limits, 700)
        assert limits.mutations is not None
        limits.mutations.take(1, 0.0)
    assert quotas.bucket_count <= 302
    assert used(quotas.limits("User:ann", "another", 0.0), 0) > 0
    assert used(quotas.limits("User:ann", "client 3", 0.0), 0) == 0


def test_an_address_creates_connections_at_its_rate() -> None:
    quotas = manager({QuotaEntity.of({"ip": None}): {"connection_creation_rate": 2.0}})
    answers = [quotas.refuse_connection("192.0.2.1", 0.0) for _ in range(22)]
    assert answers[:20] == [(0, None)] * 20
    assert answers[20] == (500, "more than 2 connections a second, connection_creation_rate of ip (default)")
    assert quotas.refuse_connection("192.0.2.2", 0.0) == (0, None)
    assert quotas.refuse_connection("192.0.2.1", 11_000.0) == (0, None)  # what was refused has not counted
    assert quotas.throttled["connection_creation_rate"] == 2
    assert manager({}).refuse_connection("192.0.2.1", 0.0) == (0, None)


def test_a_refused_connection_waits_for_a_window_at_most() -> None:
    quotas = manager({QuotaEntity.of({"ip": None}): {"connection_creation_rate": 0.1}})
    assert [quotas.refuse_connection("192.0.2.1", 0.0)[0] for _ in range(3)] == [0, 1_000, 1_000]


def test_addresses_are_bounded_too() -> None:
    quotas = manager({QuotaEntity.of({"ip": None}): {"connection_creation_rate": 100.0}}, max_buckets=300)
    for number in range(2_000):
        quotas.refuse_connection(f"2001:db8::{number:x}", float(number))
    assert quotas.bucket_count <= 301


def test_a_strict_mutation_is_refused_in_debt() -> None:
    now_ms = [0.0]
    bucket = TokenBucket(Windows(1, 1_000), 2.0, 0.0)
    strict = MutationQuota(bucket, lambda: now_ms[0], is_strict=True)
    strict.charge(10)
    assert strict.throttle_ms() == 0
    with pytest.raises(KafkaError) as refused:
        strict.charge(1)
    assert refused.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert strict.throttle_ms() == 4_000
    now_ms[0] = 1_500.0
    assert strict.throttle_ms() == 2_500


def test_a_permissive_mutation_is_throttled_only() -> None:
    bucket = TokenBucket(Windows(1, 1_000), 2.0, 0.0)
    permissive = MutationQuota(bucket, lambda: 0.0, is_strict=False)
    permissive.charge(10)
    permissive.charge(1)
    assert permissive.throttle_ms() == 4_500
