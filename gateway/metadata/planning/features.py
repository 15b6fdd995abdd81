"""The plan that finalizes features of the cluster at other levels (KIP-584). Pure: an image in, records out."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.gateway.metadata import features
from headgate.gateway.metadata.image import Image
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import FeatureLevelRecord, MetadataRecord
from headgate.protocol.messages.update_features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, FeatureUpdateKey


def update_features(image: Image, updates: Sequence[FeatureUpdateKey]) -> list[MetadataRecord]:
    """The records that finalize every feature, or none; level 0 is off. Raises KafkaError(INVALID_UPDATE_VERSION)."""
    present = features.levels(image)
    for update in updates:
        _check(update, present)
    levels = {update.feature: update.max_version_level for update in updates}
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]


def _check(update: FeatureUpdateKey, present: dict[str, int]) -> None:
    name, level, upgrade_type = update.feature, update.max_version_level, update.upgrade_type
    if name not in features.HIGHEST:
        raise _invalid(f"feature {name[:100]!r} does not exist; the features are {', '.join(features.HIGHEST)}")
    if not 0 <= level <= features.HIGHEST[name]:
        raise _invalid(f"{name} can be at levels 0 to {features.HIGHEST[name]}, not at {level}")
    if upgrade_type not in {UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE}:
        raise _invalid(f"{name}: upgrade type {upgrade_type} does not exist")
    if level < present[name] and upgrade_type == UPGRADE:
        raise _invalid(f"{name} is at level {present[name]}; ask for a downgrade to go down to {level}")
    if level > present[name] and upgrade_type != UPGRADE:
        raise _invalid(f"{name} is at level {present[name]}; ask for an upgrade to go up to {level}")


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, sentence)
