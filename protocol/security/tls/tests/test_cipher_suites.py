"""Names of cipher suites: Java's, and OpenSSL's."""

from __future__ import annotations

import ssl

import pytest

from headgate.protocol.security.tls.cipher_suites import OPENSSL_NAMES, TLS_1_3_SUITES, parse

# Those that JDK 17 supports and OpenSSL has: TLS_DHE_DSS_* and TLS_EMPTY_RENEGOTIATION_INFO_SCSV are left out
SUPPORTED_BY_JAVA = frozenset(
    """
TLS_AES_256_GCM_SHA384 TLS_AES_128_GCM_SHA256 TLS_CHACHA20_POLY1305_SHA256
TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
TLS_DHE_RSA_WITH_AES_256_GCM_SHA384 TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256 TLS_DHE_RSA_WITH_AES_128_GCM_SHA256
TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384 TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384 TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256
TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256 TLS_DHE_RSA_WITH_AES_256_CBC_SHA256 TLS_DHE_RSA_WITH_AES_128_CBC_SHA256
TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA
TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA TLS_DHE_RSA_WITH_AES_256_CBC_SHA TLS_DHE_RSA_WITH_AES_128_CBC_SHA
TLS_RSA_WITH_AES_256_GCM_SHA384 TLS_RSA_WITH_AES_128_GCM_SHA256 TLS_RSA_WITH_AES_256_CBC_SHA256
TLS_RSA_WITH_AES_128_CBC_SHA256 TLS_RSA_WITH_AES_256_CBC_SHA TLS_RSA_WITH_AES_128_CBC_SHA
""".split()  # noqa: SIM905 - a line for each name would fill a page
)


def test_every_suite_of_java_is_known() -> None:
    assert {*OPENSSL_NAMES, *TLS_1_3_SUITES} == SUPPORTED_BY_JAVA


@pytest.mark.parametrize("name", OPENSSL_NAMES.values())
def test_openssl_knows_every_name(name: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(name)
    assert name in [cipher["name"] for cipher in context.get_ciphers()]


def test_suites_keep_their_order_and_unknown_ones_are_named() -> None:
    names = ("TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    suites = parse((*names, *names, "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"))
    assert suites.tls_1_3 == ("TLS_AES_128_GCM_SHA256",)
    assert suites.tls_1_2 == ("AES128-SHA", "ECDHE-RSA-AES128-GCM-SHA256")
    with pytest.raises(ValueError, match=r"^AES128-SHA, tls_x: no such cipher suite is served"):
        parse(("AES128-SHA", "tls_x", *names))
    assert parse(()) == ((), ())
