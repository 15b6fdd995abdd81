"""UpdateFeatures: raise or lower the finalized levels of the cluster's features (KIP-584).

v1 kinds of upgrade, validate-only (KIP-778)   v2 no more results by feature
"""

from headgate.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, nullable_string, string, v

UPGRADE = 1
SAFE_DOWNGRADE = 2
UNSAFE_DOWNGRADE = 3


class FeatureUpdateKey(Struct):
    """A feature and its new level; below 1 removes it. `upgrade_type`: a constant of this module."""

    feature: string = v("0+")
    max_version_level: int16 = v("0+")
    allow_downgrade: boolean = v("0")
    upgrade_type: int8 = v("1+", default=1)


class UpdateFeaturesRequest(Message, key=57, versions="0-2", flexible="0+"):
    """Change all levels or none, or with `validate_only` only validate the request."""

    timeout_ms: int32 = v("0+", default=60000)
    feature_updates: array[FeatureUpdateKey] = v("0+")
    validate_only: boolean = v("1+")


class UpdatableFeatureResult(Struct):
    """The result for a feature."""

    feature: string = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")


class UpdateFeaturesResponse(Message, key=57, response=True, versions="0-2", flexible="0+"):
    """One result for each feature of the request, or an error at the top. v2 has one result for all."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    results: array[UpdatableFeatureResult] = v("0-1")
