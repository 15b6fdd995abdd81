"""Entities of quotas, and which one applies. The eight levels against Kafka: `test_quotas_like_kafka`."""

from headgate.protocol.security.quotas import QuotaBucket, QuotaEntity, find_connection_rate, find_quota

RATE, CONNECTIONS = "producer_byte_rate", "connection_creation_rate"
ANN, APP = QuotaEntity.of({"user": "ann"}), QuotaEntity.of({"client-id": "app"})
ADDRESS, ANY_ADDRESS = QuotaEntity.of({"ip": "192.0.2.1"}), QuotaEntity.of({"ip": None})


def test_an_entity_is_the_same_in_any_order() -> None:
    names = [("user", "ann"), ("client-id", None)]
    assert QuotaEntity.of(names) == QuotaEntity.of(reversed(names))
    assert str(QuotaEntity.of(names)) == "ClientQuotaEntity(entries={client-id=null, user=ann})"
    assert QuotaEntity.of(names).title == "client-id (default) of user 'ann'"


def test_a_level_without_the_key_does_not_count() -> None:
    quotas = {ANN: {"consumer_byte_rate": 1.0}, APP: {RATE: 2.0}}
    found = find_quota(quotas, RATE, "ann", "app")
    assert found is not None
    assert (found.entity, found.bound, found.bucket) == (APP, 2.0, QuotaBucket("", "app"))


def test_the_quota_of_a_user_is_shared_by_its_clients() -> None:
    quotas = {ANN: {RATE: 1.0}, APP: {RATE: 2.0}}
    buckets = [find_quota(quotas, RATE, "ann", client) for client in ("app", "other", "")]
    assert [found and found.bucket for found in buckets] == [QuotaBucket("ann", "")] * 3


def test_addresses_have_their_own_rate_or_the_default() -> None:
    assert find_connection_rate({}, "192.0.2.1") is None
    quotas = {ADDRESS: {CONNECTIONS: 5.0}, ANY_ADDRESS: {CONNECTIONS: 1.0}}
    found = [find_connection_rate(quotas, address) for address in ("192.0.2.1", "192.0.2.2")]
    assert [applied and applied.bound for applied in found] == [5.0, 1.0]
