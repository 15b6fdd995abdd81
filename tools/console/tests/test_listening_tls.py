"""TLS of the console's listener: Kafka's settings, and one sentence for what is wrong with them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from headgate.protocol.security.tls.tests.certificates import write_files
from headgate.tools.console.listening import BadAddress
from headgate.tools.console.listening_tls import server_context


def config(directory: Path, **settings: str) -> str:
    path = directory / "listen.properties"
    path.write_text("".join(f"ssl.{name.replace('_', '.')}={value}\n" for name, value in settings.items()))
    return str(path)


@pytest.mark.slow
def test_a_key_store_makes_a_listener(tmp_path: Path) -> None:
    write_files(tmp_path, ["broker"])
    path = config(tmp_path, keystore_type="PEM", keystore_location=f"{tmp_path}/broker.pem")
    assert server_context(path).verify_mode is ssl.CERT_NONE
    path = config(tmp_path, keystore_type="PEM", keystore_location=f"{tmp_path}/broker.pem", client_auth="required")
    with pytest.raises(BadAddress, match=r"ssl\.truststore\.location"):
        server_context(path)


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({}, "there is no key store"),
        ({"keystore_typ": "PEM"}, "'ssl.keystore.typ' is no setting of TLS; is it ssl.keystore.type?"),
        ({"keystore_type": "PEM", "keystore_location": "/nowhere.pem"}, "/nowhere.pem"),
    ],
)
def test_wrong_settings_are_one_sentence(tmp_path: Path, settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadAddress) as refused:
        server_context(config(tmp_path, **settings))
    assert sentence in str(refused.value)
    assert "listen.properties" in str(refused.value)


def test_a_file_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(BadAddress, match="--listen-config"):
        server_context(None)
    with pytest.raises(BadAddress, match="the file cannot be read"):
        server_context(str(tmp_path / "none"))
