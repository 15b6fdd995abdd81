"""Plans that change quotas. Pure: an image in, records out. None removes a quota.

Source: `ClientQuotaControlManager`, `QuotaConfig` of Apache Kafka 4.1. Kafka looks up host names to check an address;
here an address is numeric: a look-up would stop the event loop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from ipaddress import ip_address

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.records import quota_records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import MetadataRecord
from headgate.protocol.security.quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)

_LONG, _INT = ("LONG", 2.0**63), ("INT", 2.0**31 - 1)
_TOLERANCE = 1e-6
"""The largest fraction of a whole number, which tools may have computed."""
_CLIENT_TYPES = {
    PRODUCER_BYTE_RATE: _LONG,
    CONSUMER_BYTE_RATE: _LONG,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""The type and the largest value of each whole number; None for any number."""
_IP_TYPES = {CONNECTION_CREATION_RATE: _INT}


def change_quotas(image: Image, entity: QuotaEntity, changes: Mapping[str, float | None]) -> list[MetadataRecord]:
    """The records that change quotas of an entity; none for what is so already. Raises KafkaError(INVALID_REQUEST)."""
    _check_entity(entity)
    types = _IP_TYPES if IP in entity.by_type else _CLIENT_TYPES
    present = image.quotas.get(entity, {})
    records = list[MetadataRecord]()
    for key, value in changes.items():
        if value is None:
            records += quota_records(entity, {key: None}) if key in present else []
            continue
        _check_value(types, key, value)
        if present.get(key) != value:
            records += quota_records(entity, {key: value})
    return records


def _check_entity(entity: QuotaEntity) -> None:
    if not entity.names:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity.names:
        if kind not in {USER, CLIENT_ID, IP}:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    names = entity.by_type
    if IP in names and len(names) > 1:
        raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = names.get(IP)
    if address is not None and not _is_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_value(types: Mapping[str, tuple[str, float] | None], key: str, value: float) -> None:
    if key not in types:
        raise _invalid(f"Invalid configuration key {key}")
    if not value > 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    number = types[key]
    if number is None:
        if math.isinf(value):
            raise _invalid(f"Quota {key} must be a number; remove the quota for no limit")
        return
    kind, largest = number
    if value > largest:  # infinity included
        raise _invalid(f"Proposed value for {key} is too large for {'an' if kind == 'INT' else 'a'} {kind}.")
    if abs(round(value) - value) > _TOLERANCE:
        raise _invalid(f"{key} cannot be a fractional value.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
