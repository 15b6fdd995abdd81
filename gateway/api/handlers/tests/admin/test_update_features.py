"""UpdateFeatures: levels of features, and what is off at level 0."""

import pytest

from headgate.gateway.api.handler_registration import load
from headgate.gateway.metadata import features
from headgate.gateway.tests.builders import HandlerBroker, refusal
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.protocol.messages.update_features import SAFE_DOWNGRADE, UPGRADE, FeatureUpdateKey, UpdateFeaturesRequest
from headgate.protocol.schema import Message

pytestmark = pytest.mark.every_metadata_store


def update(node: HandlerBroker, level: int, kind: int, version: int = 2) -> int:
    change = FeatureUpdateKey(features.GROUP_VERSION, level, kind != UPGRADE, kind)
    code: int = node.ask(UpdateFeaturesRequest(feature_updates=[change]), version).error_code
    return code


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_level_is_lowered_for_good_and_raised_again(node: HandlerBroker, version: int) -> None:
    def finalized() -> list[int]:
        response = node.ask(ApiVersionsRequest("test", "1"), 4)
        assert response.finalized_features_epoch == node.services.metadata.end_offset
        return [row.max_version_level for row in response.finalized_features if row.name == features.GROUP_VERSION]

    assert update(node, 0, UPGRADE, version) == ErrorCode.INVALID_UPDATE_VERSION
    assert finalized() == [1]
    assert update(node, 0, SAFE_DOWNGRADE, version) == ErrorCode.NONE
    node.restart()
    assert finalized() == []
    assert update(node, 1, UPGRADE, version) == ErrorCode.NONE
    assert finalized() == [1]


@pytest.mark.parametrize("request_", [ConsumerGroupHeartbeatRequest("g", "m", 0), ConsumerGroupDescribeRequest(["g"])])
def test_without_group_version_there_are_no_groups_of_the_new_kind(node: HandlerBroker, request_: Message) -> None:
    assert update(node, 0, SAFE_DOWNGRADE) == ErrorCode.NONE
    assert refusal(node, request_, load()[request_.api_key].served_max) == ErrorCode.UNSUPPORTED_VERSION
