"""DescribeClientQuotas: the quotas of users, client ids and addresses (KIP-546).

v1 flexible
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.security.quotas.filters import EntityFilter
from headgate.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from headgate.protocol.security.quotas import QuotaEntity
from headgate.protocol.steps import lazy_map


@handles(DescribeClientQuotasRequest, versions="0-1", authorize=cluster(AclOperation.DESCRIBE_CONFIGS))
def describe_client_quotas(
    request: DescribeClientQuotasRequest, context: HandlerContext
) -> DescribeClientQuotasResponse:
    """The entities that the filter matches, each with its quotas."""
    components = [(part.entity_type, part.match_type, part.match) for part in request.components]
    entity_filter = EntityFilter.of(components, is_strict=request.strict)
    quotas = context.broker.metadata.image.quotas

    def row(entity: QuotaEntity) -> EntryData:
        values = [ValueData(key, value) for key, value in quotas[entity].items()]
        return EntryData([EntityData(kind, name) for kind, name in entity.names], values)

    matching = [entity for entity in quotas if entity_filter.matches(entity)]
    return DescribeClientQuotasResponse(entries=lazy_map(matching, row))
