"""A value of a setting that no text shows."""

from __future__ import annotations


class Secret:
    """A password: its text is only in `.text`, never in a representation, a log line or a description."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)
