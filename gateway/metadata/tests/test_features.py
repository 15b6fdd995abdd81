"""Features: which there are, and at which level."""

import pytest

from headgate.gateway.metadata import features
from headgate.gateway.metadata.image import Image
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import FeatureLevelRecord


def test_what_nobody_finalized_is_at_its_highest() -> None:
    image = Image.empty()
    assert features.levels(image) == {features.GROUP_VERSION: 1, features.TRANSACTION_VERSION: 2}
    lowered = image.apply(FeatureLevelRecord(name=features.GROUP_VERSION, feature_level=0))
    assert features.levels(lowered) == {features.GROUP_VERSION: 0, features.TRANSACTION_VERSION: 2}
    assert [features.level(name, lowered) for name in features.HIGHEST] == [0, 2]


def test_a_feature_at_level_0_is_off() -> None:
    features.check_is_on(features.GROUP_VERSION, Image.empty())
    lowered = Image.empty().apply(FeatureLevelRecord(name=features.GROUP_VERSION, feature_level=0))
    with pytest.raises(KafkaError) as caught:
        features.check_is_on(features.GROUP_VERSION, lowered)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
