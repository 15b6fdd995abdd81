"""Contexts of `gssapi`: what a JAAS line has to say, and the errors of the library."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from headgate.gateway.security.sasl import gssapi_context
from headgate.gateway.security.sasl.tests.test_gssapi import WRAPPED
from headgate.protocol.security.sasl.gssapi_library import GssError
from headgate.protocol.security.sasl.jaas import InvalidJaasConfig

LINE = {"useKeyTab": "true", "keyTab": "/k", "principal": "kafka/h@R"}


@pytest.mark.parametrize("missing", LINE)
def test_a_jaas_line_needs_a_key_table_and_a_principal(missing: str) -> None:
    with pytest.raises(InvalidJaasConfig, match="GSSAPI needs"):
        gssapi_context.acceptor({name: value for name, value in LINE.items() if name != missing})


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(InvalidJaasConfig, match=r"pip install 'headgate\[kerberos\]'"):
        gssapi_context.acceptor(LINE)


def test_a_context_of_the_library_has_the_key_table(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class GSSError(Exception):
        maj_code, min_code = 851968, 2529638946

        def get_all_statuses(self, _code: int, _is_major: bool) -> list[str]:
            return [str(self)]

    class SecurityContext:
        complete, initiator_name = True, "ann@R"

        def __init__(self, **more: Any) -> None:
            asked.append(more["creds"])

        def step(self, token: bytes) -> bytes:
            raise GSSError("a repeated token")

        def wrap(self, message: bytes, encrypt: bool) -> SimpleNamespace:
            return SimpleNamespace(message=WRAPPED + message if not encrypt else b"")

        def unwrap(self, message: bytes) -> SimpleNamespace:
            return SimpleNamespace(message=message)

    library = ModuleType("gssapi")
    library.__dict__.update(
        exceptions=SimpleNamespace(GSSError=GSSError), NameType=SimpleNamespace(kerberos_principal="krb5"),
        Name=lambda name, kind: (name, kind), Credentials=lambda **more: more, SecurityContext=SecurityContext,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "gssapi", library)
    context = gssapi_context.acceptor(LINE)()
    assert asked == [{"name": ("kafka/h@R", "krb5"), "usage": "accept", "store": {"keytab": "FILE:/k"}}]
    assert (context.is_complete, context.initiator_name, context.wrap(b"x")) == (True, "ann@R", WRAPPED + b"x")
    assert context.unwrap(b"y") == b"y"
    with pytest.raises(GssError, match="a repeated token") as error:
        context.step(b"")
    assert error.value.is_retriable
