"""Which resource a request about configs means, and what it is told where it means none."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from headgate.gateway.api.config_resources import (
    altered_broker,
    altered_group,
    altered_topic,
    has_no_settings,
    this_broker,
)
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode, KafkaError


@dataclass
class Named:
    resource_type: int
    resource_name: str


def test_a_topic_is_looked_up(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    assert altered_topic(Named(ResourceType.TOPIC, "t"), node.context(0)).name == "t"


@pytest.mark.parametrize(
    "name, code",
    [
        ("", ErrorCode.INVALID_REQUEST),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_wrong_topic_is_refused(node: HandlerBroker, name: str, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        altered_topic(Named(ResourceType.TOPIC, name), node.context(0))
    assert refused.value.code is code


def test_a_broker_is_this_one_or_all_of_them(node: HandlerBroker) -> None:
    own = node.services.config.node_id
    assert this_broker(Named(ResourceType.BROKER, str(own)), node.context(0)) == own
    assert altered_broker(Named(ResourceType.BROKER, ""), node.context(0)) is None
    for name, refusal in {
        "": "Broker id must not be empty",
        str(own + 1): f"Unexpected broker id, expected {own}, but received {own + 1}; ask that broker itself",
        "x": "Broker id must be an integer, but it is: x",
    }.items():
        with pytest.raises(KafkaError, match=refusal):
            this_broker(Named(ResourceType.BROKER, name), node.context(0))


def test_a_group_has_a_name() -> None:
    assert altered_group(Named(ResourceType.GROUP, "g")) == "g"
    with pytest.raises(KafkaError, match="must not be empty"):
        altered_group(Named(ResourceType.GROUP, ""))


def test_other_kinds_have_no_settings() -> None:
    for kind, sentence in ((77, "Unknown resource type 77"), (ResourceType.CLIENT_METRICS, "no client metrics are")):
        refusal = has_no_settings(Named(kind, "x"))
        assert refusal.code is ErrorCode.INVALID_REQUEST
        assert refusal.message.startswith(sentence)
