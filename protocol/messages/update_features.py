"""UpdateFeatures: raise or lower the finalized level of features of the whole cluster (KIP-584).

v1 kinds of upgrade, validate-only (KIP-778)   v2 no more results by feature
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, nullable_string, string, v

UPGRADE = 1
SAFE_DOWNGRADE = 2
UNSAFE_DOWNGRADE = 3


class FeatureUpdateKey(Struct):
    """A feature and its new level, below 1 to remove it; `upgrade_type` is a constant of this module."""

    feature: string = v("0+")
    max_version_level: int16 = v("0+")
    allow_downgrade: boolean = v("0")
    upgrade_type: int8 = v("1+", default=1)


class UpdateFeaturesRequest(Message, key=57, versions="0-2", flexible="0+"):
    """Change levels, all of them or none; with `validate_only` say whether they could be."""

    timeout_ms: int32 = v("0+", default=60000)
    feature_updates: array[FeatureUpdateKey] = v("0+")
    validate_only: boolean = v("1+")

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> "UpdateFeaturesResponse":
        return UpdateFeaturesResponse(error_code=error, error_message=message)


class UpdatableFeatureResult(Struct):
    """What became of a feature."""

    feature: string = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")


class UpdateFeaturesResponse(Message, key=57, response=True, versions="0-2", flexible="0+"):
    """A row for every feature of the request, or an error at the top; v2 has one outcome for all."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    results: array[UpdatableFeatureResult] = v("0-1")
