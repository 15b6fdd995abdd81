"""The plan of a change: what the visitor sees first, and the function that makes exactly this change.

A plan has a digest of what changes. A change is made only if the plan of that moment has the digest of the plan that
was shown: a visitor never changes something else. Numbers that move while others write, as the end of a partition, are
no part of the digest: they stand in the summary and in the notes of lines alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from headgate.tools.client.cluster import Cluster

MOST_LINES: Final = 10_000
"""Of a plan: the page has to show all of them."""


def counted(count: int, noun: str) -> str:
    """`1 record`, `1,234 records`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def named_or_counted(names: Sequence[str], noun: str) -> str:
    """`the topic orders`, `3 topics`."""
    return f"the {noun} {names[0]}" if len(names) == 1 else counted(len(names), noun)


def confirmation_of(names: Sequence[str], noun: str) -> str:
    """The name that the visitor types, or for several things their number."""
    return names[0] if len(names) == 1 else counted(len(names), noun)


class ChangeLine(NamedTuple):
    """One value that changes: of a partition, a config, a rule. `before`, `after`: None where there is nothing.

    `note` may have numbers that move; it is no part of the digest.
    """

    subject: str
    before: str | None = None
    after: str | None = None
    note: str = ""


class ChangeResult(NamedTuple):
    """The parts that were done and those that were refused, as sentences without a full stop.

    `details`: JSON for the page, such as `link`: the parts of an address, `["/topics", "orders", {"tab": "configs"}]`.
    """

    done: Sequence[str]
    failures: Sequence[str] = ()
    details: Mapping[str, Any] = {}

    def answer(self) -> dict[str, Any]:
        """JSON for the page."""
        return {"done": list(self.done), "failures": list(self.failures), "details": dict(self.details)}


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """A change that is not made yet. No field holds a secret.

    `problems`: with any of them the change cannot be made. `command`: the command of Headgate that does the same.
    `confirmation`: a name that the visitor types, for what cannot be undone.
    """

    summary: str
    lines: Sequence[ChangeLine]
    apply: Callable[[Cluster], ChangeResult]
    problems: Sequence[str] = ()
    warnings: Sequence[str] = ()
    command: str = ""
    confirmation: str = ""

    def answer(self) -> dict[str, Any]:
        """JSON for the page, with the digest."""
        lines = self.lines[:MOST_LINES]
        fixed: dict[str, Any] = {
            "problems": [*self.problems, *self._too_many()],
            "warnings": list(self.warnings),
            "command": self.command,
            "confirmation": self.confirmation,
        }
        values = [[line.subject, line.before, line.after] for line in lines]
        digest = hashlib.sha256(json.dumps([values, fixed], sort_keys=True).encode()).hexdigest()
        return {"summary": self.summary, "lines": [line._asdict() for line in lines], **fixed, "digest": digest}

    def _too_many(self) -> list[str]:
        if len(self.lines) <= MOST_LINES:
            return []
        return [f"a change has at most {MOST_LINES} lines, and this one has {len(self.lines)}; choose fewer"]
