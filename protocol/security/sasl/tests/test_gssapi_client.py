"""GSSAPI of clients: a scripted context, and the credentials of a JAAS line."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from headgate.protocol.security.sasl.client_tokens import LoginFailed
from headgate.protocol.security.sasl.gssapi_client import ClientCredentials, gssapi
from headgate.protocol.security.sasl.gssapi_library import GssError
from headgate.protocol.security.sasl.jaas import InvalidJaasConfig

KEY_TABLE = {"useKeyTab": "true", "keyTab": "file:/k", "principal": "alice@R"}


class ScriptedContext:
    """Needs two tokens of the broker; a wrapped message begins with `wrapped`."""

    def __init__(self) -> None:
        self.taken: list[bytes | None] = []

    @property
    def is_complete(self) -> bool:
        return len(self.taken) == 2

    def step(self, token: bytes | None) -> bytes | None:
        self.taken.append(token)
        return None if self.is_complete else b"second"

    def wrap(self, message: bytes) -> bytes:
        return b"wrapped" + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"wrapped"):
            raise GssError("Kerberos: not wrapped")
        return message[7:]


def test_a_login_ends_with_no_security_layer() -> None:
    tokens = gssapi(ScriptedContext(), b"first")
    assert next(tokens) == b"first"
    assert tokens.send(b"one") == b"second"
    assert tokens.send(b"two") == b""
    assert tokens.send(b"wrapped\x07\x00\x10\x00") == b"wrapped\x01\x00\x00\x00"
    with pytest.raises(StopIteration):
        tokens.send(b"")


@pytest.mark.parametrize(
    "offer, sentence",
    [
        (b"plain", "Kerberos: not wrapped"),
        (b"wrapped\x06\0\0\0", "demands a security layer"),
        (b"wrapped\x01", "demands"),
    ],
)
def test_a_broken_offer_is_refused(offer: bytes, sentence: str) -> None:
    context = ScriptedContext()
    context.taken = [b"one", b"two"]
    tokens = gssapi(context, b"first")
    next(tokens)
    with pytest.raises(LoginFailed, match=sentence):
        tokens.send(offer)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The library's calls; a principal `nobody` has no tickets."""
    calls: list[Any] = []

    class GSSError(Exception):
        maj_code = min_code = 7

        def get_all_statuses(self, _code: int, _is_major: bool) -> list[str]:
            return [str(self)]

    def credentials(**fields: Any) -> dict[str, Any]:
        if fields["name"] == ("nobody@R", "krb5"):
            raise GSSError("no credentials cache found")
        return fields

    def security_context(**fields: Any) -> SimpleNamespace:
        calls.append(fields)
        return SimpleNamespace(complete=False, step=lambda token: b"first" if token is None else None)

    library = ModuleType("gssapi")
    library.__dict__.update(
        exceptions=SimpleNamespace(GSSError=GSSError),
        NameType=SimpleNamespace(kerberos_principal="krb5", hostbased_service="service"),
        Name=lambda name, kind: (name, kind),
        Credentials=credentials,
        SecurityContext=security_context,
    )
    monkeypatch.setitem(sys.modules, "gssapi", library)
    return calls


def test_a_key_table_is_used_without_a_cache_of_tickets(made: list[Any]) -> None:
    assert next(ClientCredentials(KEY_TABLE).begin("kafka", "host")) == b"first"
    assert made[0]["name"] == ("kafka@host", "service")
    creds = made[0]["creds"]
    assert (creds["name"], creds["usage"]) == (("alice@R", "krb5"), "initiate")
    assert creds["store"]["client_keytab"] == "FILE:/k"
    assert creds["store"]["ccache"].startswith("MEMORY:")


def test_tickets_of_kinit_are_used(made: list[Any]) -> None:
    next(ClientCredentials({"useTicketCache": "true"}).begin("kafka", "host"))
    next(ClientCredentials({"useTicketCache": "true", "ticketCache": "/c"}).begin("kafka", "host"))
    assert [call["creds"]["store"] for call in made] == [None, {"ccache": "FILE:/c"}]
    assert made[0]["creds"]["name"] is None


@pytest.mark.usefixtures("made")
def test_missing_tickets_are_named_with_their_cure() -> None:
    with pytest.raises(
        LoginFailed, match=r"no credentials cache found; `klist -k /k` shows whether nobody@R has a key"
    ):
        ClientCredentials({**KEY_TABLE, "principal": "nobody@R"}).begin("kafka", "host")
    with pytest.raises(LoginFailed, match=r"no credentials cache found; get a ticket with kinit"):
        ClientCredentials({"useTicketCache": "true", "principal": "nobody@R"}).begin("kafka", "host")


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("missing", KEY_TABLE)
def test_a_jaas_line_needs_credentials(missing: str) -> None:
    with pytest.raises(InvalidJaasConfig, match="GSSAPI"):
        ClientCredentials({name: value for name, value in KEY_TABLE.items() if name != missing})
