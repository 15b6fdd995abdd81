"""Plans of SCRAM credentials; Kafka's answers are in `gateway/api/tests/like_kafka/test_scram.py`."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.planning.scram import MAX_NAME_BYTES, MAX_SALT_BYTES, change_scram_credentials
from headgate.gateway.metadata.records import image_records, scram_records
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headgate.protocol.security.sasl.scram_keys import ScramCredential

EMPTY = Image.empty()


def upsertion(
    name: str = "ann", mechanism: int = 1, salt: bytes = b"salt", password: bytes = b"salted"
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, 4096, salt, password)


def planned(image: Image, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> Image:
    plan = change_scram_credentials(image, request(*changes))
    assert set(plan.results.values()) == {None}
    return image.apply_all(plan.records)


def request(*changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        [change for change in changes if isinstance(change, ScramCredentialDeletion)],
        [change for change in changes if isinstance(change, ScramCredentialUpsertion)],
    )


def test_a_salted_password_becomes_its_keys() -> None:
    credential = planned(EMPTY, upsertion()).scram_credentials["ann"][1]
    key = hmac.digest(b"salted", b"Client Key", "sha256")
    server_key = hmac.digest(b"salted", b"Server Key", "sha256")
    assert credential == ScramCredential(b"salt", hashlib.sha256(key).digest(), server_key, 4096)


def test_a_user_without_credentials_is_gone() -> None:
    image = planned(planned(EMPTY, upsertion()), upsertion(mechanism=2))
    assert set(image.scram_credentials["ann"]) == {1, 2}
    image = planned(image, ScramCredentialDeletion("ann", 1))
    assert set(image.scram_credentials["ann"]) == {2}
    assert planned(image, ScramCredentialDeletion("ann", 2)).scram_credentials == {}


def test_an_older_image_keeps_its_credentials() -> None:
    before = planned(EMPTY, upsertion())
    planned(before, ScramCredentialDeletion("ann", 1), upsertion("ben"))
    assert set(before.scram_credentials) == {"ann"}


def test_a_snapshot_has_the_credentials() -> None:
    image = planned(planned(EMPTY, upsertion(), upsertion("ben")), upsertion(mechanism=2))
    assert Image.empty().apply_all(image_records(image, ())).scram_credentials == image.scram_credentials


def test_a_removal_of_nothing_does_not_fit_the_image() -> None:
    with pytest.raises(ValueError, match="the user 'ann' has no SCRAM credential of mechanism 1"):
        EMPTY.apply_all(scram_records("ann", {1: None}))


@pytest.mark.parametrize(
    "change, message",
    [
        (upsertion("x" * (MAX_NAME_BYTES + 1)), "Username is longer than"),
        (upsertion(salt=b"x" * (MAX_SALT_BYTES + 1)), "Salt or password is longer than"),
        (upsertion(password=b"x" * (MAX_SALT_BYTES + 1)), "Salt or password is longer than"),
    ],
)
def test_sizes_are_bounded(change: ScramCredentialUpsertion, message: str) -> None:
    (error,) = change_scram_credentials(EMPTY, request(change)).results.values()
    assert error is not None
    assert error.code is ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert message in error.message


def test_no_text_has_a_password_or_a_key() -> None:
    asked = request(upsertion(salt=b"hunter2", password=b"hunter2"))
    plan = change_scram_credentials(EMPTY, asked)
    shown = f"{asked}{plan}{EMPTY.apply_all(plan.records)}"
    assert "ann" in shown
    assert "hunter2" not in shown
    assert "stored_key" not in shown
