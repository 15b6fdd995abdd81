"""AlterClientQuotas: set and remove quotas of users, client ids and addresses (KIP-546).

v1 flexible
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import Message, Struct, array, boolean, float64, int16, int32, nullable_string, string, v


class EntityData(Struct):
    """One kind of an entity (user, client-id, ip) and its name; null: the default of that kind."""

    entity_type: string = v("0+")
    entity_name: nullable_string = v("0+")


class OpData(Struct):
    """A quota to set, or to remove."""

    key: string = v("0+")
    value: float64 = v("0+")
    remove: boolean = v("0+")


class EntryData(Struct):
    """An entity and what is to change."""

    entity: array[EntityData] = v("0+")
    ops: array[OpData] = v("0+")


class AlterClientQuotasRequest(Message, key=49, versions="0-1", flexible="1+"):
    """Change quotas, or with `validate_only` say whether they could be."""

    entries: array[EntryData] = v("0+")
    validate_only: boolean = v("0+")

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> "AlterClientQuotasResponse":
        """The error at every entity: this API has no other place for it."""
        return AlterClientQuotasResponse(
            entries=[AlteredEntryData(error, message, entry.entity) for entry in self.entries]
        )


class AlteredEntryData(Struct):
    """What became of an entity."""

    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    entity: array[EntityData] = v("0+")


class AlterClientQuotasResponse(Message, key=49, response=True, versions="0-1", flexible="1+"):
    """A row for every entity of the request."""

    throttle_time_ms: int32 = v("0+")
    entries: array[AlteredEntryData] = v("0+")
