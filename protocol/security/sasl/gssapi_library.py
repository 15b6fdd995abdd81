"""The security contexts of the library `gssapi` (the extra `kerberos`), of both sides.

The library is imported at the first use. It has C code that a thread may wait in, without Python's lock.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from headgate.protocol.security.sasl.jaas import InvalidJaasConfig

_MISSING: Final = "GSSAPI needs the extra `kerberos`: pip install 'headgate[kerberos]'"
_CODES: Final = 1 << 32
# Kerberos' KRB_AP_ERR_REPEAT and KRB_AP_ERR_TKT_NYV, without a sign, for which Kafka lets a client try again
_RETRIABLE_CODES: Final = frozenset((-1765328350 % _CODES, -1765328351 % _CODES))
_NO_REASON: Final = "Success"

R = TypeVar("R")


class GssError(Exception):
    """A step of Kerberos failed. `is_retriable`: a new token of the same client may be accepted."""

    def __init__(self, reason: str, *, is_retriable: bool = False) -> None:
        super().__init__(reason)
        self.is_retriable = is_retriable


def load() -> Any:
    """The library. Raises InvalidJaasConfig without the extra `kerberos`."""
    try:
        return importlib.import_module("gssapi")
    except ImportError as error:
        raise InvalidJaasConfig(_MISSING) from error


class LibraryContext:
    """A security context of the library. Every call may raise GssError, and take long."""

    def __init__(self, library: Any, make: Callable[[], object]) -> None:
        self._errors = library.exceptions.GSSError
        self._context: Any = self._called(make)

    @property
    def is_complete(self) -> bool:
        # A step that fails with a token for the peer returns the token; the library raises its error here
        return self._called(lambda: bool(self._context.complete))

    @property
    def initiator_name(self) -> str:
        return str(self._called(lambda: self._context.initiator_name))

    def step(self, token: bytes | None) -> bytes | None:
        return self._called(lambda: cast("bytes | None", self._context.step(token)))

    def wrap(self, message: bytes) -> bytes:
        return bytes(self._called(lambda: self._context.wrap(message, encrypt=False)).message)

    def unwrap(self, message: bytes) -> bytes:
        return bytes(self._called(lambda: self._context.unwrap(message)).message)

    def _called(self, call: Callable[[], R]) -> R:
        try:
            return call()
        except self._errors as error:
            is_retriable = error.min_code % _CODES in _RETRIABLE_CODES
            raise GssError(f"Kerberos: {_reason(error)}", is_retriable=is_retriable) from error


def _reason(error: Any) -> str:
    """Kerberos' own words, where there are some; else those of GSS-API, such as "Unspecified GSS failure"."""
    words = error.get_all_statuses(error.min_code, False) if error.min_code else []
    if not words or _NO_REASON in words:
        words = error.get_all_statuses(error.maj_code, True)
    return ", ".join(words)
