"""Configs of topics, groups and brokers: what is checked, and the records of a change."""

from collections.abc import Callable

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.planning.configs import (
    change_broker_configs,
    change_group_configs,
    change_topic_configs,
)
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigRecord,
    TopicRecord,
)

CONFIG = BrokerConfig.load("node.id=3")
IMAGE = Image.empty().apply(
    TopicRecord(name="t", topic_id=b"t" * 16),
    ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="min.compaction.lag.ms", value="7"),
)


def test_a_change_sets_and_removes() -> None:
    changes = {"retention.ms": "5", "min.compaction.lag.ms": None}
    after = IMAGE.apply_all(change_topic_configs(IMAGE, "t", changes))
    assert after.topics["t"].configs == {"retention.ms": "5"}


def test_each_resource_has_configs_of_its_own() -> None:
    records = [
        *change_group_configs(IMAGE, CONFIG, "g", {"consumer.session.timeout.ms": "50000"}),
        *change_broker_configs(IMAGE, CONFIG, None, {"log.retention.ms": "5000"}),
        *change_broker_configs(IMAGE, CONFIG, 3, {"log.retention.ms": "6000"}),
    ]
    assert IMAGE.apply_all(records).configs == {
        (GROUP_RESOURCE, "g"): {"consumer.session.timeout.ms": "50000"},
        (BROKER_RESOURCE, ""): {"log.retention.ms": "5000"},
        (BROKER_RESOURCE, "3"): {"log.retention.ms": "6000"},
    }


@pytest.mark.parametrize(
    "plan, code",
    [
        (lambda: change_topic_configs(IMAGE, "u", {}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda: change_topic_configs(IMAGE, "t", {"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (lambda: change_topic_configs(IMAGE, "t", {"max.compaction.lag.ms": "6"}), ErrorCode.INVALID_CONFIG),
        (lambda: change_group_configs(IMAGE, CONFIG, "g", {"x": "1"}), ErrorCode.INVALID_CONFIG),
        (lambda: change_broker_configs(IMAGE, CONFIG, 3, {"x": "1"}), ErrorCode.INVALID_CONFIG),
        (lambda: change_broker_configs(IMAGE, CONFIG, 3, {"node.id": "4"}), ErrorCode.INVALID_REQUEST),
    ],
)
def test_changes_that_are_refused(plan: Callable[[], object], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        plan()
    assert caught.value.code is code
