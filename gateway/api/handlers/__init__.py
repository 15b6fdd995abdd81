"""What the broker answers: one file an API, each with a public function, or one a range of versions, for `@handles`.

A handler takes `(request, context)` and returns the response, `None` (no reply is due), a `Waiting`, or, for what takes
longer than a millisecond, steps that end in one of these. One that must wait for something outside the process is an
`async def`; it runs as a task while its connection is parked.
"""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from headgate.gateway.api.authorization import Rule, unrestricted
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.runtime.purgatory import Waiting
from headgate.protocol.schema import Message
from headgate.protocol.steps import Steps

Outcome = Message | Waiting | None
Handler = Callable[[Any, HandlerContext], Outcome | Awaitable[Outcome] | Steps[Any]]
H = TypeVar("H", bound=Handler)


class Range(NamedTuple):
    """Versions of one API, both ends included, that are handled by the same function.

    `authorize`: the rule that the request passes before the handler (`gateway.api.authorization`).
    `is_lasting(response)`: whether the same request from the same viewpoint has the same answer, and no effect, as long
    as the image does not change. Then the answer is kept (`gateway.api.response_cache`).
    `stages`: whether it may leave appends to be written with others of its turn (`gateway.replication.write_batcher`).
    """

    first: int
    last: int
    handler: Handler
    authorize: Rule = unrestricted
    is_lasting: Callable[[Any], bool] | None = None
    stages: bool = False


class Registration(NamedTuple):
    """One served API: its ranges, from the lowest version to the highest, without a gap."""

    request: type[Message]
    ranges: tuple[Range, ...]

    @property
    def served_min(self) -> int:
        """The lowest version that is served."""
        return self.ranges[0].first

    @property
    def served_max(self) -> int:
        """The highest version that is served."""
        return self.ranges[-1].last

    def find(self, version: int) -> Range | None:
        """What handles a version; None if it is not served."""
        return next((served for served in self.ranges if served.first <= version <= served.last), None)


REGISTRATIONS: dict[int, Registration] = {}


def handles(
    request: type[Message],
    versions: str,
    *,
    authorize: Rule,
    is_lasting: Callable[[Any], bool] | None = None,
    stages: bool = False,
) -> Callable[[H], H]:
    """Register a handler for `versions` ("0-4", or "3") of a request; see `Range`.

    An API whose old versions need more work has several handlers, so that the newer ones do not even ask.
    """
    low, _, high = versions.partition("-")

    def register(handler: H) -> H:
        added = Range(int(low), int(high or low), handler, authorize, is_lasting, stages)
        known = REGISTRATIONS.get(request.api_key)
        ranges = sorted((added, *(known.ranges if known else ())))
        for before, after in pairwise(ranges):
            if before.last + 1 != after.first:
                raise ValueError(f"the versions {before.first} to {after.last} of {request.__name__} do not touch")
        REGISTRATIONS[request.api_key] = Registration(request, tuple(ranges))
        return handler

    return register


def load() -> dict[int, Registration]:
    """Import every handler of this package and return the table of what is served, by API key."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return REGISTRATIONS
