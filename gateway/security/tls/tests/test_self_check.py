"""The handshake of a broker with itself."""

from __future__ import annotations

import pytest

from headgate.gateway.security.tls.self_check import check_connects
from headgate.protocol.security.tls.settings import TlsProblem
from headgate.protocol.security.tls.tests.certificates import CLIENT_AUTH, SERVER_AUTH, Authority, Issued
from headgate.protocol.security.tls.tests.handshakes import client, server

ROOT, OTHER = Authority("Root"), Authority("Other")


def check(issued: Issued, trusted: Authority, **fields: object) -> None:
    without_host = client(issued, trusted, endpoint_identification_algorithm="")
    check_connects(without_host, server(issued, trusted, **fields))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
def test_a_certificate_of_the_trusted_authority_passes(client_auth: str, version: str) -> None:
    check(ROOT.issue(hosts=()), ROOT, client_auth=client_auth, enabled_protocols=(version,))


@pytest.mark.parametrize(
    "issued, sentence",
    [
        (
            OTHER.issue(),
            "refuse the certificate of this broker: unable to get local issuer certificate; the trust store",
        ),
        (ROOT.issue(usage=[CLIENT_AUTH]), "refuse the certificate of this broker: un"),
        (ROOT.issue(usage=[SERVER_AUTH]), "refuse the certificate as a client: un"),
    ],
)
def test_another_certificate_is_refused_in_words(issued: Issued, sentence: str) -> None:
    with pytest.raises(TlsProblem, match=sentence):
        check(issued, ROOT, client_auth="required")


def test_ends_without_a_protocol_in_common_are_refused() -> None:
    issued = ROOT.issue()
    with pytest.raises(TlsProblem, match="cannot connect to another one: "):
        check_connects(
            client(issued, ROOT, endpoint_identification_algorithm="", enabled_protocols=("TLSv1.2",)),
            server(issued, ROOT, enabled_protocols=("TLSv1.3",)),
        )
