"""AlterClientQuotas: set and remove quotas of users, client ids and addresses (KIP-546).

v1 flexible
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_client_quotas import EntityData
from headgate.protocol.schema import Message, Struct, array, boolean, float64, int16, int32, nullable_string, string, v


class OpData(Struct):
    """A quota to set or to remove."""

    key: string = v("0+")
    value: float64 = v("0+")
    remove: boolean = v("0+")


class EntryData(Struct):
    """An entity and the changes to it."""

    entity: array[EntityData] = v("0+")
    ops: array[OpData] = v("0+")


class AlterClientQuotasRequest(Message, key=49, versions="0-1", flexible="1+"):
    """Change quotas, or with `validate_only` only validate the request."""

    entries: array[EntryData] = v("0+")
    validate_only: boolean = v("0+")

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> "AlterClientQuotasResponse":
        """Return the error for each entity: the response has no other place for an error."""
        return AlterClientQuotasResponse(
            entries=[AlteredEntryData(error, message, entry.entity) for entry in self.entries]
        )


class AlteredEntryData(Struct):
    """The result for an entity."""

    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    entity: array[EntityData] = v("0+")


class AlterClientQuotasResponse(Message, key=49, response=True, versions="0-1", flexible="1+"):
    """One result for each entity of the request."""

    throttle_time_ms: int32 = v("0+")
    entries: array[AlteredEntryData] = v("0+")
