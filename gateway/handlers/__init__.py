"""What the broker answers: one file an API, each with one public function registered by `@handles`.

A handler takes `(request, context)` and returns the response, `None` (no reply is due), or a `Waiting`. One that must
wait for something outside the process is an `async def`; it runs as a task while its connection is parked.
"""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from gateway.context import Context
from gateway.waiting import Waiting
from protocol.schema import Message

Outcome = Message | Waiting | None
Handler = Callable[[Any, Context], Outcome | Awaitable[Outcome]]


class Registration(NamedTuple):
    """One served API. Versions are inclusive; where `advertised_min` is not `served_min`, the handler says why.

    `is_lasting(response)`: whether the same request from the same viewpoint has the same answer, and no effect, as long
    as the image does not change. Then the answer is kept (`gateway.answers`).
    `stages`: whether it may leave appends to be written with others of its turn (`gateway.replication.appends`).
    """

    request: type[Message]
    served_min: int
    served_max: int
    advertised_min: int
    handler: Handler
    is_lasting: Callable[[Any], bool] | None = None
    stages: bool = False


REGISTRATIONS: dict[int, Registration] = {}


def handles(
    request: type[Message],
    versions: str,
    advertised_from: int | None = None,
    is_lasting: Callable[[Any], bool] | None = None,
    stages: bool = False,
) -> Callable[[Handler], Handler]:
    """Register a handler for `versions` ("0-4", or "3") of a request.

    `advertised_from`: the lowest version that ApiVersions shows when it must differ from what is served; an older
    request is then refused like any version that is not served.
    """
    low, _, high = versions.partition("-")

    def register(handler: Handler) -> Handler:
        served_min = int(low)
        advertised_min = served_min if advertised_from is None else advertised_from
        served_max = int(high or low)
        REGISTRATIONS[request.api_key] = Registration(
            request, served_min, served_max, advertised_min, handler, is_lasting, stages
        )
        return handler

    return register


def load() -> dict[int, Registration]:
    """Import every handler of this package and return the table of what is served, by API key."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return REGISTRATIONS
