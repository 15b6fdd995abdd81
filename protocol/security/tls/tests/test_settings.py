"""TLS settings from the texts of a client's properties."""

from headgate.protocol.security.secret import Secret
from headgate.protocol.security.tls.settings import TlsSettings, of_texts, setting_name

SECRETS = (
    "keystore_password",
    "keystore_key",
    "keystore_certificate_chain",
    "key_password",
    "truststore_password",
    "truststore_certificates",
)


def test_texts_become_values_of_their_type() -> None:
    settings = of_texts({"ssl.enabled.protocols": " TLSv1.2, TLSv1.3,", "ssl.keystore.type": "PEM", "other": "x"})
    assert settings == TlsSettings(enabled_protocols=("TLSv1.2", "TLSv1.3"), keystore_type="PEM")
    assert of_texts({}) == TlsSettings()


def test_every_password_is_hidden() -> None:
    settings = of_texts({setting_name(field): f"hush {field}" for field in SECRETS})
    assert "hush" not in repr(settings)
    assert [getattr(settings, field) for field in SECRETS] == [Secret(f"hush {field}") for field in SECRETS]
