"""The errors of a producer that is not the holder."""

import pytest

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions.fencing import fenced, find, other_producer
from headgate.gateway.coordinator.transactions.tests.transaction_desk import FIRST_ID, Desk
from headgate.protocol.errors import ErrorCode, KafkaError


def test_an_unknown_id_is_no_mapping() -> None:
    desk = Desk()
    desk.init("a")
    assert find(desk.shard, "a").producer_id == FIRST_ID
    with pytest.raises(KafkaError, match="b is unknown") as refused:
        find(desk.shard, "b")
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_error_names_both_producers() -> None:
    desk = Desk()
    desk.init("a")
    stranger = ProducerIdAndEpoch(7, 3)
    error = other_producer("a", stranger, desk.state())
    assert (error.code, error.message) == (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"a has producer id {FIRST_ID}, not 7",
    )
    error = fenced("a", stranger, desk.state(), True)
    assert error.code is ErrorCode.PRODUCER_FENCED
    assert "producer 7 of a has epoch 3" in error.message
    assert f"producer {FIRST_ID} with epoch 0" in error.message
    assert fenced("a", stranger, desk.state(), False).code is ErrorCode.INVALID_PRODUCER_EPOCH
