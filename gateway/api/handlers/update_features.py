"""UpdateFeatures: finalize features of the cluster at other levels, all of them or none (KIP-584).

v1 kinds of change, validate_only   v2 the result is only in the top-level error
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.metadata.planning.features import update_features as plan
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.messages.update_features import (
    SAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


@handles(UpdateFeaturesRequest, versions="0-2", authorize=cluster(AclOperation.ALTER))
def update_features(request: UpdateFeaturesRequest, context: HandlerContext) -> Outcome[UpdateFeaturesResponse]:
    """Change the levels of the named features."""
    metadata = context.broker.metadata
    updates = request.feature_updates
    if not context.version:
        updates = [_of_version_1(update) for update in updates]
    change = metadata.submit(plan(metadata.planned, updates), request.validate_only)
    results = [UpdatableFeatureResult(feature=update.feature, error_message=None) for update in updates]
    response = UpdateFeaturesResponse(error_message=None, results=results)
    return settled(context, change, lambda: response)


def _of_version_1(update: FeatureUpdateKey) -> FeatureUpdateKey:
    upgrade_type = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    return FeatureUpdateKey(update.feature, update.max_version_level, upgrade_type=upgrade_type)
