"""Contexts of the library, and its absence."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.protocol.security.sasl.gssapi_library import GssError, LibraryContext, load
from headgate.protocol.security.sasl.jaas import InvalidJaasConfig


class LibraryError(Exception):
    min_code = -1765328350


LIBRARY = SimpleNamespace(exceptions=SimpleNamespace(GSSError=LibraryError))


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(InvalidJaasConfig, match=r"pip install 'headgate\[kerberos\]'"):
        load()


def test_errors_of_the_library_become_the_one_error() -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise LibraryError("a repeated token")

    with pytest.raises(GssError, match="Kerberos: a repeated token"):
        LibraryContext(LIBRARY, fail)
    context = LibraryContext(LIBRARY, lambda: SimpleNamespace(step=fail, wrap=fail, unwrap=fail))
    for call in (context.step, context.wrap, context.unwrap):
        with pytest.raises(GssError) as failed:
            call(b"")
        assert failed.value.is_retriable
