"""UpdateFeatures: finalize features of the cluster at other levels, all of them or none (KIP-584).

v1 kinds of change, validate_only   v2 only the error at the top says what became of it
"""

from headgate.gateway.api import features
from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handlers import handles
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.runtime.purgatory import Waiting
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.update_features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


@handles(UpdateFeaturesRequest, versions="0-2", authorize=cluster(AclOperation.ALTER))
def update_features(request: UpdateFeaturesRequest, context: HandlerContext) -> UpdateFeaturesResponse | Waiting:
    """Change the levels of the features that are named."""
    metadata = context.broker.metadata
    present = features.levels(metadata.planned)
    for update in request.feature_updates:
        _check(update, present, context.version)
    if not request.validate_only:
        metadata.set_features({update.feature: update.max_version_level for update in request.feature_updates})
    named = [update.feature for update in request.feature_updates]
    response = UpdateFeaturesResponse(
        error_message=None, results=[UpdatableFeatureResult(feature=name, error_message=None) for name in named]
    )
    told: UpdateFeaturesResponse | Waiting = settled(context, metadata.pending, lambda: response)
    return told


def _check(update: FeatureUpdateKey, present: dict[str, int], version: int) -> None:
    name, level = update.feature, update.max_version_level
    kind = update.upgrade_type if version else SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    if name not in features.HIGHEST:
        raise _invalid(f"there is no feature {name[:100]!r} here; there are: {', '.join(features.HIGHEST)}")
    if not 0 <= level <= features.HIGHEST[name]:
        raise _invalid(f"{name} can be at levels 0 to {features.HIGHEST[name]}, not at {level}")
    if kind not in {UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE}:
        raise _invalid(f"{name}: there is no kind of change {kind}")
    if level < present[name] and kind == UPGRADE:
        raise _invalid(f"{name} is at level {present[name]}; to go down to {level} must be asked for as a downgrade")
    if level > present[name] and kind != UPGRADE:
        raise _invalid(f"{name} is at level {present[name]}; to go up to {level} must be asked for as an upgrade")


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, sentence)
