"""AlterClientQuotas: set and remove quotas of users, client ids and addresses (KIP-546).

v1 flexible
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import SETTLED_MS, each_in_turns
from headgate.gateway.metadata.store import Change
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
    EntryData,
)
from headgate.protocol.messages.describe_client_quotas import EntityData
from headgate.protocol.security.quotas import QuotaEntity


@handles(AlterClientQuotasRequest, versions="0-1", authorize=cluster(AclOperation.ALTER_CONFIGS))
def alter_client_quotas(
    request: AlterClientQuotasRequest, context: HandlerContext
) -> Outcome[AlterClientQuotasResponse]:
    """Change the quotas of each entity, or refuse the entity as a whole. Of a repeated entity the first counts."""
    known = set[QuotaEntity]()

    def alter(entry: EntryData) -> tuple[AlteredEntryData, Change]:
        entity, changes = _entity(entry), {op.key: None if op.remove else op.value for op in entry.ops}
        if entity in known or len(changes) < len(entry.ops):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {entity}")
        known.add(entity)
        change = context.broker.metadata.change_quotas(entity, changes, validate_only=request.validate_only)
        return AlteredEntryData(ErrorCode.NONE, None, _shown(entry)), change

    def refuse(entry: EntryData, code: ErrorCode, message: str) -> AlteredEntryData:
        return AlteredEntryData(code, message, _shown(entry))

    def respond(rows: list[AlteredEntryData]) -> AlterClientQuotasResponse:
        """A row for each entity: of a repeated one the last."""
        entities = zip(request.entries, rows, strict=True)
        return AlterClientQuotasResponse(entries=[*{_entity(entry): row for entry, row in entities}.values()])

    return each_in_turns(request.entries, alter, refuse, respond, int(SETTLED_MS), context)


def _entity(entry: EntryData) -> QuotaEntity:
    return QuotaEntity.of((part.entity_type, part.entity_name) for part in entry.entity)


def _shown(entry: EntryData) -> list[EntityData]:
    return [EntityData(kind, name) for kind, name in _entity(entry).names]
