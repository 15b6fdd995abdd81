"""The files of certificates that other tests make by the command."""

from __future__ import annotations

from pathlib import Path

from headgate.protocol.security.secret import Secret
from headgate.protocol.security.tls import stores
from headgate.protocol.security.tls.settings import TlsSettings
from headgate.protocol.security.tls.store_files import StoreFiles
from headgate.protocol.security.tls.tests.certificates import NOW, write_files


def test_the_files_are_stores(tmp_path: Path) -> None:
    authority = write_files(tmp_path / "new", ["broker"])
    read = StoreFiles().read
    pem = TlsSettings(keystore_type="PEM", keystore_location=f"{tmp_path}/new/broker.pem")
    p12 = TlsSettings(
        keystore_location=f"{tmp_path}/new/broker.p12",
        keystore_password=Secret("secret"),
        truststore_location=f"{tmp_path}/new/ca.p12",
        truststore_password=Secret("secret"),
    )
    trusted = stores.read_trust_store(p12, read, NOW)
    stores_read = [stores.read_key_store(settings, read, NOW) for settings in (pem, p12)]
    assert len({store.chain for store in stores_read if store is not None}) == 1
    assert None not in stores_read
    assert trusted is not None
    assert trusted.certificates == (authority.certificate,)
