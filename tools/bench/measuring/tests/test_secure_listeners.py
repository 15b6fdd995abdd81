"""The listeners over TLS and with logins: their addresses, and a key that both brokers can read."""

import ssl
from pathlib import Path

from headgate.tools.bench.measuring.secure_listeners import SecureListeners, SecurePorts, addresses, client_context


def test_the_key_store_has_a_key_and_its_certificate(tmp_path: Path) -> None:
    made = SecureListeners.with_key_of(tmp_path)
    assert made.settings["ssl.keystore.location"] == str(made.key_store)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(made.key_store)


def test_the_addresses_are_those_of_the_setting_listeners() -> None:
    assert addresses(SecurePorts(1, 2)) == "SSL://127.0.0.1:1,SASL_PLAINTEXT://127.0.0.1:2"


def test_a_client_speaks_the_newest_version_alone() -> None:
    assert client_context().minimum_version == ssl.TLSVersion.TLSv1_3
