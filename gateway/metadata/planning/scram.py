"""The plan that changes SCRAM credentials of users (KIP-554). Pure: an image in, records and an answer a user out.

Source: `ScramControlManager` of Apache Kafka 4.1. Kafka has no limit on the size of a name or of a salt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.records import scram_records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import MetadataRecord
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headgate.protocol.security.sasl.scram_keys import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
)

MAX_NAME_BYTES: Final = 1024
MAX_SALT_BYTES: Final = 1024
_MECHANISMS: Final = frozenset(ScramMechanism)
_TWICE: Final = "A user credential cannot be altered twice in the same request"


class ScramPlan(NamedTuple):
    """Records, and by user the error, or None for a change that the records make."""

    records: list[MetadataRecord]
    results: dict[str, KafkaError | None]


def change_scram_credentials(image: Image, request: AlterUserScramCredentialsRequest) -> ScramPlan:
    """The plan of a request: each user that is named once changes, or gets an error."""
    records, results = dict[str, list[MetadataRecord]](), dict[str, KafkaError | None]()
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    for change in changes:
        name = change.name
        if results.get(name) is not None:
            continue
        try:
            credentials = dict([_planned(image, change, is_first=name not in results)])
            records[name], results[name] = scram_records(name, credentials), None
        except KafkaError as error:
            records.pop(name, None)
            results[name] = error
    return ScramPlan([record for planned in records.values() for record in planned], dict(_in_order(results)))


def _in_order(results: dict[str, KafkaError | None]) -> Iterator[tuple[str, KafkaError | None]]:
    """Successes first, as Kafka answers."""
    return iter(sorted(results.items(), key=lambda item: item[1] is not None))


def _planned(
    image: Image, change: ScramCredentialDeletion | ScramCredentialUpsertion, *, is_first: bool
) -> tuple[int, ScramCredential | None]:
    """The mechanism of a change with its credential, or None. Raises KafkaError."""
    if not is_first:
        raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
    _check_name_and_mechanism(change.name, change.mechanism)
    if isinstance(change, ScramCredentialDeletion):
        if change.mechanism not in image.scram_credentials.get(change.name, {}):
            message = "Attempt to delete a user credential that does not exist"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)
        return change.mechanism, None
    _check_upsertion(change)
    mechanism = ScramMechanism(change.mechanism)
    return mechanism, credential_of(mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations)


def _check_name_and_mechanism(name: str, mechanism: int) -> None:
    if not name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Username is longer than {MAX_NAME_BYTES} bytes")
    if mechanism not in _MECHANISMS:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _check_upsertion(change: ScramCredentialUpsertion) -> None:
    if change.iterations < MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if max(len(change.salt), len(change.salted_password)) > MAX_SALT_BYTES:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Salt or password is longer than {MAX_SALT_BYTES} bytes")
    if not len(change.salted_password):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Empty key")
