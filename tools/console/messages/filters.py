"""Which messages are shown: those that match every given filter.

A filter of text is a part of the text, or between slashes a regular expression of RE2 (`/order-[0-9]+/`), whose time is
linear in the text. An expression of JMESPath is true unless its result is false, null, or empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headgate.protocol.records.batch import Record
from headgate.tools.console.parameters import BadParameter, Parameters

_LONGEST: Final = 2_000
_MOST_EXPRESSION_BYTES: Final = 8 << 20

Match = Callable[[bytes], bool]


class Filterable(Protocol):
    """A message for the filters. `text` and `value` decode, so they are asked only where the bytes are not enough."""

    @property
    def record(self) -> Record: ...

    def text(self, *, is_key: bool) -> bytes | None:
        """What the decoded key or value has to look through; None if its bytes are all there is."""

    def data(self) -> Any:
        """The value for JMESPath. Raises ValueError."""


@dataclass(frozen=True)
class Filters:
    """The filters of a search; an empty one matches all."""

    key: str = ""
    header: str = ""
    text: str = ""
    jmespath: str = ""

    @classmethod
    def of_parameters(cls, parameters: Parameters) -> Filters:
        """Raises BadParameter, also for an expression that is none."""
        names = ("key", "header", "text", "jmespath")
        filters = cls(*(parameters.text(name, "") for name in names))
        for name in names:
            if len(getattr(filters, name)) > _LONGEST:
                raise BadParameter(f"{name} has more than {_LONGEST} characters")
        filters.compile()
        return filters

    @property
    def is_empty(self) -> bool:
        return not (self.key or self.header or self.text or self.jmespath)

    def compile(self) -> CompiledFilters:
        """Raises BadParameter."""
        return CompiledFilters(self)


class CompiledFilters:
    """Filters that are ready for use; `failed_expressions` counts values that the expression cannot be applied to."""

    def __init__(self, filters: Filters) -> None:
        """Raises BadParameter."""
        self._key = _matcher("key", filters.key)
        name, equals, content = filters.header.partition("=")
        is_expression = filters.header.startswith("/")
        self._header_name = "" if is_expression else name.strip()
        self._header = _matcher("header", filters.header if is_expression else content.strip())
        self._has_header = bool(filters.header)
        self._has_content = bool(equals) or is_expression
        self._text = _matcher("text", filters.text)
        self._expression = _expression(filters.jmespath)
        self.failed_expressions = 0

    def match(self, message: Filterable) -> bool:
        """Whether a message is shown."""
        if self._key is not None and not _matches(self._key, message, is_key=True):
            return False
        if self._has_header and not any(self._matches_header(*header) for header in message.record.headers):
            return False
        if self._text is not None and not self._matches_text(self._text, message):
            return False
        return self._expression is None or self._matches_expression(message)

    @staticmethod
    def _matches_text(match: Match, message: Filterable) -> bool:
        if _matches(match, message, is_key=False) or _matches(match, message, is_key=True):
            return True
        return any(match(name.encode()) or match(content or b"") for name, content in message.record.headers)

    def _matches_header(self, name: str, content: bytes | None) -> bool:
        if self._header_name and name != self._header_name:
            return False
        if self._header is None or not self._has_content:
            return True
        return self._header(content or b"")

    def _matches_expression(self, message: Filterable) -> bool:
        import jmespath

        if message.record.value is None:
            return False
        try:
            result = self._expression.search(message.data())
        except (jmespath.exceptions.JMESPathError, ValueError, TypeError, RecursionError):
            self.failed_expressions += 1
            return False
        return result is True or (result is not False and result is not None and result not in ("", [], {}))


def _matches(match: Match, message: Filterable, *, is_key: bool) -> bool:
    content = message.record.key if is_key else message.record.value
    if content is None:
        return False
    if match(content):
        return True
    text = message.text(is_key=is_key)
    return text is not None and match(text)


def _matcher(name: str, text: str) -> Match | None:
    """Whether bytes have the text, or match the expression between slashes. Raises BadParameter."""
    if not text:
        return None
    if not (len(text) > 2 and text.startswith("/") and text.endswith("/")):
        wanted = text.encode(errors="surrogatepass")
        return lambda content: wanted in content
    import re2

    options = re2.Options()
    options.max_mem = _MOST_EXPRESSION_BYTES
    options.log_errors = False
    try:
        pattern = re2.compile(text[1:-1].encode(errors="surrogatepass"), options=options)
    except re2.error as error:
        [reason] = error.args
        raise BadParameter(f"{name}={text[:40]} is no regular expression of RE2: {_decode(reason)}") from None
    return lambda content: pattern.search(content) is not None


def _decode(reason: bytes | str) -> str:
    return reason.decode(errors="replace") if isinstance(reason, bytes) else reason


def _expression(text: str) -> Any:
    """Raises BadParameter."""
    if not text:
        return None
    import jmespath

    try:
        return jmespath.compile(text)
    except (jmespath.exceptions.JMESPathError, ValueError, RecursionError) as error:
        first = str(error).partition("\n")[0]
        raise BadParameter(f"jmespath={text[:40]} is no expression of JMESPath: {first}") from None
