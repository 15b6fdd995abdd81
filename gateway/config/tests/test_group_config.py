"""Settings of single groups. What clients can do with them: test_incremental_alter_configs.py."""

import pytest

from headgate.gateway.config import BrokerConfig, group_config
from headgate.protocol.errors import ErrorCode, KafkaError


def test_only_the_names_that_are_asked_for() -> None:
    entries = group_config.describe(BrokerConfig.load(), {}, ["consumer.heartbeat.interval.ms", "no.such"])
    assert [(entry.name, entry.value) for entry in entries] == [("consumer.heartbeat.interval.ms", "5000")]


@pytest.mark.parametrize("value", ["44999", "60001", "-1", "1.5", "", "x" * 1000])
def test_a_value_out_of_bounds_is_told_with_the_bounds(value: str) -> None:
    with pytest.raises(KafkaError) as refused:
        group_config.check(BrokerConfig.load(), {"consumer.session.timeout.ms": value})
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    bounds = ("than or equal to group.consumer.m", "Not a number of type INT", "Value must be at least 1")
    assert any(bound in refused.value.message for bound in bounds)
