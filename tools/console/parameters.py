"""The parameters of a request for a resource, checked: each wrong one is one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MOST_VALUES: Final = 1_000
"""Of one parameter."""


class BadParameter(ValueError):
    """A parameter is missing or cannot be used; the text says which one, and what to write."""


class Parameters:
    """The parameters behind the `?` of an address; a name may come several times."""

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def pairs(self) -> list[tuple[str, str]]:
        """All parameters, as the constructor takes them."""
        return [(name, value) for name, values in self._values.items() for value in values]

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str | None = None) -> str:
        """One text; without a default it must be there. Raises BadParameter."""
        values = self._values.get(name)
        if values is None:
            if default is None:
                raise BadParameter(f"the parameter {name} is missing")
            return default
        if len(values) > 1:
            raise BadParameter(f"the parameter {name} is there {len(values)} times; give it once")
        return values[0]

    def texts(self, name: str, most: int = MOST_VALUES) -> list[str]:
        """All texts of a name, as in `?topic=a&topic=b`, each once. Raises BadParameter."""
        values = list(dict.fromkeys(self._values.get(name, ())))
        if len(values) > most:
            raise BadParameter(
                f"the parameter {name} is there {len(values)} times; at most {most} are answered at once"
            )
        return values

    def number(self, name: str, default: int | None = None, *, least: int = 0, most: int = (1 << 63) - 1) -> int:
        """A whole number; without a default it must be there. Raises BadParameter."""
        if default is not None and name not in self._values:
            return default
        text = self.text(name)
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 19 and least <= int(text) <= most):
            raise BadParameter(f"{name}={text[:40]} is no whole number from {least} to {most}")
        return int(text)

    def flag(self, name: str) -> bool:
        """True for `true`; false for `false` and without the parameter. Raises BadParameter."""
        return self.choice(name, ("false", "true")) == "true"

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of the choices; the first one is the default. Raises BadParameter."""
        text = self.text(name, choices[0])
        if text not in choices:
            raise BadParameter(f"{name}={text[:40]} is not one of {', '.join(choices)}")
        return text
