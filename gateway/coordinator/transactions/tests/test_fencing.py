"""The errors of a producer that is not the holder."""

import pytest

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions.fencing import being_ended, check_holder, fenced, find
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
    with pytest.raises(KafkaError, match=f"a has producer id {FIRST_ID}, not 7$") as refused:
        check_holder("a", stranger, desk.state())
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    with pytest.raises(KafkaError, match="the present holder is producer") as refused:
        check_holder("a", ProducerIdAndEpoch(FIRST_ID, 1), desk.state(), knows_fenced=False)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    check_holder("a", ProducerIdAndEpoch(FIRST_ID, 0), desk.state())
    assert being_ended("a").code is ErrorCode.CONCURRENT_TRANSACTIONS
    error = fenced("a", stranger, desk.state(), True)
    assert error.code is ErrorCode.PRODUCER_FENCED
    assert "producer 7 of a has epoch 3" in error.message
    assert f"producer {FIRST_ID} with epoch 0" in error.message
    assert fenced("a", stranger, desk.state(), False).code is ErrorCode.INVALID_PRODUCER_EPOCH
