"""Cipher suites by Java's names, which are those of the registry of IANA, and OpenSSL's names of them.

The suites are those of JDK 17 that OpenSSL has too. Java's others are without encryption, without authentication, for
DSA, or disabled by Java's own policy, so that Kafka does not serve them either.
"""

from __future__ import annotations

from typing import NamedTuple

TLS_1_3_SUITES = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The suites of TLS 1.3, in OpenSSL's order; their names are the same everywhere."""

_IGNORED = frozenset(("TLS_EMPTY_RENEGOTIATION_INFO_SCSV",))
"""A signal in the list of suites, no suite; OpenSSL sends it anyway."""
_CIPHERS = {
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA": "AES128-SHA",
}
_ELLIPTIC = tuple(cipher for cipher in _CIPHERS if cipher != "AES_256_CBC_SHA256")
_OTHERS = tuple(cipher for cipher in _CIPHERS if cipher != "AES_256_CBC_SHA384")
_KEY_EXCHANGES = (
    ("ECDHE_ECDSA", "ECDHE-ECDSA-", _ELLIPTIC),
    ("ECDHE_RSA", "ECDHE-RSA-", _ELLIPTIC),
    ("DHE_RSA", "DHE-RSA-", _OTHERS),
    ("RSA", "", tuple(cipher for cipher in _OTHERS if not cipher.startswith("CHACHA20"))),
)
OPENSSL_NAMES = {
    f"TLS_{exchange}_WITH_{cipher}": beginning + _CIPHERS[cipher]
    for exchange, beginning, ciphers in _KEY_EXCHANGES
    for cipher in ciphers
}
"""Suites of TLS 1.2, by Java's names."""


class CipherSuites(NamedTuple):
    """The suites of a setting: of TLS 1.3 by their only names, of TLS 1.2 by OpenSSL's, each in the given order."""

    tls_1_3: tuple[str, ...]
    tls_1_2: tuple[str, ...]


def parse(names: tuple[str, ...]) -> CipherSuites:
    """The suites with these names of Java. Raises ValueError with the names that are none."""
    unknown = [
        name for name in names if name not in OPENSSL_NAMES and name not in TLS_1_3_SUITES and name not in _IGNORED
    ]
    if unknown:
        raise ValueError(
            f"{', '.join(unknown)[:300]}: no such cipher suite is served; names are Java's, as in"
            " TLS_AES_256_GCM_SHA384 and TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
        )
    return CipherSuites(
        tuple(dict.fromkeys(name for name in names if name in TLS_1_3_SUITES)),
        tuple(dict.fromkeys(OPENSSL_NAMES[name] for name in names if name in OPENSSL_NAMES)),
    )
