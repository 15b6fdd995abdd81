"""Contexts of the library, and its absence."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.protocol.security.sasl.gssapi_library import GssError, LibraryContext, load
from headgate.protocol.security.sasl.jaas import InvalidJaasConfig

REPEATED = 2529638946


class LibraryError(Exception):
    maj_code, min_code = 851968, REPEATED

    def get_all_statuses(self, code: int, is_major: bool) -> list[str]:
        words = {REPEATED: "a repeated token", 851968: "Unspecified GSS failure"}
        assert is_major == (code == self.maj_code)
        return [words.get(code, "Success")]


LIBRARY = SimpleNamespace(exceptions=SimpleNamespace(GSSError=LibraryError))


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(InvalidJaasConfig, match=r"pip install 'headgate\[kerberos\]'"):
        load()


def test_errors_of_the_library_become_the_one_error() -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise LibraryError

    with pytest.raises(GssError, match="Kerberos: a repeated token"):
        LibraryContext(LIBRARY, fail)
    context = LibraryContext(LIBRARY, lambda: SimpleNamespace(step=fail, wrap=fail, unwrap=fail))
    for call in (context.step, context.wrap, context.unwrap):
        with pytest.raises(GssError) as failed:
            call(b"")
        assert failed.value.is_retriable


def test_an_error_behind_a_token_for_the_peer_is_raised() -> None:
    class Context:
        def step(self, _token: bytes) -> bytes:
            return b"an error of Kerberos"

        @property
        def complete(self) -> bool:
            raise LibraryError

    context = LibraryContext(LIBRARY, Context)
    assert context.step(b"") == b"an error of Kerberos"
    with pytest.raises(GssError, match="Kerberos: a repeated token"):
        assert context.is_complete


@pytest.mark.parametrize("code", [0, 100001])
def test_without_words_of_kerberos_gss_api_has_some(code: int) -> None:
    error = LibraryError()
    error.min_code = code

    def fail() -> object:
        raise error

    with pytest.raises(GssError, match=r"^Kerberos: Unspecified GSS failure$") as failed:
        LibraryContext(LIBRARY, fail)
    assert not failed.value.is_retriable
