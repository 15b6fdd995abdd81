"""DescribeClientQuotas: the quotas of users, client ids and addresses (KIP-546).

v1 flexible
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    v,
)

EXACT = 0
DEFAULT = 1
ANY = 2


class ComponentData(Struct):
    """A type of entity (user, client-id, ip) and the entities to match. `match_type`: a constant of this module."""

    entity_type: string = v("0+")
    match_type: int8 = v("0+")
    match: nullable_string = v("0+")


class DescribeClientQuotasRequest(Message, key=48, versions="0-1", flexible="1+"):
    """Ask for the entities that match every component. `strict`: and have no other type."""

    components: array[ComponentData] = v("0+")
    strict: boolean = v("0+")

    def error_response(
        self, version: int, error: ErrorCode, message: str | None = None
    ) -> "DescribeClientQuotasResponse":
        return DescribeClientQuotasResponse(error_code=error, error_message=message, entries=None)


class EntityData(Struct):
    """One type of an entity (user, client-id, ip) and its name; null is the default of that type."""

    entity_type: string = v("0+")
    entity_name: nullable_string = v("0+")


class ValueData(Struct):
    """A quota."""

    key: string = v("0+")
    value: float64 = v("0+")


class EntryData(Struct):
    """An entity and its quotas."""

    entity: array[EntityData] = v("0+")
    values: array[ValueData] = v("0+")


class DescribeClientQuotasResponse(Message, key=48, response=True, versions="0-1", flexible="1+"):
    """One result for each matching entity; null with an error."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    entries: nullable_array[EntryData] = v("0+")
