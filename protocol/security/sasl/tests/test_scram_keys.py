"""Keys of salted passwords."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from headgate.protocol.security.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential, credential_of, salted_password


@pytest.mark.parametrize("name", SCRAM_MECHANISMS)
def test_keys_are_those_of_rfc_5802(name: str) -> None:
    mechanism = SCRAM_MECHANISMS[name]
    credential = credential_of(mechanism, b"salted", b"salt", 5000)
    new = getattr(hashlib, mechanism.hash_name)
    assert credential.stored_key == new(hmac.new(b"salted", b"Client Key", new).digest()).digest()
    assert credential.server_key == hmac.new(b"salted", b"Server Key", new).digest()
    assert len(credential.stored_key) == mechanism.key_bytes


def test_the_example_of_rfc_7677_has_its_signature() -> None:
    mechanism, salt = SCRAM_MECHANISMS["SCRAM-SHA-256"], base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = credential_of(mechanism, salted_password(mechanism, b"pencil", salt, 4096), salt, 4096)
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    signature = hmac.digest(credential.server_key, first + b",c=biws,r=" + nonce, mechanism.hash_name)
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_no_text_of_a_credential_has_a_key() -> None:
    assert repr(ScramCredential(b"salt", b"stored", b"server", 4096)) == "ScramCredential([hidden], iterations=4096)"
