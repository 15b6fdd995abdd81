"""The ACLs, passwords, quotas and tokens of a real Kafka 4.1 are adopted; `security_scenario` has what it did."""

from __future__ import annotations

import hashlib
import hmac
import logging
from pathlib import Path

import pytest

from headgate.gateway.app.tests.security_scenario import ITERATIONS, PASSWORD
from headgate.gateway.app.tests.test_adoption import METADATA, adopt, image, kafkas, with_metadata
from headgate.gateway.metadata.image import Image
from headgate.protocol.internal.metadata import UserScramCredentialRecord
from headgate.protocol.security.quotas import QuotaEntity
from headgate.storage.tests.crashing_files import CrashingFiles

RECORDED = Path(__file__).parent / "metadata_of_kafka41.log"
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


@pytest.fixture
def files() -> CrashingFiles:
    made = kafkas()
    made.make_directories(METADATA)
    made.write(f"{METADATA}/{0:020d}.log", RECORDED.read_bytes())
    return made


@pytest.fixture
def adopted(files: CrashingFiles) -> Image:
    assert adopt(files, **AUTHORIZER)
    return image(files)


def test_acls_decide_as_in_kafka(adopted: Image) -> None:
    assert {str(binding) for binding in adopted.acls.ids} == {
        "ALLOW READ on TOPIC:LITERAL:orders to User:alice from *",
        "DENY READ on TOPIC:PREFIXED:ord to User:* from 10.0.0.1",
        "ALLOW READ on GROUP:LITERAL:billing to User:alice from *",
    }


def test_passwords_are_those_of_kafka(adopted: Image) -> None:
    assert {user: {*mechanisms} for user, mechanisms in adopted.scram_credentials.items()} == {"alice": {1, 2}}
    for mechanism, digest in {1: "sha256", 2: "sha512"}.items():
        credential = adopted.scram_credentials["alice"][mechanism]
        salted = hashlib.pbkdf2_hmac(digest, PASSWORD, credential.salt, ITERATIONS)
        assert credential.iterations == ITERATIONS
        assert credential.server_key == hmac.digest(salted, b"Server Key", digest)


def test_quotas_are_those_of_kafka(adopted: Image) -> None:
    assert adopted.quotas == {
        QuotaEntity.of({"user": "alice"}): {"producer_byte_rate": 1e6},
        QuotaEntity.of({"user": None, "client-id": "a"}): {"consumer_byte_rate": 2e6},
        QuotaEntity.of({"ip": "10.0.0.1"}): {"connection_creation_rate": 3.0},
    }


def test_tokens_are_those_of_kafka(adopted: Image) -> None:
    (token,) = adopted.tokens.values()
    assert (token.owner, token.requester, token.renewers) == ("User:bob", "User:admin", ("User:alice",))
    assert token.max_ms - token.issue_ms == 86_400_000


def test_nothing_secret_is_in_the_log(files: CrashingFiles, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert adopt(files)
    assert "3 ACLs are adopted, but without authorizer.class.name everybody may do everything" in caplog.text
    for credential in image(files).scram_credentials["alice"].values():
        for secret in (credential.salt, credential.stored_key, credential.server_key):
            assert repr(secret) not in caplog.text
            assert secret.hex() not in caplog.text


def test_users_are_adopted_without_topics_and_acls() -> None:
    files = with_metadata(kafkas(), UserScramCredentialRecord("a", 1, b"salt", b"stored", b"server", 4096))
    assert adopt(files)
    assert image(files).scram_credentials.keys() == {"a"}
