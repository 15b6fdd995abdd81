"""Levels of features that can be finalized, and levels that cannot."""

import pytest

from headgate.gateway.metadata import features
from headgate.gateway.metadata.features import GROUP_VERSION, TRANSACTION_VERSION
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.planning.features import update_features
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.update_features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, FeatureUpdateKey

EMPTY = Image.empty()
LOWERED = EMPTY.apply_all(update_features(EMPTY, [FeatureUpdateKey(GROUP_VERSION, 0, upgrade_type=SAFE_DOWNGRADE)]))


def test_levels_go_down_and_up() -> None:
    assert features.levels(LOWERED) == {GROUP_VERSION: 0, TRANSACTION_VERSION: 2}
    raised = LOWERED.apply_all(update_features(LOWERED, [FeatureUpdateKey(GROUP_VERSION, 1, upgrade_type=UPGRADE)]))
    assert features.levels(raised) == {GROUP_VERSION: 1, TRANSACTION_VERSION: 2}
    assert update_features(EMPTY, []) == []


@pytest.mark.parametrize(
    "image, name, level, upgrade_type, sentence",
    [
        (EMPTY, "share.version", 1, UPGRADE, "'share.version' does not exist"),
        (EMPTY, TRANSACTION_VERSION, 3, UPGRADE, "levels 0 to 2, not at 3"),
        (EMPTY, TRANSACTION_VERSION, 1, UPGRADE, "ask for a downgrade"),
        (EMPTY, GROUP_VERSION, 2, UPGRADE, "levels 0 to 1, not at 2"),
        (EMPTY, GROUP_VERSION, -1, UNSAFE_DOWNGRADE, "levels 0 to 1, not at -1"),
        (EMPTY, GROUP_VERSION, 1, 4, "upgrade type 4 does not exist"),
        (EMPTY, GROUP_VERSION, 0, UPGRADE, "ask for a downgrade"),
        (LOWERED, GROUP_VERSION, 1, SAFE_DOWNGRADE, "ask for an upgrade"),
    ],
)
def test_levels_that_cannot_be(image: Image, name: str, level: int, upgrade_type: int, sentence: str) -> None:
    with pytest.raises(KafkaError) as caught:
        update_features(image, [FeatureUpdateKey(name, level, upgrade_type=upgrade_type)])
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert sentence in caught.value.message
