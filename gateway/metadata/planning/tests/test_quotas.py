"""Plans of quotas: what is refused, and which records a change needs. Kafka's sentences: `api/tests/like_kafka`."""

import pytest

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.planning.quotas import change_quotas
from headgate.gateway.metadata.records import quota_records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import ClientQuotaRecord, QuotaEntityData
from headgate.protocol.security.quotas import QuotaEntity

ANN = QuotaEntity.of({"user": "ann"})
IMAGE = Image.empty().apply_all(quota_records(ANN, {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}))


def test_only_what_changes_is_recorded() -> None:
    changes = {"producer_byte_rate": 5.0, "consumer_byte_rate": None, "request_percentage": None}
    (record,) = change_quotas(IMAGE, ANN, changes)
    assert record == ClientQuotaRecord([QuotaEntityData("user", "ann")], "consumer_byte_rate", 0.0, True)
    assert IMAGE.apply(record).quotas == {ANN: {"producer_byte_rate": 5.0}}


def test_an_entity_without_quotas_is_forgotten() -> None:
    records = change_quotas(IMAGE, ANN, {"producer_byte_rate": None, "consumer_byte_rate": None})
    assert IMAGE.apply_all(records).quotas == {}
    assert IMAGE.quotas[ANN] == {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}


def test_other_changes_keep_the_mapping_of_quotas() -> None:
    assert IMAGE.apply().quotas is IMAGE.quotas


@pytest.mark.parametrize("value", [float("nan"), 0.0, -1.0, 1.5, float("inf")])
def test_numbers_that_are_no_rate_are_refused(value: float) -> None:
    with pytest.raises(KafkaError) as refused:
        change_quotas(IMAGE, ANN, {"producer_byte_rate": value})
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_no_limit_is_no_number() -> None:
    with pytest.raises(KafkaError, match="request_percentage must be a number"):
        change_quotas(IMAGE, ANN, {"request_percentage": float("inf")})


def test_a_host_name_is_no_address() -> None:
    with pytest.raises(KafkaError, match="localhost is not a valid IP"):
        change_quotas(IMAGE, QuotaEntity.of({"ip": "localhost"}), {"connection_creation_rate": 1.0})
