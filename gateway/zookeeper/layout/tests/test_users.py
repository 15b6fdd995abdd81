"""SCRAM credentials in the configs of a user, as Kafka 3.9 reads and writes them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.zookeeper.layout.users import (
    InvalidCredential,
    configs_of,
    credentials_of,
    decode_credential,
    encode_credential,
)
from headgate.protocol.security.sasl.scram_keys import ScramCredential, ScramMechanism, credential_of, salted_password

SHA_256 = ScramMechanism.SCRAM_SHA_256
# By ScramCredentialUtils.credentialToString of Kafka 3.9.1, for the password "alice-secret"
KAFKAS = (
    "salt=MWhxbm4yY2dzbWRwampmYWprZ25iNWpkOA==,stored_key=gR1s3k1JEMSLnkQC8kFFWGo2rE6i9OhGiNmhNt4JUGQ=,"
    "server_key=GeWd7gw7YlryWYXD9bLCCWW/7vndt8nFFsAwu7udEBE=,iterations=8192"
)
SALT = b"1hqnn2cgsmdpjjfajkgnb5jd8"


def test_a_credential_has_kafkas_text() -> None:
    credential = credential_of(SHA_256, salted_password(SHA_256, b"alice-secret", SALT, 8192), SALT, 8192)
    assert encode_credential(credential) == KAFKAS
    assert decode_credential(KAFKAS) == credential


# As ScramCredentialUtils.credentialFromString answers
@pytest.mark.parametrize(
    "text, salt",
    [
        ("iterations=5,salt=eA==,stored_key=eA==,server_key=eA==", b"x"),
        ("salt=eA==,stored_key=eA==,server_key=eA==,iterations=5,salt=eQ==", b"y"),
        ("salt=eA,stored_key=eA==,server_key=eA==,iterations=5", b"x"),
        ("salt=,stored_key=eA==,server_key=eA==,iterations=5,", b""),
    ],
)
def test_other_texts_that_kafka_reads(text: str, salt: bytes) -> None:
    assert decode_credential(text) == ScramCredential(salt, b"x", b"x", 5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a=b",
        "salt=eA==,stored_key=eA==,server_key=eA==,iterations=x",
        "salt=eA==,stored_key=eA==,server_key=eA==,iterations= 5",
        "salt=eA==,stored_key=eA==,server_key=eA==,iterations=5,x=y",
        "salt=!,stored_key=eA==,server_key=eA==,iterations=5",
    ],
)
def test_texts_that_kafka_refuses(text: str) -> None:
    with pytest.raises(InvalidCredential):
        decode_credential(text)


def test_other_configs_of_a_user_are_no_credentials() -> None:
    found, invalid = credentials_of({"SCRAM-SHA-512": KAFKAS, "producer_byte_rate": "1", "SCRAM-SHA-256": "secret"})
    assert found == {2: decode_credential(KAFKAS)}
    assert invalid == {"SCRAM-SHA-256": "its fields are not salt, stored_key, server_key and iterations"}
    assert configs_of(found) == {"SCRAM-SHA-512": KAFKAS}


@given(st.binary(), st.binary(), st.binary(), st.integers(0, 2**29))
def test_credentials_round_trip(salt: bytes, stored_key: bytes, server_key: bytes, iterations: int) -> None:
    credential = ScramCredential(salt, stored_key, server_key, iterations)
    assert decode_credential(encode_credential(credential)) == credential


@pytest.mark.slow
@given(st.text() | st.from_regex(r"(salt|stored_key|server_key|iterations)=[\w=]*(,\w+=[\w=]*)*", fullmatch=True))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvalidCredential):
        decode_credential(text)
