"""TLS of an `https://` address of the console: `--listen-config FILE`, with Kafka's settings `ssl.*` of a listener."""

from __future__ import annotations

import datetime as dt
import ssl
from difflib import get_close_matches
from typing import Final

from headgate.protocol.security.client_security import InvalidClientSecurity
from headgate.protocol.security.tls import contexts, stores
from headgate.protocol.security.tls.settings import TlsProblem, TlsSettings, of_texts, setting_name
from headgate.protocol.security.tls.store_files import StoreFiles
from headgate.tools.client.security_option import read_properties
from headgate.tools.console.listening import BadAddress

_NAMES: Final = frozenset(setting_name(field) for field in TlsSettings._fields[1:])


def server_context(path: str | None) -> ssl.SSLContext:
    """The context of the listener, from the settings in a file. Raises BadAddress."""
    if path is None:
        raise BadAddress(
            "an https:// address needs a certificate: name a file with ssl.keystore.type=PEM and"
            " ssl.keystore.location=FILE by --listen-config"
        )
    try:
        settings = of_texts(_read(path))
        files, now = StoreFiles(), dt.datetime.now(dt.UTC)
        key_store = stores.read_key_store(settings, files.read, now)
        trust_store = stores.read_trust_store(settings, files.read, now)
        context = contexts.server_context(settings, key_store, trust_store, files)
    except TlsProblem as error:
        raise BadAddress(f"{path}: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def _read(path: str) -> dict[str, str]:
    """Raises BadAddress."""
    try:
        properties = read_properties(path)
    except InvalidClientSecurity as error:
        raise BadAddress(str(error)) from None
    for name in properties:
        if name not in _NAMES:
            near = get_close_matches(name, sorted(_NAMES), 1)
            raise BadAddress(f"{path}: {name!r} is no setting of TLS" + (f"; is it {near[0]}?" if near else ""))
    return properties
